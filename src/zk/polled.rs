//! The work in one session that callers should poll. The session looks at it now and then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::shared_lease::SharedLease;

/// How many times in a session timeout the session looks at the work that callers should poll.
pub(crate) const LOOKS: u32 = 8;

/// Work that a caller should poll.
pub(crate) trait Looked: Send + Sync {
    /// Looks at the work. `late` says whether callers have polled other work late since the last look. Returns true while
    /// the session must look again.
    fn look(&self, late: bool) -> bool;
}

/// The work in one session that callers should poll.
#[derive(Default)]
pub(crate) struct Polled {
    work: Mutex<Vec<Weak<dyn Looked>>>,
    service: Arc<Service>,
}

impl Polled {
    /// Adds work. The session looks at it now and then, until it has ended. The work reports
    /// there that it was polled late.
    pub(crate) fn insert(&self, work: Weak<dyn Looked>) -> Arc<Service> {
        self.lock().push(work);
        self.service.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<dyn Looked>>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether callers have polled work of one session late since the last look.
#[derive(Default)]
pub(crate) struct Service(AtomicBool);

impl Service {
    /// Takes in that work was polled late.
    pub(crate) fn was_late(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Looks at all work, [`LOOKS`] times a session timeout.
pub(crate) async fn patrol(polled: Weak<Polled>, lease: Arc<SharedLease>) {
    while polled.strong_count() > 0 {
        // The background task awaits this, inside its runtime.
        tokio::time::sleep(lease.lengths().timeout / LOOKS).await;
        let Some(polled) = polled.upgrade() else { return };
        let late = polled.service.0.swap(false, Ordering::Relaxed);
        // Work that begins or ends meanwhile must not find this mutex locked.
        let mut looked = std::mem::take(&mut *polled.lock());
        looked.retain(|work| work.upgrade().is_some_and(|work| work.look(late)));
        polled.lock().append(&mut looked);
    }
}
