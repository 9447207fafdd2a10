//! Who is measured, behind one interface.

mod client;
mod raw;
mod zklock;
mod zookeeper_client;

use std::sync::Arc;

pub(crate) use client::Client;
pub(crate) use zookeeper_client::Recipe;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Zklock,
    /// zookeeper-client's own recipe, `Client::lock`.
    ZookeeperClient(Recipe),
    /// A bare create and a bare delete: no lock, but what one cannot be faster than.
    Raw,
}

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zklock => "zklock",
            Self::ZookeeperClient(Recipe { curator: false, .. }) => "zookeeper-client",
            Self::ZookeeperClient(Recipe { curator: true, .. }) => "zookeeper-client/curator",
            Self::Raw => "raw",
        }
    }

    /// Opens a session at `address` for the lock at `directory`.
    pub(crate) async fn connect(self, address: &str, directory: &str) -> anyhow::Result<Arc<dyn Client>> {
        Ok(match self {
            Self::Zklock => Arc::new(zklock::Zklock::connect(address, directory).await?),
            Self::ZookeeperClient(recipe) => {
                Arc::new(zookeeper_client::ZookeeperClient::connect(address, directory, recipe).await?)
            }
            Self::Raw => Arc::new(raw::Raw::connect(address, directory).await?),
        })
    }
}
