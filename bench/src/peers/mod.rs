//! Who is measured, behind one interface.

mod raw;
mod zklock;
mod zookeeper_client;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

/// Everybody's session timeout.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// What everybody's nodes contain, at zklock's length: an id, an owner, a time.
const DATA: &[u8] = br#"{"id":"00000000-0000-4000-8000-000000000000","owner":"bench","since":1700000000000}"#;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Zklock,
    /// zookeeper-client's own recipe, `Client::lock`.
    ZookeeperClient(Recipe),
    /// A bare create and a bare delete: no lock, but what one cannot be faster than.
    Raw,
}

/// What can be chosen about zookeeper-client's recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    /// It queues in Curator's layout. That tells contenders of one session apart after a lost reply, at the price of
    /// longer names; the other layout is the one that is fastest.
    pub(crate) curator: bool,
    /// It releases by dropping, all it offers for that: a task in the background then deletes the node. Otherwise
    /// that request is awaited, which is faster where the same session goes on to acquire: of two small requests in a
    /// row, Nagle's algorithm holds the second.
    pub(crate) drops: bool,
}

/// A client of one peer, with a session and a lock. It may contend several times at once.
pub(crate) trait Client: Send + Sync {
    /// Acquires the lock.
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Box<dyn Held + '_>>>;
}

/// A lock that is held.
pub(crate) trait Held: Send {
    /// Releases it; returns once it is free, where the peer can tell.
    fn release<'a>(self: Box<Self>) -> BoxFuture<'a, anyhow::Result<()>>
    where
        Self: 'a;
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
