//! Creates whose reply was lost, and whose node was not found. The servers may still carry them out.
//!
//! Once a session has moved to another server, the leader refuses requests that come by the old one: it notes each
//! session's server. But the leader writes that note when it reads a request to resume the session, and looks at it
//! when it handles a request (`LearnerHandler`, `PrepRequestProcessor`). So this can happen: a create is stuck on its
//! way. Behind it is a request to resume the session there, which the client has given up. Both arrive after the
//! session has moved, and the leader carries the create out.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::warn;
use uuid::Uuid;
use zklock_recipe::SessionEnd;

use crate::mutex::Mutex;
use crate::requests::{self, LostCreate, Searches, Swept};
use crate::settings::Settings;
use crate::wire::link::{LinkAnswer, Requester};
use crate::wire::shared_lease::SharedLease;

/// How long after a search in vain a create may still take effect. A leader drops a server that it does not hear of for
/// `syncLimit` ticks, 10 s by default, and with that server everything that it has not delivered. A client's kernel sends again what
/// a closed connection has left: for 102 s, with pauses of up to 51 s (Linux, `tcp_orphan_retries`).
pub(crate) const LATEST: Duration = Duration::from_secs(60);

/// A create that was not answered, and whose node was not found.
#[derive(Clone)]
struct Stray {
    create: LostCreate,
    since: Instant,
}

/// The late creates of one session.
#[derive(Default)]
pub(crate) struct LateCreates(Mutex<Vec<Stray>>);

impl LateCreates {
    /// Adds a create. Returns true if it is the only one, so that the caller must run [`sweep`].
    pub(crate) fn insert(&self, lock: Arc<Settings>, id: Uuid) -> bool {
        let mut strays = self.0.lock();
        strays.push(Stray { create: (lock, id), since: Instant::now() });
        strays.len() == 1
    }
}

/// Looks for the nodes of late creates and deletes them: whenever a connection comes or goes, and once a session
/// timeout, until no create can take effect any more.
pub(crate) async fn sweep(
    late: Weak<LateCreates>,
    searches: Arc<Searches>,
    lease: Arc<SharedLease>,
    mut requester: Requester,
) {
    requester.mark_unchanged();
    while late.strong_count() > 0 {
        // The background task awaits this, inside its runtime.
        let _either = timeout(lease.lengths().timeout, requester.changed()).await;
        let Some(strays) = late.upgrade().map(|late| late.0.lock().clone()) else { return };
        let began = Instant::now();
        let creates = strays.iter().map(|stray| stray.create.clone()).collect();
        let searches = searches.clone();
        let swept = requester.request(|wire| requests::sweep(wire.client, creates, searches));
        let swept = match swept.await {
            LinkAnswer::Given(Ok(Some(swept)), _) => swept,
            LinkAnswer::Given(Ok(None), _) | LinkAnswer::Lost => continue,
            // It may be the node of one of these creates.
            LinkAnswer::Given(Err((path, refusal)), _) => {
                warn!(
                    path, %refusal,
                    "zklock cannot tell to which contender a node of this session belongs, or may not delete the node; \
                     it closes the ZooKeeper session, so that ZooKeeper deletes the node"
                );
                return lease.ended(SessionEnd::Closed);
            }
            LinkAnswer::Over(_) => return,
        };
        let Some(late) = late.upgrade() else { return };
        let mut strays = late.0.lock();
        // Those that came meanwhile are behind those that were swept. zklock does not look for a node that is created
        // after its last look.
        let mut swept = swept.into_iter();
        strays.retain(|stray| match swept.next() {
            Some(Swept::Gone) => false,
            Some(Swept::Nothing) => began - stray.since < LATEST,
            Some(Swept::Stays) | None => true,
        });
        if strays.is_empty() {
            return;
        }
    }
}
