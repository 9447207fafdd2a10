//! The clocks that leases are computed with.

use std::time::Duration;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
use std::{sync::LazyLock, time::Instant};

use rustix::time::{ClockId, clock_gettime};

use zklock_recipe::Moment;

/// This clock goes on while the machine is suspended, as the ensemble's clocks do; `Instant` and `CLOCK_MONOTONIC`
/// stop. NTP slews it.
#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOT: ClockId = ClockId::Boottime;

/// On macOS and OpenBSD, the clock of this name goes on while the machine is suspended. On FreeBSD no clock does.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOT: ClockId = ClockId::Monotonic;

/// Two readings of a clock are taken for one instant if they are no further apart.
const AT_ONCE: Duration = Duration::from_micros(100);

/// How many times the clocks are read at most for two such readings. Where each reading takes long, nothing is nearer.
const TRIES: usize = 4;

/// More than any clock shows, so that the difference of two clocks is never negative. In a time namespace either may be ahead.
const LONG: Duration = Duration::from_secs(1 << 40);

/// Returns this instant. Nobody can set its clocks.
///
/// The time of suspensions is read first. A suspension or a preemption between the readings makes the answer an instant that was
/// now during this call, never one that is still to come.
pub(crate) fn now() -> Moment {
    let suspended = suspended();
    Moment::new(read(BOOT), raw(), suspended)
}

/// Returns for how long the machine has been suspended, from some instant on. On Linux, NTP slews the two clocks alike that show
/// it, so their difference is not slewed.
pub(crate) fn suspended() -> Duration {
    let mut apart = Duration::MAX;
    let mut suspended = LONG;
    for _ in 0..TRIES {
        let before = awake();
        let boot = read(BOOT);
        let after = awake();
        if after.saturating_sub(before) < apart {
            apart = after.saturating_sub(before);
            // The later reading makes the time short, if anything.
            suspended = (LONG + boot).saturating_sub(after);
        }
        if apart <= AT_ONCE {
            break;
        }
    }
    suspended
}

/// Nobody slews this clock. It stops while the machine is suspended.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn raw() -> Duration {
    read(ClockId::MonotonicRaw)
}

/// This clock stops while the machine is suspended.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn awake() -> Duration {
    read(ClockId::Monotonic)
}

/// On macOS, `Instant` is `CLOCK_UPTIME_RAW`, which nobody slews, and which stops while the machine is suspended. The BSDs have no
/// clock that nobody slews: there it is `CLOCK_MONOTONIC`.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn raw() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
use raw as awake;

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    // Neither part is negative on these clocks, and the nanoseconds are below a thousand million.
    let now = Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0));
    #[cfg(test)]
    let now = if clock == BOOT { now + tests::SUSPENDED.get() } else { now };
    now
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// For how long a test says that the machine was suspended.
        pub(super) static SUSPENDED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// From now on the clocks show that the machine was suspended for this much longer.
    pub(crate) fn suspend(length: Duration) {
        SUSPENDED.set(SUSPENDED.get() + length);
    }

    #[test]
    fn a_suspension_ends_what_must_be_over_and_counts_for_nothing_that_must_have_lasted() {
        let minute = Duration::from_secs(60);
        let before = now();
        let was_suspended = suspended();
        suspend(minute);
        let after = now();
        assert!(after.most_since(before) >= minute);
        assert!(after.least_since(before) < minute);
        assert_eq!(after.until(before.plus(minute)), Duration::ZERO);
        assert!(suspended() - was_suspended > minute / 2);
    }
}
