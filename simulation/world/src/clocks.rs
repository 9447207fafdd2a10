//! The clocks of a simulated machine: pieces of straight lines from global time to what each clock shows.

/// A thousand million nanoseconds: a second, and the rate of a clock that goes as global time does.
pub const SECOND: u64 = 1_000_000_000;

/// A millisecond, in nanoseconds.
pub const MILLISECOND: u64 = 1_000_000;

/// One of a machine's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Stops while the machine is suspended; NTP slews it.
    Monotonic,
    /// Goes on while the machine is suspended; NTP slews it.
    Boottime,
    /// Stops while the machine is suspended; nobody slews it.
    Raw,
    /// The time of day. Goes on while the machine is suspended; NTP slews it, and anybody may set it.
    Realtime,
}

/// What a clock shows, from an instant of global time on.
#[derive(Clone, Copy, Debug)]
struct Line {
    from: u64,
    value: u64,
    /// How many nanoseconds the clock advances in a second of global time.
    rate: u64,
}

impl Line {
    fn read(&self, now: u64) -> u64 {
        let passed = u128::from(now.saturating_sub(self.from));
        self.value + (passed * u128::from(self.rate) / u128::from(SECOND)) as u64
    }

    fn when(&self, value: u64) -> Option<u64> {
        let missing = u128::from(value.saturating_sub(self.value)) * u128::from(SECOND);
        (missing == 0)
            .then_some(self.from)
            .or_else(|| (self.rate > 0).then(|| self.from + missing.div_ceil(u128::from(self.rate)) as u64))
    }

    fn turn(&mut self, now: u64, rate: u64) {
        *self = Self { from: now, value: self.read(now), rate };
    }
}

/// All clocks of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    lines: [Line; 4],
    /// The rate of the machine's oscillator, and the slew on top of it, in parts of [`SECOND`].
    oscillator: u64,
    slew: u64,
    suspensions: u32,
}

impl Clocks {
    /// The clocks of a machine that was started before the simulation, and which show these nanoseconds at the instant 0:
    /// since the start of the machine, and since the Unix epoch.
    pub fn new(uptime: u64, unix: u64, oscillator: u64) -> Self {
        let line = |value| Line { from: 0, value, rate: oscillator };
        Self {
            lines: [line(uptime), line(uptime), line(uptime), line(unix)],
            oscillator,
            slew: SECOND,
            suspensions: 0,
        }
    }

    /// Returns what the clock shows at this instant.
    pub fn read(&self, clock: Clock, now: u64) -> u64 {
        self.lines[clock as usize].read(now)
    }

    /// Returns the first instant at which `CLOCK_MONOTONIC` shows this value or more, if its rate stays as it is.
    pub fn when_monotonic(&self, value: u64) -> Option<u64> {
        self.lines[Clock::Monotonic as usize].when(value)
    }

    /// Changes the slew, which every clock but the raw one follows.
    pub fn slew(&mut self, now: u64, slew: u64) {
        self.slew = slew;
        self.turn(now);
    }

    /// Suspends the machine, or ends one of its suspensions. It wakes up with the end of the last one.
    pub fn suspend(&mut self, now: u64, begins: bool) {
        self.suspensions = if begins { self.suspensions + 1 } else { self.suspensions.saturating_sub(1) };
        self.turn(now);
    }

    /// Sets the time of day forward by so many nanoseconds, or back if it is negative.
    pub fn set(&mut self, now: u64, by: i64) {
        let line = &mut self.lines[Clock::Realtime as usize];
        line.turn(now, line.rate);
        line.value = line.value.saturating_add_signed(by);
    }

    fn turn(&mut self, now: u64) {
        let slewed = (u128::from(self.oscillator) * u128::from(self.slew) / u128::from(SECOND)) as u64;
        // After a suspension the kernel adds the time that has passed by the machine's real-time clock, which no slew moves.
        let rates = match self.suspensions > 0 {
            true => [0, self.oscillator, 0, self.oscillator],
            false => [slewed, slewed, self.oscillator, slewed],
        };
        for (line, rate) in self.lines.iter_mut().zip(rates) {
            line.turn(now, rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspension_and_slew_move_the_clocks_that_follow_them() {
        let mut clocks = Clocks::new(5 * SECOND, 100 * SECOND, SECOND);
        clocks.suspend(SECOND, true);
        clocks.suspend(3 * SECOND, false);
        clocks.slew(3 * SECOND, SECOND + SECOND / 10);
        clocks.set(4 * SECOND, -50 * SECOND as i64);
        let shown = [Clock::Monotonic, Clock::Boottime, Clock::Raw, Clock::Realtime]
            .map(|clock| clocks.read(clock, 13 * SECOND));
        assert_eq!(shown, [17 * SECOND, 19 * SECOND, 16 * SECOND, 64 * SECOND]);
    }

    #[test]
    fn a_clock_is_back_at_an_instant_no_earlier_than_asked() {
        let mut clocks = Clocks::new(7, 0, SECOND + 12_345);
        for value in [0, 7, 8, 1_000_003, 60 * SECOND + 1] {
            let when = clocks.when_monotonic(value).unwrap();
            assert!(clocks.read(Clock::Monotonic, when) >= value);
            assert!(when == 0 || clocks.read(Clock::Monotonic, when - 1) < value);
        }
        clocks.suspend(10, true);
        assert_eq!(clocks.when_monotonic(u64::MAX), None);
    }
}
