//! Work under way, and the caller who should poll it.
//!
//! A driver has no task of its own, so a reply wakes the caller directly. The price: a caller may keep the future and
//! not poll it. Then the driver does not go on, while the session's heartbeats keep its node alive, and nobody else
//! would acquire the lock. So the session looks at such work now and then. If work has asked to be polled, and was not
//! polled for half a session timeout, it is abandoned: an acquisition gives up its place and what it has acquired, and a
//! release goes on in the background.
//!
//! # A runtime that is behind
//!
//! After a lost connection, thousands of works may ask to be polled at once. The runtime then needs a while to reach the
//! last of them, and the task that looks may come earlier: a runtime of several threads has several queues. Work whose
//! turn has not come is not neglected.
//!
//! The work itself shows that: if callers have polled other work of the session late since the last look, by a whole
//! look or more, this look counts for nobody. A runtime polls tasks about in the order in which they ask. So while it is
//! behind, it keeps reaching work that has waited for long, and work that it has not reached has hardly waited longer.
//! Once it has caught up, no work is polled late, and looks count again. A session with one caller has nobody who shows it: if the
//! runtime is behind for half a session timeout, that caller loses its place.
//!
//! One caller who polls late, again and again, looks like such a runtime. So neglected work is abandoned after two session
//! timeouts at the latest.
//!
//! # A waiter that hears nothing
//!
//! A waiter that hears nothing for a long time looks again: if an ACL has taken the permission to read a node from a
//! session since the session watched it, the server withholds the node's end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake};

use futures::task::AtomicWaker;
use tracing::{debug, warn};

use crate::mutex::Mutex;
use crate::zk::{LOOKS, Late, Looked, ZkSession};

/// The number of looks after which work that asks to be polled is overdue: half a session timeout. The session
/// counts looks and not time, because a blocked runtime polls nobody.
const LOOKS_UNTIL_OVERDUE: u32 = LOOKS / 2;

/// The number of looks after which such work is overdue even if they did not count: two session timeouts.
const LOOKS_AT_MOST: u32 = LOOKS * 2;

/// The number of looks without news after which a waiter looks at its predecessor again: ten session timeouts.
const LOOKS_UNTIL_STALE: u32 = LOOKS * 10;

/// The number of looks over which waiters that heard the last news together are spread.
const SPREAD: u32 = LOOKS * 2;

/// What goes on only while its caller polls it.
pub(crate) trait Work: Send + 'static {
    type Output;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Self::Output>;

    /// Nobody polls it any more.
    fn abandon(self);

    /// It has heard nothing for a long time.
    fn doubt(&mut self);

    /// The paths of its locks, for messages.
    fn paths(&self) -> String;
}

/// Work with a caller. It resolves to `None` if the caller did not poll it when it should have, so that it is abandoned;
/// else to the work, and what that came to.
pub(crate) struct Attended<W: Work> {
    shared: Arc<AttendedWork<W>>,
}

struct AttendedWork<W> {
    /// `None` once it has ended, or is abandoned.
    work: Mutex<Option<W>>,
    alarm: Arc<Alarm>,
    /// Whether callers in the session are late.
    late: Arc<Late>,
    /// The number of looks since the last poll, and a random number more.
    quiet: AtomicU32,
}

/// Remembers whether the work has asked to be polled.
#[derive(Default)]
struct Alarm {
    /// The caller's task.
    caller: AtomicWaker,
    /// Zero if it has not asked since its last poll. Otherwise one, and one more for each look since it asked.
    looks: AtomicU32,
    /// How many of these looks do not count.
    uncounted: AtomicU32,
}

impl<W: Work> Attended<W> {
    /// Has this session look at the work now and then.
    pub(crate) fn new(session: &ZkSession, work: W) -> Self {
        let work = Mutex::new(Some(work));
        let quiet = AtomicU32::new(0);
        let late = session.polled.late();
        let shared = Arc::new(AttendedWork { work, alarm: Arc::default(), late, quiet });
        let weak = Arc::downgrade(&shared);
        session.polled.insert(weak);
        Self { shared }
    }
}

impl<W: Work> Future for Attended<W> {
    type Output = Option<(W, W::Output)>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let AttendedWork { alarm, late, quiet, .. } = self.shared.as_ref();
        alarm.caller.register(cx.waker());
        let mut slot = self.shared.work.lock();
        let Some(work) = slot.as_mut() else { return Poll::Ready(None) };
        if alarm.calm() {
            debug!("a caller is polled late");
            late.note();
        }
        quiet.store(fastrand::u32(..SPREAD), Ordering::Relaxed);
        let waker = alarm.clone().into();
        let output = std::task::ready!(work.poll(&mut Context::from_waker(&waker)));
        Poll::Ready(slot.take().map(|work| (work, output)))
    }
}

impl<W: Work> Drop for Attended<W> {
    fn drop(&mut self) {
        self.shared.abandon();
    }
}

impl<W: Work> AttendedWork<W> {
    /// Work may end guards and wake tasks, so it is abandoned outside the mutex.
    fn abandon(&self) {
        let work = self.work.lock().take();
        if let Some(work) = work {
            work.abandon();
        }
    }
}

impl<W: Work> Looked for AttendedWork<W> {
    fn look_at_work(&self, late: bool) -> bool {
        let asked = self.alarm.count_look(late);
        let mut slot = self.work.lock();
        // A poll takes this mutex, too. So a poll has either gone on by now, or will find no work.
        if self.alarm.is_overdue() {
            let abandoned = slot.take();
            // The caller's waker is foreign code, so it runs outside the mutex, too.
            drop(slot);
            if let Some(work) = abandoned {
                warn!(
                    paths = %work.paths(),
                    "the program does not poll the future of an acquisition or a release that could go on; zklock \
                     gives up the acquisition, or finishes the release in the background"
                );
                work.abandon();
                self.alarm.caller.wake();
            }
            return false;
        }
        let stale = !asked && self.quiet.fetch_add(1, Ordering::Relaxed) >= LOOKS_UNTIL_STALE;
        if stale && let Some(work) = slot.as_mut() {
            work.doubt();
        }
        let lives = slot.is_some();
        drop(slot);
        if stale {
            self.alarm.wake_by_ref();
        }
        lives
    }
}

impl Alarm {
    /// Forgets that the work has asked to be polled: it is polled now. From here on it may ask again. Returns whether it
    /// is polled late: it has waited from one look to the next.
    fn calm(&self) -> bool {
        self.uncounted.store(0, Ordering::Relaxed);
        self.looks.swap(0, Ordering::Relaxed) > 2
    }

    /// Counts a look if the work asked before it; if callers are `late`, as one that does not count. Returns whether it
    /// asked.
    fn count_look(&self, late: bool) -> bool {
        let counted = self.looks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |looks| {
            (looks > 0).then(|| looks.saturating_add(1))
        });
        if late && counted.is_ok() {
            self.uncounted.fetch_add(1, Ordering::Relaxed);
        }
        counted.is_ok()
    }

    /// Whether the work should have been polled long ago.
    fn is_overdue(&self) -> bool {
        let looks = self.looks.load(Ordering::Relaxed);
        let uncounted = self.uncounted.load(Ordering::Relaxed);
        looks.saturating_sub(uncounted) > LOOKS_UNTIL_OVERDUE || looks > LOOKS_AT_MOST
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
