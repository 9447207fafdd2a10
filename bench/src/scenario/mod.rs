//! What the clients do while they are measured.

mod laps;
mod queue;

use std::time::Duration;

use futures::future::BoxFuture;

use crate::args::{Compare, Scenario};
use crate::peers::{Peer, Recipe};
use crate::stage::Stage;

/// One peer's clients in their places.
pub(crate) trait Cast: Send + Sync {
    /// Has each measured client go through so many cycles.
    fn perform<'a>(&'a self, stage: &'a Stage, cycles: u32) -> BoxFuture<'a, anyhow::Result<Slice>>;

    /// The directories of the locks, all of them empty between two slices.
    fn directories(&self) -> &[String];
}

/// What a slice of the measurement took.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// From its start to its end, less what was not measured.
    pub(crate) wall: Duration,
    /// Each cycle of each client.
    pub(crate) cycles: Vec<Duration>,
    /// How often a lock changed hands.
    pub(crate) handoffs: u64,
}

impl Scenario {
    /// Who takes part.
    pub(crate) fn peers(self, recipe: Recipe) -> Vec<Peer> {
        let locks = [Peer::Zklock, Peer::ZookeeperClient(recipe)];
        match self {
            Self::Free => locks.into_iter().chain([Peer::Raw]).collect(),
            Self::Contended | Self::Queue => locks.into(),
        }
    }

    /// Puts a peer's clients in their places.
    pub(crate) async fn cast(peer: Peer, compare: &Compare, stage: &Stage) -> anyhow::Result<Box<dyn Cast>> {
        let clients = compare.clients;
        Ok(match compare.scenario {
            Self::Free => Box::new(laps::Laps::free(peer, clients, stage).await?),
            Self::Contended => Box::new(laps::Laps::contended(peer, clients, compare.hold(), stage).await?),
            Self::Queue => Box::new(queue::Queue::new(peer, clients, stage).await?),
        })
    }
}
