//! Whether this machine's clock is slewed: how fast it runs against the clock that nobody adjusts. A slew shows only
//! while it goes on. (`adjtimex` would say it, too.)

use std::time::Duration;

use rustix::time::ClockId;
use tokio::time::sleep;

use crate::clock;

/// How long to look. The two clocks are read within some microseconds, so the rate is right to some 20 ppm.
const LOOK: Duration = Duration::from_millis(300);

/// How many readings to take. The one counts whose clocks were read closest together.
const READINGS: usize = 32;

pub(super) async fn measure_clock_rate() -> i64 {
    let (raw, adjusted) = read_clocks();
    sleep(LOOK).await;
    let (later_raw, later_adjusted) = read_clocks();
    parts_per_million(later_raw.saturating_sub(raw), later_adjusted.saturating_sub(adjusted))
}

/// Reads the clock that nobody adjusts, and one that is slewed as the clock of leases is. Both stop while the machine is
/// suspended.
fn read_clocks() -> (Duration, Duration) {
    let reading = || {
        let before = clock::read_clock(ClockId::MonotonicRaw);
        let adjusted = clock::read_clock(ClockId::Monotonic);
        let apart = clock::read_clock(ClockId::MonotonicRaw).saturating_sub(before);
        (apart, before + apart / 2, adjusted)
    };
    let closest = (1..READINGS).map(|_| reading()).fold(reading(), Ord::min);
    (closest.1, closest.2)
}

fn parts_per_million(raw: Duration, adjusted: Duration) -> i64 {
    ((adjusted.as_secs_f64() / raw.as_secs_f64() - 1.0) * 1e6).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chronys_fastest_slew() {
        let raw = Duration::from_millis(300);
        assert_eq!(parts_per_million(raw, Duration::from_millis(325)), 83_333);
        assert_eq!(parts_per_million(raw, Duration::from_millis(275)), -83_333);
        assert_eq!(parts_per_million(raw, raw), 0);
    }
}
