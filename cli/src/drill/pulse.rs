//! The stalls of the drill: a task that does not run learns late of what happens.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use rustix::time::ClockId;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::clock;

/// How often the drill looks at the clocks.
const PERIOD: Duration = Duration::from_millis(10);

/// The times at which the task ran, and the longer gaps between two of them.
pub(super) struct Pulse {
    last: Cell<[Duration; 2]>,
    /// The end of each gap, and its length.
    gaps: RefCell<Vec<(Instant, Duration)>>,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self { last: Cell::new(clocks()), gaps: RefCell::default() }
    }

    /// Looks at the clocks for ever, in the task that waits for losses and grants.
    pub(super) async fn beat(&self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.tick();
        }
    }

    /// Ends the gap that lasts until now.
    pub(super) fn tick(&self) {
        let now = clocks();
        let before = self.last.replace(now);
        let length = now.into_iter().zip(before).map(|(now, before)| now.saturating_sub(before)).max();
        let length = length.unwrap_or_default();
        if length > PERIOD * 2 {
            self.gaps.borrow_mut().push((Instant::now(), length));
        }
    }

    /// The longest gap around one of these instants. Shorter ones than two periods count as two periods.
    pub(super) fn longest(&self, instants: &[Instant]) -> Duration {
        let near = |(end, length): &&(Instant, Duration)| {
            instants.iter().any(|at| *at <= *end + PERIOD * 2 && *at + *length + PERIOD * 2 >= *end)
        };
        let gaps = self.gaps.borrow();
        gaps.iter().filter(near).map(|(_, length)| *length).fold(PERIOD * 2, Duration::max)
    }
}

/// The clocks of leases: one goes on in a suspension, and nobody slews the other.
fn clocks() -> [Duration; 2] {
    [clock::now(), clock::by(ClockId::MonotonicRaw)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_around_its_end_and_not_long_after() {
        let pulse = Pulse::new();
        let [boot, raw] = clocks();
        // The machine slept for a minute: only one of the clocks shows it.
        pulse.last.set([boot.checked_sub(Duration::from_mins(1)).unwrap_or_default(), raw]);
        pulse.tick();
        let (end, length) = pulse.gaps.borrow()[0];
        assert!(length > PERIOD * 2, "{length:?}");
        assert_eq!(pulse.longest(&[end]), length);
        assert_eq!(pulse.longest(&[end + PERIOD, end + PERIOD * 9]), length);
        assert_eq!(pulse.longest(&[end + PERIOD * 9]), PERIOD * 2);
    }
}
