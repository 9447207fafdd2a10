//! What the clients do while they are measured.

mod cast;
mod laps;
mod queue;
mod readers;

use std::time::Duration;

pub(crate) use cast::{Cast, Slice};

use crate::args::{Compare, Scenario};
use crate::peers::{Peer, Recipe};
use crate::stage::Stage;

impl Scenario {
    /// Who takes part.
    pub(crate) fn peers(self, recipe: Recipe) -> Vec<Peer> {
        let locks = [Peer::Zklock, Peer::ZookeeperClient(recipe)];
        match self {
            Self::Free => locks.into_iter().chain([Peer::Raw]).collect(),
            Self::Contended | Self::Queue => locks.into(),
            Self::Keys => vec![Peer::ZklockKeys, Peer::Zklock, Peer::ZookeeperClient(recipe)],
            Self::Permits => vec![Peer::ZklockPermits, Peer::CuratorPermits, Peer::Zklock],
            Self::Multi => vec![Peer::ZklockSeveral, Peer::Zklock],
            Self::Readers => vec![Peer::ZklockReaders, Peer::Zklock, Peer::Watchers],
        }
    }

    /// Puts a peer's clients in their places.
    pub(crate) async fn cast(peer: Peer, compare: &Compare, stage: &Stage) -> anyhow::Result<Box<dyn Cast>> {
        let clients = compare.clients;
        Ok(match compare.scenario {
            Self::Free | Self::Multi => Box::new(laps::Laps::free(peer, clients, stage).await?),
            Self::Contended => {
                Box::new(laps::Laps::contended(peer, clients, 1, compare.hold(), stage).await?)
            }
            Self::Permits => Box::new(laps::Laps::contended(peer, clients, 1, Duration::ZERO, stage).await?),
            Self::Keys => {
                Box::new(laps::Laps::contended(peer, clients, compare.tasks, compare.hold(), stage).await?)
            }
            Self::Queue => Box::new(queue::Queue::new(peer, clients, stage).await?),
            // A lock has one successor, a writer as many as there are readers.
            Self::Readers if peer == Peer::Zklock => Box::new(readers::Readers::new(peer, 1, stage).await?),
            Self::Readers => Box::new(readers::Readers::new(peer, clients, stage).await?),
        })
    }
}
