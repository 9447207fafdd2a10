//! The work in one session that callers should poll. The session looks at it now and then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use crate::mutex::Mutex;
use crate::wire::shared_lease::SharedLease;

/// How many times in a session timeout the session looks at the work that callers should poll.
pub(crate) const LOOKS: u32 = 8;

/// Work that a caller should poll.
pub(crate) trait Looked: Send + Sync {
    /// Looks at the work. `late` says whether callers have polled work late since the session's last look. Returns true
    /// while the session must look again.
    fn look_at_work(&self, late: bool) -> bool;
}

/// The work in one session that callers should poll.
#[derive(Default)]
pub(crate) struct Polled {
    work: Mutex<Vec<Weak<dyn Looked>>>,
    late: Arc<Late>,
}

/// Whether callers have polled work of the session late since its last look. Work keeps this, and not [`Polled`], which ends with the
/// session.
#[derive(Default)]
pub(crate) struct Late(AtomicBool);

impl Late {
    /// Takes in that a caller has polled work late.
    pub(crate) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Polled {
    /// Adds work. The session looks at it now and then, until it has ended.
    pub(crate) fn insert(&self, work: Weak<dyn Looked>) {
        self.work.lock().push(work);
    }

    pub(crate) fn late(&self) -> Arc<Late> {
        self.late.clone()
    }
}

/// Looks at all work, and for a suspension of the machine, [`LOOKS`] times a session timeout.
pub(crate) async fn patrol(polled: Weak<Polled>, lease: Arc<SharedLease>) {
    while polled.strong_count() > 0 {
        // The background task awaits this, inside its runtime.
        tokio::time::sleep(lease.lengths().timeout / LOOKS).await;
        let Some(polled) = polled.upgrade() else { return };
        lease.wake_after_suspension();
        let late = polled.late.0.swap(false, Ordering::Relaxed);
        // Work that begins or ends meanwhile must not find this mutex locked.
        let mut looked = std::mem::take(&mut *polled.work.lock());
        looked.retain(|work| work.upgrade().is_some_and(|work| work.look_at_work(late)));
        polled.work.lock().append(&mut looked);
    }
}
