//! Clients acquire and release in a closed loop.
//!
//! *Free*: each has a lock of its own, or several (*multi*). A cycle ends when the lock is free again, because the next one
//! can have it no earlier. *Contended*: all have one lock, which is never free, so the time a cycle takes on the whole, less the time for
//! which the lock was held, is the time of a handoff.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::future::try_join_all;
use tokio::sync::Mutex;
use zklock_test_support::peers::Client::Curator as CURATOR;

use super::slice::Slice;
use crate::peers::{Client, Peer, connect};
use crate::program::{Lap, Program};
use crate::stage::Stage;

/// Longer than anybody measures.
const FOREVER: Duration = Duration::from_secs(86_400);

pub(crate) struct Laps {
    hold: Duration,
    clients: Vec<Arc<dyn Client>>,
    /// Clients of Curator's, so many, which run in a program of their own.
    program: Option<Box<(Mutex<Program>, u32)>>,
    tasks: u32,
    pub(crate) directories: Vec<String>,
}

impl Laps {
    /// Each client has a lock of its own.
    pub(super) async fn free(peer: Peer, clients: u32, stage: &Stage) -> anyhow::Result<Self> {
        let mut cast = Self {
            hold: Duration::ZERO,
            clients: Vec::new(),
            program: None,
            tasks: 1,
            directories: Vec::new(),
        };
        for number in 0..clients {
            let mut first = None;
            for name in peer.directories(&format!("{}/{number}", peer.name())) {
                let directory = stage.directory(&name).await?;
                first.get_or_insert_with(|| directory.clone());
                cast.directories.push(directory);
            }
            let first = first.context("a peer without a lock")?;
            cast.clients.push(connect(peer, &stage.link().address(), &first).await?);
        }
        Ok(cast)
    }

    /// All tasks of all clients have one lock.
    pub(super) async fn contended(
        peer: Peer,
        clients: u32,
        tasks: u32,
        hold: Duration,
        stage: &Stage,
    ) -> anyhow::Result<Self> {
        let directory = stage.directory(peer.name()).await?;
        let directories = peer.directories(&directory);
        let address = stage.link().address();
        if peer == Peer::CuratorPermits {
            let program = CURATOR.program();
            let program = Program::start("Curator", program, &[address], &directory, "permits").await?;
            let program = Some(Box::new((Mutex::new(program), clients)));
            return Ok(Self { hold, clients: Vec::new(), program, tasks, directories });
        }
        let clients = try_join_all((0..clients).map(|_| connect(peer, &address, &directory))).await?;
        Ok(Self { hold, clients, program: None, tasks, directories })
    }

    /// Has each measured client go through so many cycles.
    pub(super) async fn perform(&self, cycles: u32) -> anyhow::Result<Slice> {
        if let Some((program, clients)) = self.program.as_deref() {
            return Ok(slice(&program.lock().await.laps(*clients, cycles, FOREVER).await?, *clients));
        }
        let start = Instant::now();
        let clients = self.clients.iter().flat_map(|client| (0..self.tasks).map(|_| client.clone()));
        let tasks = clients.map(|client| tokio::spawn(run(client, cycles, self.hold))).collect::<Vec<_>>();
        let count = tasks.len();
        let mut slice = Slice::default();
        let mut held = Duration::ZERO;
        for laps in try_join_all(tasks).await? {
            let laps = laps?;
            slice.cycles.extend(laps.cycles);
            slice.longest_wait = slice.longest_wait.max(laps.longest_wait);
            held += laps.held;
        }
        slice.wall = start.elapsed().saturating_sub(held);
        slice.handoffs = slice.cycles.len() as u64;
        slice.contenders = count;
        Ok(slice)
    }
}

/// A slice of a program, whose cycles are waits.
fn slice(laps: &[Lap], clients: u32) -> Slice {
    Slice {
        wall: laps.iter().map(|lap| lap.ended).max().unwrap_or_default(),
        cycles: laps.iter().map(|lap| lap.took).collect(),
        handoffs: laps.len() as u64,
        contenders: clients as usize,
        longest_wait: laps.iter().map(|lap| lap.took).max().unwrap_or_default(),
    }
}

#[derive(Default)]
struct Run {
    cycles: Vec<Duration>,
    longest_wait: Duration,
    held: Duration,
}

async fn run(client: Arc<dyn Client>, cycles: u32, hold: Duration) -> anyhow::Result<Run> {
    let mut own = Run::default();
    for _ in 0..cycles {
        let start = Instant::now();
        let release = client.acquire().await?.release;
        let held = Instant::now();
        own.longest_wait = own.longest_wait.max(held - start);
        if !hold.is_zero() {
            tokio::time::sleep(hold).await;
            own.held += held.elapsed();
        }
        release.await?;
        own.cycles.push(start.elapsed());
    }
    Ok(own)
}
