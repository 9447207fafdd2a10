//! What the clients do while they are measured.

mod cast;
mod laps;
mod queue;

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
