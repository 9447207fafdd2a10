//! Who is measured, behind one interface.

mod client;
mod curator;
mod peer;
mod plain;
mod zklock;
mod zookeeper_client;

use std::sync::Arc;

pub(crate) use client::{Client, Release};
pub(crate) use peer::Peer;
pub(crate) use zookeeper_client::Recipe;

/// Opens a session at `address` for the lock at `directory`.
pub(crate) async fn connect(peer: Peer, address: &str, directory: &str) -> anyhow::Result<Arc<dyn Client>> {
    Ok(match peer {
        Peer::CuratorPermits => Arc::new(curator::CuratorPermits::connect(address, directory).await?),
        Peer::ZookeeperClient(recipe) => {
            Arc::new(zookeeper_client::ZookeeperClient::connect(address, directory, recipe).await?)
        }
        Peer::Raw => Arc::new(plain::Plain::connect(address, directory, false).await?),
        Peer::Watchers => Arc::new(plain::Plain::connect(address, directory, true).await?),
        _ => Arc::new(zklock::Zklock::connect(peer, address, directory).await?),
    })
}
