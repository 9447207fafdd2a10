//! Clients wait behind a writer, and are granted the lock by its release: all of them if they are readers.
//!
//! Each waiter has a session of its own. A cycle's time runs from the moment the writer begins to release until the last of
//! them holds the lock. They hold it until then. The waiters do not go through the link: its threads, two a connection,
//! would take most of that time.
//!
//! Beside readers, one plain waiter is measured, and as many bare watches as there are readers: one handover, and the time
//! that a server takes to send so many events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::future::{BoxFuture, try_join_all};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::slice::Slice;
use crate::peers::{Client, Peer, connect};
use crate::stage::Stage;

const AT_ONCE: usize = 50;

pub(crate) struct Readers {
    writer: Arc<dyn Client>,
    waiters: Vec<Arc<dyn Client>>,
    pub(crate) directories: [String; 1],
}

struct Queue<'a> {
    /// Releases the writer's lock.
    front: BoxFuture<'a, anyhow::Result<()>>,
    /// Each says when it was granted the lock. It has released by then.
    waiters: Vec<JoinHandle<anyhow::Result<Instant>>>,
}

impl Readers {
    pub(super) async fn new(peer: Peer, waiters: u32, stage: &Stage) -> anyhow::Result<Self> {
        let directory = stage.directory(&format!("{}/0", peer.name())).await?;
        let front = if peer == Peer::Watchers { Peer::Raw } else { Peer::Zklock };
        let writer = connect(front, stage.address(), &directory).await?;
        let waiters = connect_all(peer, waiters as usize, stage.address(), &directory).await?;
        Ok(Self { writer, waiters, directories: [directory] })
    }

    /// Returns once each waiter watches the writer, which holds the lock.
    async fn queue(&self, stage: &Stage) -> anyhow::Result<Queue<'_>> {
        let [directory] = &self.directories;
        let front = self.writer.acquire().await?.release;
        let (told, hold) = watch::channel(0);
        let all = self.waiters.len();
        let spawn =
            |waiter: &Arc<dyn Client>| tokio::spawn(pass(waiter.clone(), told.clone(), hold.clone(), all));
        let waiters = self.waiters.iter().map(spawn).collect();
        stage.wait_for_children(directory, all + 1).await?;
        // Each watches the writer twice.
        stage.wait_for_watches(2 * all as u64).await?;
        Ok(Queue { front, waiters })
    }

    /// From the writer's release to the last grant.
    async fn cycle(&self, stage: &Stage) -> anyhow::Result<Duration> {
        let Queue { front, waiters } = self.queue(stage).await?;
        let start = Instant::now();
        front.await?;
        let last = self.end(stage, waiters).await?;
        Ok(last.duration_since(start))
    }

    /// Waits until all have released. Returns the instant of the last grant.
    async fn end(
        &self,
        stage: &Stage,
        waiters: Vec<JoinHandle<anyhow::Result<Instant>>>,
    ) -> anyhow::Result<Instant> {
        let [directory] = &self.directories;
        let granted = try_join_all(waiters).await?.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        stage.wait_for_children(directory, 0).await?;
        granted.into_iter().max().context("nobody waited")
    }

    /// Has each measured client go through so many cycles.
    pub(super) async fn perform(&self, stage: &Stage, cycles: u32) -> anyhow::Result<Slice> {
        let mut slice = Slice::default();
        for _ in 0..cycles {
            let time = self.cycle(stage).await?;
            slice.wall += time;
            slice.cycles.push(time);
            slice.handoffs += self.waiters.len() as u64;
        }
        Ok(slice)
    }
}

async fn connect_all(
    peer: Peer,
    count: usize,
    address: &str,
    directory: &str,
) -> anyhow::Result<Vec<Arc<dyn Client>>> {
    let connects = (0..count).map(|_| connect(peer, address, directory));
    stream::iter(connects).buffer_unordered(AT_ONCE).try_collect().await
}

async fn pass(
    client: Arc<dyn Client>,
    told: watch::Sender<usize>,
    mut hold: watch::Receiver<usize>,
    all: usize,
) -> anyhow::Result<Instant> {
    let release = client.acquire().await?.release;
    let granted = Instant::now();
    // Whoever were woken at each grant would delay the next.
    told.send_if_modified(|hold| {
        *hold += 1;
        *hold >= all
    });
    hold.wait_for(|hold| *hold >= all).await?;
    release.await?;
    Ok(granted)
}
