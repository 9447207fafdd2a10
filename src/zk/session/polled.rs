//! The work in one session that callers should poll. The session looks at it now and then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::mutex::Mutex;
use crate::zk::shared_lease::SharedLease;

/// How many times in a session timeout the session looks at the work that callers should poll.
pub(crate) const LOOKS: u32 = 8;

/// How many times callers have polled work late, in all sessions: they share the runtime, or at least the processors.
static LATE: AtomicU64 = AtomicU64::new(0);

/// Work that a caller should poll.
pub(crate) trait Looked: Send + Sync {
    /// Looks at the work. `late` says whether callers have polled work late since the session's last look. Returns true
    /// while the session must look again.
    fn look(&self, late: bool) -> bool;
}

/// The work in one session that callers should poll.
#[derive(Default)]
pub(crate) struct Polled(Mutex<Vec<Weak<dyn Looked>>>);

impl Polled {
    /// Adds work. The session looks at it now and then, until it has ended.
    pub(crate) fn insert(&self, work: Weak<dyn Looked>) {
        self.0.lock().push(work);
    }
}

/// Takes in that a caller has polled work late.
pub(crate) fn was_late() {
    LATE.fetch_add(1, Ordering::Relaxed);
}

/// Looks at all work, and for a suspension of the machine, [`LOOKS`] times a session timeout.
pub(crate) async fn patrol(polled: Weak<Polled>, lease: Arc<SharedLease>) {
    let mut before = LATE.load(Ordering::Relaxed);
    while polled.strong_count() > 0 {
        // The background task awaits this, inside its runtime.
        tokio::time::sleep(lease.lengths().timeout / LOOKS).await;
        let Some(polled) = polled.upgrade() else { return };
        lease.wake_after_suspension();
        let late = LATE.load(Ordering::Relaxed);
        let late = std::mem::replace(&mut before, late) != late;
        // Work that begins or ends meanwhile must not find this mutex locked.
        let mut looked = std::mem::take(&mut *polled.0.lock());
        looked.retain(|work| work.upgrade().is_some_and(|work| work.look(late)));
        polled.0.lock().append(&mut looked);
    }
}
