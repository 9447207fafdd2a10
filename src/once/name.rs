//! The names of runs: which names are allowed, and the names of periods.

use std::time::Duration;

use zklock_recipe::QueuePlace;

/// The seconds of a day.
const DAY: i64 = 86_400;

/// The first instant of the year 10000, in seconds since the Unix epoch. From there on the names of periods would no
/// longer sort by age.
const YEAR_10000: i64 = 253_402_300_800;

/// The longest name of a run, in characters.
const LONGEST_NAME: usize = 128;

/// Why a run cannot have a name, or why a period cannot have runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameProblem {
    /// The name is empty.
    #[error("it is empty; name the run, for example by a date such as 2026-11-22")]
    Empty,
    /// The name is too long.
    #[error("it has {0} characters; shorten it to {LONGEST_NAME} at most")]
    TooLong(usize),
    /// The name contains a character other than ASCII letters, digits, `.`, `_`, `:`, `+` and `-`.
    #[error("it contains {0:?}; use ASCII letters, digits and the characters . _ : + - only")]
    Character(char),
    /// The name is `.` or `..`.
    #[error("ZooKeeper does not allow a node of that name; use another name")]
    Dots,
    /// The name is a contender's name.
    #[error("it is the name of a contender; use another name")]
    Contender,
    /// The period is not a number of whole seconds, or is zero.
    #[error("it is not a valid period; use whole seconds, at least 1")]
    Period,
}

/// The name of a run that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunName(String);

impl RunName {
    pub(super) fn parse(name: &str) -> Result<Self, NameProblem> {
        if let Some(character) = name.chars().find(|character| !is_allowed(*character)) {
            return Err(NameProblem::Character(character));
        }
        match name {
            "" => Err(NameProblem::Empty),
            "." | ".." => Err(NameProblem::Dots),
            // Every character is one byte.
            _ if name.len() > LONGEST_NAME => Err(NameProblem::TooLong(name.len())),
            // Nobody should take a record for a contender.
            _ if QueuePlace::parse(name).is_some() => Err(NameProblem::Contender),
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
pub(super) fn whole_seconds(period: Duration) -> Result<i64, NameProblem> {
    match (i64::try_from(period.as_secs()), period.subsec_nanos()) {
        (Ok(seconds @ 1..), 0) => Ok(seconds),
        _ => Err(NameProblem::Period),
    }
}

/// Returns the name of the period in which this instant is: its begin, in UTC. Periods are as long as `period`, and one
/// begins at the Unix epoch. `at` counts from then. `None` from the year 10000 on.
pub(super) fn name_at(at: Duration, period: i64) -> Option<String> {
    let second = i64::try_from(at.as_secs()).ok()?;
    let begin = second - second.checked_rem(period)?;
    (begin < YEAR_10000).then(|| rfc_3339(begin))
}

/// Writes an instant of the years 1970 to 9999, in seconds since the Unix epoch.
fn rfc_3339(second: i64) -> String {
    let (year, month, day) = date(second / DAY);
    let hour = second % DAY / 3_600;
    let minute = second % 3_600 / 60;
    let second = second % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the date that is so many days after 1970-01-01, in the Gregorian calendar. It counts years from March on, so that
/// a leap day is the last one of its year, and from a year that 400 divides.
fn date(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day / 146_097;
    let of_era = day % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Five months from March or from August on have 153 days.
    let month = (5 * of_year + 2) / 153;
    let is_next_year = month >= 10;
    let of_month = of_year - (153 * month + 2) / 5;
    let month = if is_next_year { month - 9 } else { month + 3 };
    (era * 400 + year + i64::from(is_next_year), month, of_month + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn good_names_pass() {
        let longest = "x".repeat(LONGEST_NAME);
        // None of these is a contender's name, though one ends as the name of some client's contender does.
        for name in
            ["2026-11-22", "2026-11-22T00:00:00+01:00", "a.b_c", "...", "20261122000000", "lock-12", &longest]
        {
            assert_eq!(RunName::parse(name).map(|name| name.0), Ok(name.to_owned()));
        }
    }

    #[test]
    fn each_bad_name_is_told_its_problem() {
        let long = "x".repeat(LONGEST_NAME + 1);
        for (name, problem) in [
            ("", NameProblem::Empty),
            (".", NameProblem::Dots),
            ("..", NameProblem::Dots),
            ("a/b", NameProblem::Character('/')),
            ("a b", NameProblem::Character(' ')),
            ("@now", NameProblem::Character('@')),
            ("gr\u{fc}n", NameProblem::Character('\u{fc}')),
            ("lock-0000000001", NameProblem::Contender),
            ("lock--000000001", NameProblem::Contender),
            (&long, NameProblem::TooLong(LONGEST_NAME + 1)),
        ] {
            assert_eq!(RunName::parse(name), Err(problem), "{name:?}");
        }
    }

    #[test]
    fn a_period_is_named_by_its_begin() {
        let at = |second, period| name_at(Duration::new(second, 999_999_999), period).unwrap();
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
    fn a_clock_beyond_the_names_gives_no_name() {
        let end = Duration::from_secs(YEAR_10000.unsigned_abs());
        assert_eq!(name_at(end - Duration::from_millis(1), 1).unwrap(), "9999-12-31T23:59:59Z");
        assert_eq!(name_at(end, 1), None);
        assert_eq!(name_at(Duration::MAX, 1), None);
    }

    #[test]
    fn a_period_is_a_number_of_whole_seconds() {
        assert_eq!(whole_seconds(Duration::from_secs(86_400)), Ok(DAY));
        for period in
            [Duration::ZERO, Duration::from_millis(1_500), Duration::from_millis(500), Duration::MAX]
        {
            assert_eq!(whole_seconds(period), Err(NameProblem::Period), "{period:?}");
        }
    }

    /// Every day of the 400 years after which the calendar repeats itself.
    #[test]
    fn each_date_is_the_one_that_another_calendar_has() {
        let mut date = jiff::civil::date(1970, 1, 1);
        for day in 0..146_097 {
            let expected = (i64::from(date.year()), i64::from(date.month()), i64::from(date.day()));
            assert_eq!(super::date(day), expected);
            date = date.tomorrow().unwrap();
        }
    }

    proptest! {
        #[test]
        fn names_sort_as_their_slots_do(
            one in 0..YEAR_10000,
            other in 0..YEAR_10000,
            period in 1..400 * DAY,
        ) {
            let name = |second: i64| name_at(Duration::from_secs(second.unsigned_abs()), period).unwrap();
            prop_assert_eq!(name(one).cmp(&name(other)), (one / period).cmp(&(other / period)));
            prop_assert!(RunName::parse(&name(one)).is_ok());
        }
    }
}
