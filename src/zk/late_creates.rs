//! Creates whose reply was lost, and whose node was not found. The servers may still carry them out.
//!
//! Once a session has moved to another server, the leader refuses requests that come by the old one: it notes each
//! session's server. But the leader writes that note when it reads a request to resume the session, and looks at it
//! when it handles a request (`LearnerHandler`, `PrepRequestProcessor`). So this can happen: a create is stuck on its
//! way. Behind it is a request to resume the session there, which the client has given up. Both arrive after the
//! session has moved, and the leader carries the create out.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::link::{Answer, Requester};
use super::shared_lease::SharedLease;
use crate::requests;
use crate::settings::Settings;

/// How long after a search in vain a create may still take effect. A leader drops a server that it does not hear of for
/// `syncLimit` ticks, 10 s by default, and with that server everything that it has not delivered.
const LATEST: Duration = Duration::from_secs(60);

/// A create that was not answered, and whose node was not found.
#[derive(Clone)]
struct Stray {
    lock: Arc<Settings>,
    id: Uuid,
    since: Instant,
}

/// The late creates of one session.
#[derive(Default)]
pub(crate) struct LateCreates(Mutex<Vec<Stray>>);

impl LateCreates {
    /// Adds a create. Returns true if it is the only one, so that the caller must run [`sweep`].
    pub(crate) fn insert(&self, lock: Arc<Settings>, id: Uuid) -> bool {
        let mut strays = self.lock();
        strays.push(Stray { lock, id, since: Instant::now() });
        strays.len() == 1
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Stray>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks for the nodes of late creates and deletes them: whenever a connection comes or goes, and once a session
/// timeout, until no create can take effect any more.
pub(crate) async fn sweep(late: Weak<LateCreates>, lease: Arc<SharedLease>, mut requester: Requester) {
    requester.mark_unchanged();
    while late.strong_count() > 0 {
        // The background task awaits this, inside its runtime.
        let _either = timeout(lease.lengths().timeout, requester.changed()).await;
        let Some(strays) = late.upgrade().map(|late| late.lock().clone()) else { return };
        let mut directories = HashMap::<_, (Arc<Settings>, Vec<Stray>)>::new();
        for stray in strays {
            let lock = stray.lock.clone();
            directories.entry(lock.path.to_string()).or_insert_with(|| (lock, Vec::new())).1.push(stray);
        }
        let began = Instant::now();
        let mut done = HashSet::new();
        for (lock, strays) in directories.into_values() {
            let ids = strays.iter().map(|stray| stray.id).collect();
            if late.strong_count() == 0 {
                return;
            }
            let swept = requester.request(|wire| requests::sweep(wire.client, lock, ids));
            match swept.await {
                Answer::Given(Some(gone), _) => {
                    done.extend(gone);
                    // zklock does not look for a node that is created after this look.
                    let too_old = |stray: &&Stray| began - stray.since >= LATEST;
                    done.extend(strays.iter().filter(too_old).map(|stray| stray.id));
                }
                Answer::Given(None, _) | Answer::Lost => {}
                Answer::Over(_) => return,
            }
        }
        let Some(late) = late.upgrade() else { return };
        let mut strays = late.lock();
        strays.retain(|stray| !done.contains(&stray.id));
        if strays.is_empty() {
            return;
        }
    }
}
