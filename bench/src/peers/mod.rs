//! Who is measured, behind one interface.

mod client;
mod peer;
mod plain;
mod postgres;
mod redis;
mod zklock;
mod zookeeper_client;

use std::sync::Arc;

use zklock_proof::redis_lock::{Redisson, SetNxPx};

pub(crate) use client::{Client, SESSION_TIMEOUT};
pub(crate) use peer::Peer;

pub(crate) async fn connect(peer: Peer, address: &str, directory: &str) -> anyhow::Result<Arc<dyn Client>> {
    Ok(match peer {
        Peer::ZookeeperClient => {
            Arc::new(zookeeper_client::ZookeeperClient::connect(address, directory).await?)
        }
        Peer::Raw => Arc::new(plain::Plain::connect(address, directory, false).await?),
        Peer::Watchers => Arc::new(plain::Plain::connect(address, directory, true).await?),
        Peer::RedisPolling => Arc::new(redis::Redis::<SetNxPx>::connect(address, directory).await?),
        Peer::Redisson => Arc::new(redis::Redis::<Redisson>::connect(address, directory).await?),
        Peer::Postgres => Arc::new(postgres::Postgres::connect(address, directory).await?),
        _ => Arc::new(zklock::Zklock::connect(peer, address, directory).await?),
    })
}
