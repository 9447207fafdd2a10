//! The drivers of one session that callers poll, or do not: the session looks at them now and then.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::shared_lease::SharedLease;

/// How often the session looks at those of its drivers that callers poll, in a session timeout.
pub(crate) const LOOKS: u32 = 8;

/// A driver that a caller polls, or does not.
pub(crate) trait Looked: Send + Sync {
    /// Looks at it. True while it is to be looked at again.
    fn look(&self) -> bool;
}

/// Those of one session.
#[derive(Default)]
pub(crate) struct Polled(Mutex<Vec<Weak<dyn Looked>>>);

impl Polled {
    /// Looks at a driver now and then, until it is over.
    pub(crate) fn insert(&self, driver: Weak<dyn Looked>) {
        self.lock().push(driver);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<dyn Looked>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at all drivers that callers poll now and then.
pub(crate) async fn patrol(polled: Weak<Polled>, lease: Arc<SharedLease>) {
    while polled.strong_count() > 0 {
        // The background task awaits this, inside its runtime.
        tokio::time::sleep(lease.lengths().timeout / LOOKS).await;
        let Some(polled) = polled.upgrade() else { return };
        // One that begins or ends meanwhile must not find this lock taken.
        let mut looked = std::mem::take(&mut *polled.lock());
        looked.retain(|driver| driver.upgrade().is_some_and(|driver| driver.look()));
        polled.lock().append(&mut looked);
    }
}
