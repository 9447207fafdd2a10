//! All clients acquire and release one lock, with nothing in between: the lock is never free, so the time a cycle takes
//! on the whole is the time of a handoff.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};

use super::{Cast, Slice};
use crate::peers::{Client, Peer};
use crate::stage::Stage;

pub(super) struct Contended {
    clients: Vec<Arc<dyn Client>>,
    directories: [String; 1],
}

impl Contended {
    pub(super) async fn new(peer: Peer, clients: u32, stage: &Stage) -> anyhow::Result<Self> {
        let directory = stage.directory(peer.name()).await?;
        let address = stage.link().address();
        let clients = try_join_all((0..clients).map(|_| peer.connect(&address, &directory))).await?;
        Ok(Self { clients, directories: [directory] })
    }
}

impl Cast for Contended {
    fn perform<'a>(&'a self, _: &'a Stage, cycles: u32) -> BoxFuture<'a, anyhow::Result<Slice>> {
        async move {
            let start = Instant::now();
            let tasks = self.clients.iter().map(|client| tokio::spawn(run(client.clone(), cycles)));
            let mut slice = Slice::default();
            for cycles in try_join_all(tasks).await? {
                slice.cycles.extend(cycles?);
            }
            slice.wall = start.elapsed();
            slice.handoffs = slice.cycles.len() as u64;
            Ok(slice)
        }
        .boxed()
    }

    fn directories(&self) -> &[String] {
        &self.directories
    }
}

async fn run(client: Arc<dyn Client>, cycles: u32) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..cycles {
        let start = Instant::now();
        client.acquire().await?.release().await?;
        times.push(start.elapsed());
    }
    Ok(times)
}
