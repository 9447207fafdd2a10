//! The stage of one run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use uuid::Uuid;
use zklock_contest::record::Who;
use zklock_contest::register::Store;

use super::holds::Hold;
use super::kind::Kind;
use super::servers::Servers;
use crate::harness::Instant;

/// The TTL of the Redis locks and the session timeout of zklock.
pub(super) const TTL: Duration = Duration::from_secs(2);

/// The first of the two contenders.
pub(super) const FIRST: Who = Who { client: 0, task: 0 };

/// The holds of all contenders of a run.
pub(super) type Holds = Arc<Mutex<Vec<Hold>>>;

pub(super) struct Stage {
    pub(super) kind: Kind,
    pub(super) servers: Arc<Servers>,
    /// The lock's key, or path: nobody else's.
    pub(super) key: String,
    pub(super) register: Arc<Mutex<Store>>,
    pub(super) holds: Holds,
}

impl Stage {
    pub(super) async fn set(kind: Kind, servers: Arc<Servers>) -> anyhow::Result<Self> {
        let key = format!("/redis/{}", Uuid::new_v4());
        servers.make_directory(kind, &key).await?;
        Ok(Self { kind, servers, key, register: Arc::default(), holds: Holds::default() })
    }

    /// The first contender's hold was granted by the server then, and it did not know until it acquired the lock.
    pub(super) fn was_granted(&self, at: Instant) {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.iter_mut().filter(|hold| hold.contender == FIRST).for_each(|hold| hold.granted = at);
    }
}
