//! What the clients do while they are measured.

mod laps;
mod queue;
mod readers;
mod slice;
mod turns;

use std::time::Duration;

use crate::args::{Detail, Scenario};
use crate::peers::Peer;
use crate::stage::Stage;
use laps::Laps;
use queue::Queue;
use readers::Readers;
pub(crate) use slice::Slice;
pub(crate) use turns::run;

impl Scenario {
    /// Who takes part.
    pub(crate) fn peers(self) -> &'static [Peer] {
        match self {
            Self::Free => &[Peer::Zklock, Peer::ZookeeperClient, Peer::Raw],
            Self::Contended | Self::Queue => &[Peer::Zklock, Peer::ZookeeperClient],
            Self::Keys => &[Peer::ZklockKeys, Peer::Zklock, Peer::ZookeeperClient],
            Self::Permits => &[Peer::ZklockPermits, Peer::CuratorPermits, Peer::Zklock],
            Self::Multi => &[Peer::ZklockSeveral, Peer::Zklock],
            Self::Readers => &[Peer::ZklockReaders, Peer::Zklock, Peer::Watchers],
        }
    }
}

/// One peer's clients in their places.
pub(crate) enum Cast {
    Laps(Laps),
    Queue(Queue),
    Readers(Readers),
}

impl Cast {
    pub(crate) async fn new(peer: Peer, detail: &Detail, stage: &Stage) -> anyhow::Result<Self> {
        let Detail { clients, tasks, .. } = *detail;
        let contended = async |tasks, hold| Laps::contended(peer, clients, tasks, hold, stage).await;
        Ok(match detail.scenario {
            Scenario::Free | Scenario::Multi => Self::Laps(Laps::free(peer, clients, stage).await?),
            Scenario::Contended => Self::Laps(contended(1, detail.hold()).await?),
            Scenario::Permits => Self::Laps(contended(1, Duration::ZERO).await?),
            Scenario::Keys => Self::Laps(contended(tasks, detail.hold()).await?),
            Scenario::Queue => Self::Queue(Queue::new(peer, clients, stage).await?),
            // A lock has one successor, a writer as many as there are readers.
            Scenario::Readers if peer == Peer::Zklock => Self::Readers(Readers::new(peer, 1, stage).await?),
            Scenario::Readers => Self::Readers(Readers::new(peer, clients, stage).await?),
        })
    }

    pub(crate) async fn perform(&self, stage: &Stage, cycles: u32) -> anyhow::Result<Slice> {
        match self {
            Self::Laps(laps) => laps.perform(cycles).await,
            Self::Queue(queue) => queue.perform(stage, cycles).await,
            Self::Readers(readers) => readers.perform(stage, cycles).await,
        }
    }

    /// The directories of the locks, all of them empty between two slices.
    pub(crate) fn directories(&self) -> &[String] {
        match self {
            Self::Laps(laps) => &laps.directories,
            Self::Queue(queue) => &queue.directories,
            Self::Readers(readers) => &readers.directories,
        }
    }
}
