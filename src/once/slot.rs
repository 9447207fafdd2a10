//! The names of slots: which names are allowed, and the names of periods.

use std::time::Duration;

use zklock_recipe::Place;

/// The longest name, in characters.
const LONGEST: usize = 128;

/// The seconds of a day.
const DAY: i64 = 86_400;

/// The first instant of the year 10000, in seconds since the Unix epoch. From there on the names of periods would no
/// longer sort by age.
const YEAR_10000: i64 = 253_402_300_800;

/// The name of a slot that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot(String);

/// Why a slot cannot have a name, or why a period cannot have slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SlotProblem {
    /// The name is empty.
    #[error("it is empty; name the slot, for example by a date such as 2026-11-22")]
    Empty,
    /// The name is too long.
    #[error("it has {0} characters; shorten it to {LONGEST} at most")]
    TooLong(usize),
    /// The name contains a character other than ASCII letters, digits, `.`, `_`, `:`, `+` and `-`.
    #[error("it contains {0:?}; use ASCII letters, digits and the characters . _ : + - only")]
    Character(char),
    /// The name is `.` or `..`.
    #[error("ZooKeeper allows no node of that name; use another name")]
    Dots,
    /// The name is a contender's name.
    #[error("it is the name of a contender; use another name")]
    Contender,
    /// The period is not a number of whole seconds, or is zero.
    #[error("it is no period; give whole seconds, one at least")]
    Period,
}

impl Slot {
    /// Checks the name of a slot.
    pub(super) fn parse(name: &str) -> Result<Self, SlotProblem> {
        if let Some(character) = name.chars().find(|character| !is_allowed(*character)) {
            return Err(SlotProblem::Character(character));
        }
        match name {
            "" => Err(SlotProblem::Empty),
            "." | ".." => Err(SlotProblem::Dots),
            // Every character is one byte.
            _ if name.len() > LONGEST => Err(SlotProblem::TooLong(name.len())),
            // Nobody should take a record for a contender.
            _ if Place::parse(name).is_some() => Err(SlotProblem::Contender),
            _ => Ok(Self(name.to_owned())),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | ':' | '+' | '-')
}

/// Returns the period in seconds, if it is a number of whole seconds.
pub(super) fn whole_seconds(period: Duration) -> Result<i64, SlotProblem> {
    match (i64::try_from(period.as_secs()), period.subsec_nanos()) {
        (Ok(seconds @ 1..), 0) => Ok(seconds),
        _ => Err(SlotProblem::Period),
    }
}

/// Returns the name of the slot in which this instant is: the slot's begin, in UTC. Slots are as long as `period`, and one
/// begins at the Unix epoch. `at` is in milliseconds since then. `None` before the epoch, and from the year 10000 on.
pub(super) fn slot_at(at: i64, period: i64) -> Option<String> {
    let second = u64::try_from(at).ok()?.cast_signed() / 1_000;
    let begin = second - second.checked_rem(period)?;
    (begin < YEAR_10000).then(|| rfc_3339(begin))
}

/// Writes an instant of the years 1970 to 9999, in seconds since the Unix epoch.
fn rfc_3339(second: i64) -> String {
    let (year, month, day) = date(second / DAY);
    let (hour, minute, second) = (second % DAY / 3_600, second % 3_600 / 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the date that is so many days after 1970-01-01, in the Gregorian calendar.
fn date(mut day: i64) -> (i64, i64, i64) {
    let mut year = 1970;
    // Every 400 years are the same number of days.
    year += day / 146_097 * 400;
    day %= 146_097;
    while day >= year_length(year) {
        day -= year_length(year);
        year += 1;
    }
    let mut month = 1;
    while day >= month_length(year, month) {
        day -= month_length(year, month);
        month += 1;
    }
    (year, month, day + 1)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn year_length(year: i64) -> i64 {
    365 + i64::from(is_leap(year))
}

fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn good_names_pass() {
        let longest = "x".repeat(LONGEST);
        // None of these is a contender's name, though one ends as the name of some client's contender does.
        for name in
            ["2026-11-22", "2026-11-22T00:00:00+01:00", "a.b_c", "...", "20261122000000", "lock-12", &longest]
        {
            assert_eq!(Slot::parse(name).map(|slot| slot.0), Ok(name.to_owned()));
        }
    }

    #[test]
    fn each_bad_name_is_told_its_problem() {
        let long = "x".repeat(LONGEST + 1);
        for (name, problem) in [
            ("", SlotProblem::Empty),
            (".", SlotProblem::Dots),
            ("..", SlotProblem::Dots),
            ("a/b", SlotProblem::Character('/')),
            ("a b", SlotProblem::Character(' ')),
            ("@now", SlotProblem::Character('@')),
            ("gr\u{fc}n", SlotProblem::Character('\u{fc}')),
            ("lock-0000000001", SlotProblem::Contender),
            ("lock--000000001", SlotProblem::Contender),
            (&long, SlotProblem::TooLong(LONGEST + 1)),
        ] {
            assert_eq!(Slot::parse(name), Err(problem), "{name:?}");
        }
    }

    #[test]
    fn a_slot_is_named_by_its_begin() {
        let at = |second: i64, period| slot_at(second * 1_000 + 999, period).unwrap();
        // 2026-11-22T13:59:59Z, and a second later.
        assert_eq!(at(1_795_355_999, DAY), "2026-11-22T00:00:00Z");
        assert_eq!(at(1_795_355_999, 3_600), "2026-11-22T13:00:00Z");
        assert_eq!(at(1_795_356_000, 3_600), "2026-11-22T14:00:00Z");
        assert_eq!(at(1_795_355_999, 1), "2026-11-22T13:59:59Z");
        // Weeks begin as the epoch did, on a Thursday.
        assert_eq!(at(1_795_355_999, 7 * DAY), "2026-11-19T00:00:00Z");
        assert_eq!(at(951_782_400, DAY), "2000-02-29T00:00:00Z");
        assert_eq!(at(4_107_542_400, DAY), "2100-03-01T00:00:00Z");
        assert_eq!(at(0, i64::MAX), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn a_clock_beyond_the_names_gives_no_slot() {
        assert_eq!(slot_at(-1, DAY), None);
        assert_eq!(slot_at((YEAR_10000 - 1) * 1_000, 1).unwrap(), "9999-12-31T23:59:59Z");
        assert_eq!(slot_at(YEAR_10000 * 1_000, 1), None);
        assert_eq!(slot_at(i64::MAX, 1), None);
    }

    #[test]
    fn a_period_is_a_number_of_whole_seconds() {
        assert_eq!(whole_seconds(Duration::from_secs(86_400)), Ok(DAY));
        for period in
            [Duration::ZERO, Duration::from_millis(1_500), Duration::from_millis(500), Duration::MAX]
        {
            assert_eq!(whole_seconds(period), Err(SlotProblem::Period), "{period:?}");
        }
    }

    proptest! {
        #[test]
        fn names_sort_as_their_slots_do(
            one in 0..YEAR_10000 * 1_000,
            other in 0..YEAR_10000 * 1_000,
            period in 1..400 * DAY,
        ) {
            let (first, last) = (one.min(other), one.max(other));
            let (early, late) = (slot_at(first, period).unwrap(), slot_at(last, period).unwrap());
            let same = first / 1_000 / period == last / 1_000 / period;
            prop_assert_eq!(early.cmp(&late), if same { std::cmp::Ordering::Equal } else { std::cmp::Ordering::Less });
            prop_assert!(Slot::parse(&early).is_ok());
        }
    }
}
