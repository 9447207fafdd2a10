//! One client enters a queue in which others wait already, and is served after them.
//!
//! Only that client is behind the link, so what the link counts is what one acquisition costs: entering, waiting, being
//! granted and leaving. A cycle's time runs from the moment the holder in front leaves until the client holds the lock,
//! so it is that of as many handoffs as there are waiters, and one.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use futures::future::try_join_all;

use super::slice::Slice;
use crate::peers::{Client, Peer, connect};
use crate::stage::Stage;

/// How many sessions the others share.
const SESSIONS: usize = 4;

pub(crate) struct Queue {
    measured: Arc<dyn Client>,
    others: Vec<Arc<dyn Client>>,
    waiters: usize,
    pub(crate) directories: [String; 1],
}

impl Queue {
    pub(super) async fn new(peer: Peer, waiters: u32, stage: &Stage) -> anyhow::Result<Self> {
        let directory = stage.directory(peer.name()).await?;
        let measured = connect(peer, &stage.link().address(), &directory).await?;
        let others = try_join_all((0..SESSIONS).map(|_| connect(peer, stage.address(), &directory))).await?;
        Ok(Self { measured, others, waiters: usize::try_from(waiters)?, directories: [directory] })
    }

    async fn cycle(&self, stage: &Stage, slice: &mut Slice) -> anyhow::Result<()> {
        let [directory] = &self.directories;
        let holder = self.others.first().context("nobody to hold the lock")?.clone();
        let release = holder.acquire().await?.release;
        let queue: Vec<_> = self.others.iter().cycle().take(self.waiters).cloned().collect();
        let waiters: Vec<_> = queue.into_iter().map(|client| tokio::spawn(pass(client))).collect();
        stage.wait_for_children(directory, self.waiters + 1).await?;

        let before = stage.link().counts().requests;
        let measured = self.measured.clone();
        let acquired = tokio::spawn(async move {
            let release = measured.acquire().await?.release;
            let at = Instant::now();
            release.await?;
            anyhow::Ok(at)
        });
        stage.wait_for_children(directory, self.waiters + 2).await?;
        // It has seen its place in the queue, too.
        stage.wait_for_replies(before + 2).await?;

        let start = Instant::now();
        release.await?;
        let time = acquired.await??.duration_since(start);
        for passed in try_join_all(waiters).await? {
            passed?;
        }
        slice.wall += time;
        slice.cycles.push(time);
        slice.handoffs += self.waiters as u64 + 1;
        stage.wait_for_children(directory, 0).await
    }

    pub(super) async fn perform(&self, stage: &Stage, cycles: u32) -> anyhow::Result<Slice> {
        let mut slice = Slice::default();
        for _ in 0..cycles {
            self.cycle(stage, &mut slice).await?;
        }
        Ok(slice)
    }
}

async fn pass(client: Arc<dyn Client>) -> anyhow::Result<()> {
    client.acquire().await?.release.await
}
