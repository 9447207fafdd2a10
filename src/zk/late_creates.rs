//! Creates of which the reply was lost, and no node was found: they may be carried out late.
//!
//! What a session sends by a server is refused once it has moved to another one, by the leader's note of its server. But
//! the leader takes that note when it reads a request to resume the session, and looks at it when it handles a request
//! (`LearnerHandler`, `PrepRequestProcessor`). So if a create is stuck on its way, and behind it a request to resume the
//! session there, of which the client has heard nothing, then both may arrive after the session has moved, and the create
//! is carried out.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::link::{Answer, Requester};
use super::shared_lease::SharedLease;
use crate::requests;
use crate::settings::Settings;

/// For so long after a create was looked for in vain it may yet take effect. A leader drops a server that it does not hear
/// of for `syncLimit` ticks, 10 s by default, and with it whatever that server has not delivered.
const LATEST: Duration = Duration::from_secs(60);

/// A create that was not answered, and of which no node was found.
#[derive(Clone)]
struct Stray {
    lock: Arc<Settings>,
    id: Uuid,
    since: Instant,
}

/// Those of one session.
#[derive(Default)]
pub(crate) struct LateCreates(Mutex<Vec<Stray>>);

impl LateCreates {
    /// Takes up a create. True if it is the only one, so that [`sweep`] is to be run.
    pub(crate) fn insert(&self, lock: Arc<Settings>, id: Uuid) -> bool {
        let mut strays = self.lock();
        strays.push(Stray { lock, id, since: Instant::now() });
        strays.len() == 1
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Stray>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks for nodes that came to be late, whenever a connection comes or goes and once a session timeout, until none can any
/// more.
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
                    // A node that comes to be after this look is not looked for.
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
