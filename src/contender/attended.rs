//! A driver under way, and the caller who should poll it.
//!
//! A driver has no task of its own, so a reply wakes the caller directly. The price: a caller may keep the future and
//! not poll it. Then the driver does not go on, while the session's heartbeats keep its node alive, and nobody else
//! would acquire the lock. So the session looks at its drivers now and then. If a driver has asked to be polled, and
//! was not polled for half a session timeout, it is finished in the background: an acquisition gives up its place, and
//! a release goes on.
//!
//! A waiter that hears nothing for a long time looks again: if an ACL has taken the permission to read a node from a
//! session since the session watched it, the server withholds the node's end.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake};

use futures::task::AtomicWaker;
use tracing::warn;
use zklock_recipe::{End, Own, Term};

use super::driver::{Driver, Outcome};
use crate::zk::{LOOKS, Looked};

/// The number of looks after which a driver that asks to be polled is overdue: half a session timeout. The session
/// counts looks and not time, because a blocked runtime polls nobody.
const LOOKS_UNTIL_OVERDUE: u32 = LOOKS / 2;

/// The number of looks without news after which a waiter looks at its predecessor again: ten session timeouts.
const LOOKS_UNTIL_STALE: u32 = LOOKS * 10;

/// The number of looks over which waiters that heard the last news together are spread.
const SPREAD: u32 = LOOKS * 2;

/// A driver with a caller. If the caller goes, the driver goes on in the background until its node is gone.
pub(crate) struct Attended {
    shared: Arc<Shared>,
}

/// The outcome of a driver with a caller.
pub(crate) enum Finish {
    /// The lock is granted, in this term of the lease.
    Granted(Driver, Own, Term),
    /// The contender has ended.
    Ended(End),
    /// The caller did not poll the driver when it should have, so the driver is finished in the background.
    Unpolled,
}

struct Shared {
    /// The driver; `None` once it has ended, or is finished in the background.
    driver: Mutex<Option<Driver>>,
    alarm: Arc<Alarm>,
    /// The number of looks since the last poll, and a random number more.
    quiet: AtomicU32,
}

/// Remembers whether the driver has asked to be polled.
#[derive(Default)]
struct Alarm {
    caller: AtomicWaker,
    /// Zero if the driver has not asked since its last poll. Otherwise one, and one more for each look since it asked.
    looks: AtomicU32,
}

impl Attended {
    pub(crate) fn new(driver: Driver) -> Self {
        let session = driver.session().clone();
        let (driver, quiet) = (Mutex::new(Some(driver)), AtomicU32::new(0));
        let shared = Arc::new(Shared { driver, alarm: Arc::default(), quiet });
        let weak = Arc::downgrade(&shared);
        session.look_after(weak);
        Self { shared }
    }
}

impl Future for Attended {
    type Output = Finish;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Finish> {
        let Shared { alarm, quiet, .. } = self.shared.as_ref();
        alarm.caller.register(cx.waker());
        let mut slot = self.shared.driver();
        let Some(driver) = slot.as_mut() else { return Poll::Ready(Finish::Unpolled) };
        // From here on the driver may ask again.
        alarm.looks.store(0, Ordering::Relaxed);
        quiet.store(fastrand::u32(..SPREAD), Ordering::Relaxed);
        let waker = alarm.clone().into();
        let outcome = std::task::ready!(driver.poll(&mut Context::from_waker(&waker)));
        match (outcome, slot.take()) {
            (Outcome::Granted(own, term), Some(driver)) => Poll::Ready(Finish::Granted(driver, own, term)),
            (Outcome::Ended(end), _) => Poll::Ready(Finish::Ended(end)),
            (Outcome::Granted(..) | Outcome::Lost, _) => Poll::Pending,
        }
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        let driver = self.shared.driver().take();
        driver.into_iter().for_each(Driver::abandon);
    }
}

impl Shared {
    fn driver(&self) -> MutexGuard<'_, Option<Driver>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Looked for Shared {
    fn look(&self) -> bool {
        // A look counts only if the driver asked before it.
        let asked = self.alarm.looks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |looks| {
            (looks > 0).then(|| looks.saturating_add(1))
        });
        let mut slot = self.driver();
        // A poll takes this mutex, too. So a poll has either gone on by now, or will find no driver.
        let overdue = self.alarm.looks.load(Ordering::Relaxed) > LOOKS_UNTIL_OVERDUE;
        let stale = asked.is_err() && self.quiet.fetch_add(1, Ordering::Relaxed) >= LOOKS_UNTIL_STALE;
        if overdue && let Some(driver) = slot.take() {
            warn!(
                path = %driver.lock().path,
                "the caller does not poll an acquisition or a release that could go on; zklock finishes it in the background"
            );
            driver.abandon();
        }
        if stale && let Some(driver) = slot.as_mut() {
            driver.doubt();
        }
        let lives = slot.is_some();
        // The caller's waker is foreign code, so it runs outside the mutex.
        drop(slot);
        if overdue {
            self.alarm.caller.wake();
        } else if stale {
            self.alarm.wake_by_ref();
        }
        lives
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let _asks_already = self.looks.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        self.caller.wake();
    }
}
