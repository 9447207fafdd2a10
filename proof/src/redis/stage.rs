//! The stage of one run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use super::holds::Hold;
use super::kind::Kind;
use super::servers::Servers;
use crate::harness::Instant;
use crate::harness::register::Register;

/// The TTL of the Redis locks and the session timeout of zklock.
pub(super) const TTL: Duration = Duration::from_secs(2);

/// The holds of all contenders of a run.
pub(super) type Holds = Arc<Mutex<Vec<Hold>>>;

/// What two contenders need for one run.
pub(super) struct Stage {
    pub(super) kind: Kind,
    pub(super) servers: Arc<Servers>,
    /// The lock's key, or path: nobody else's.
    pub(super) key: String,
    pub(super) register: Register<usize>,
    pub(super) holds: Holds,
}

impl Stage {
    pub(super) async fn set(kind: Kind, servers: Arc<Servers>) -> anyhow::Result<Self> {
        let key = format!("/redis/{}", Uuid::new_v4());
        servers.make_directory(kind, &key).await?;
        Ok(Self { kind, servers, key, register: Register::open().await?, holds: Holds::default() })
    }

    /// The first contender's hold was granted by the server then, and it did not know until it acquired the lock.
    pub(super) fn was_granted(&self, at: Instant) {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.iter_mut().filter(|hold| hold.contender == 0).for_each(|hold| hold.granted = at);
    }
}
