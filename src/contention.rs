//! One acquisition under way: a driver, and the caller who polls it.
//!
//! A driver has no task of its own, so its reply wakes the caller directly. The price is that a caller who keeps the
//! future but does not poll it keeps the driver from going on, while the session's heartbeats keep its node alive: once
//! its turn has come, nobody else would get the lock. So the session looks at its acquisitions now and then. One that has
//! asked to be polled, and was not, for half a session timeout gives its place up.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake};

use futures::task::AtomicWaker;
use tracing::warn;

use crate::driver::{Driver, Outcome};
use crate::guard::Guard;
use crate::recipe::End;
use crate::session::{LOOKS_UNTIL_OVERDUE, Overdue};

/// A contender with a caller. Without one it goes on in the background until its node is gone.
pub(crate) struct Contention {
    shared: Arc<Shared>,
}

/// Why a contention has no guard.
#[derive(Debug)]
pub(crate) enum NotGranted {
    /// It is over.
    Ended(End),
    /// It was not polled when its turn had come, and has given its place up.
    Unpolled,
}

struct Shared {
    /// Gone once it is over, or has given its place up.
    driver: Mutex<Option<Driver>>,
    alarm: Arc<Alarm>,
}

/// Remembers that the driver has asked to be polled.
#[derive(Default)]
struct Alarm {
    caller: AtomicWaker,
    /// Zero if it has not asked since it was polled last; else one, and one more for each look since then.
    looks: AtomicU32,
}

impl Contention {
    pub(crate) fn new(driver: Driver) -> Self {
        let generation = driver.generation().clone();
        let shared = Arc::new(Shared { driver: Mutex::new(Some(driver)), alarm: Arc::default() });
        let weak = Arc::downgrade(&shared);
        generation.look_after(weak);
        Self { shared }
    }
}

impl Future for Contention {
    type Output = Result<Guard, NotGranted>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let alarm = &self.shared.alarm;
        alarm.caller.register(cx.waker());
        let mut slot = self.shared.driver();
        let Some(driver) = slot.as_mut() else { return Poll::Ready(Err(NotGranted::Unpolled)) };
        // From here on it may ask again.
        alarm.looks.store(0, Ordering::Relaxed);
        let waker = alarm.clone().into();
        let outcome = std::task::ready!(driver.poll(&mut Context::from_waker(&waker)));
        match (outcome, slot.take()) {
            (Outcome::Granted(own, term), Some(driver)) => Poll::Ready(Ok(Guard::new(driver, own, term))),
            (Outcome::Ended(end), _) => Poll::Ready(Err(NotGranted::Ended(end))),
            (Outcome::Granted(..) | Outcome::Lost, _) => Poll::Pending,
        }
    }
}

impl Drop for Contention {
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

impl Overdue for Shared {
    fn look(&self) -> bool {
        // A look counts for those only that asked before it.
        let asked = self.alarm.looks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |looks| {
            (looks > 0).then(|| looks.saturating_add(1))
        });
        if asked.is_err() {
            return self.driver().is_some();
        }
        let mut slot = self.driver();
        // Under the lock that a poll takes, too: it has either gone on by now, or finds no driver.
        if self.alarm.looks.load(Ordering::Relaxed) > LOOKS_UNTIL_OVERDUE {
            if let Some(driver) = slot.take() {
                warn!(
                    path = %driver.lock().path,
                    "an acquisition is not polled though its turn has come; it gives its place up until it is"
                );
                driver.abandon();
            }
            self.alarm.caller.wake();
        }
        slot.is_some()
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
