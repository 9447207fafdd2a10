//! A driver under way, and the caller who polls it.
//!
//! A driver has no task of its own, so its reply wakes the caller directly. The price is that a caller who keeps the
//! future but does not poll it keeps the driver from going on, while the session's heartbeats keep its node alive: nobody
//! else would get the lock. So the session looks at its drivers now and then. One that has asked to be polled, and was not,
//! for half a session timeout is finished in the background: an acquisition gives its place up, a release goes on.
//!
//! A waiter that hears nothing for long looks again: a server withholds the end of a node from those whom an ACL has kept
//! from reading it since they watched it.

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

/// After so many looks a driver that asks to be polled is overdue: half a session timeout. Looks are counted, not time,
/// since a blocked runtime polls nobody.
const LOOKS_UNTIL_OVERDUE: u32 = LOOKS / 2;

/// After so many looks without news a waiter looks at its predecessor again: ten session timeouts.
const LOOKS_UNTIL_STALE: u32 = LOOKS * 10;

/// As many looks as those who heard the last news together are spread over.
const SPREAD: u32 = LOOKS * 2;

/// A driver with a caller. Without one it goes on in the background until its node is gone.
pub(crate) struct Attended {
    shared: Arc<Shared>,
}

/// What a driver with a caller has come to.
pub(crate) enum Finish {
    /// The lock is held, in this term of the lease.
    Granted(Driver, Own, Term),
    /// It is over.
    Ended(End),
    /// It was not polled when it should have been, and is finished in the background.
    Unpolled,
}

struct Shared {
    /// Gone once it is over, or finished in the background.
    driver: Mutex<Option<Driver>>,
    alarm: Arc<Alarm>,
    /// Looks since it was polled last, and some.
    quiet: AtomicU32,
}

/// Remembers that the driver has asked to be polled.
#[derive(Default)]
struct Alarm {
    caller: AtomicWaker,
    /// Zero if it has not asked since it was polled last; else one, and one more for each look since then.
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
        // From here on it may ask again.
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
        // A look counts for those only that asked before it.
        let asked = self.alarm.looks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |looks| {
            (looks > 0).then(|| looks.saturating_add(1))
        });
        let mut slot = self.driver();
        // Under the lock that a poll takes, too: it has either gone on by now, or finds no driver.
        let overdue = self.alarm.looks.load(Ordering::Relaxed) > LOOKS_UNTIL_OVERDUE;
        let stale = asked.is_err() && self.quiet.fetch_add(1, Ordering::Relaxed) >= LOOKS_UNTIL_STALE;
        if overdue && let Some(driver) = slot.take() {
            warn!(
                path = %driver.lock().path,
                "an acquisition or a release is not polled though it could go on; it is finished in the background"
            );
            driver.abandon();
        }
        if stale && let Some(driver) = slot.as_mut() {
            driver.doubt();
        }
        let lives = slot.is_some();
        // The caller's waker is foreign code.
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
