//! Runs of `--every` that are days of a time zone, as cron counts them.

use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::failure::Failure;

const DAY: u64 = 86_400;

/// The name of the zone that this machine has.
const LOCAL: &str = "local";

/// Parses the name of a time zone.
pub(crate) fn parse_zone(text: &str) -> Result<TimeZone, String> {
    let zone = match text {
        // As libc has it: a machine that says nothing is in UTC.
        LOCAL if std::env::var_os("TZ").is_none() && !Path::new("/etc/localtime").exists() => {
            Ok(TimeZone::UTC)
        }
        LOCAL => TimeZone::try_system(),
        _ => TimeZone::get(text),
    };
    zone.map_err(|error| {
        format!("{error}; give a time zone such as Europe/Helsinki, or local for the zone of this machine")
    })
}

/// Returns how many days this period has.
pub(crate) fn days(period: Duration) -> Result<u64, Failure> {
    match (period.as_secs() / DAY, period.as_secs() % DAY) {
        (days @ 1.., 0) => Ok(days),
        _ => Err(Failure::usage(
            "with --time-zone, PERIOD must be whole days, such as 1d or 1w; for hours, leave out --time-zone: they \
             count in UTC",
        )),
    }
}

/// Returns the name of the run in which this instant is: the date of the first day of its period. One period begins on
/// 1970-01-01. The name has no zone. So no date runs twice, if machines are in several zones, or move to another one.
pub(crate) fn run_name(at: SystemTime, zone: &TimeZone, days: u64) -> Result<String, Failure> {
    const EPOCH: Date = date(1970, 1, 1);
    let unnamed =
        |error| Failure::internal(format_args!("the servers' clock shows a time that has no date: {error}"));
    let today = zone.to_datetime(Timestamp::try_from(at).map_err(unnamed)?).date();
    let since = today.duration_since(EPOCH).as_secs();
    let into_period = since.rem_euclid(i64::try_from(days * DAY).unwrap_or(i64::MAX));
    Ok(today.checked_sub(SignedDuration::from_secs(into_period)).map_err(unnamed)?.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;
    use jiff::ToSpan;
    use jiff::civil::{DateTime, Time, time};
    use jiff::tz::AmbiguousOffset;

    use super::*;
    use crate::args::{Arguments, Command};

    /// How a cron treats a time that a day does not have, or has twice.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Cron {
        /// Debian's and cronie's: it starts the command right after the jump, and once.
        Vixie,
        /// BusyBox's and Kubernetes': it starts no command, or two.
        Plain,
    }

    impl Cron {
        /// When it starts a command on this day of the zone.
        fn starts(self, day: Date, at: Time, zone: &TimeZone) -> Vec<Timestamp> {
            let instant = |offset: jiff::tz::Offset| offset.to_timestamp(day.to_datetime(at)).unwrap();
            match (zone.to_ambiguous_timestamp(day.to_datetime(at)).offset(), self) {
                (AmbiguousOffset::Unambiguous { offset }, _) => vec![instant(offset)],
                (AmbiguousOffset::Fold { before, .. }, Self::Vixie) => vec![instant(before)],
                (AmbiguousOffset::Fold { before, after }, Self::Plain) => {
                    vec![instant(before), instant(after)]
                }
                (AmbiguousOffset::Gap { .. }, Self::Plain) => vec![],
                (AmbiguousOffset::Gap { before, after }, Self::Vixie) => {
                    // By the offset behind the jump, the time that is left out was before it.
                    let jump = zone.following(instant(after)).next().unwrap().timestamp();
                    // After a jump of three hours and more it takes the clock for a wrong one, and starts nothing.
                    let is_short = after.seconds() - before.seconds() < 3 * 3_600;
                    if is_short { vec![jump] } else { vec![] }
                }
            }
        }
    }

    fn name_of(at: Timestamp, zone: &TimeZone) -> String {
        run_name(at.into(), zone, 1).unwrap()
    }

    /// The days of a zone from this one on, without those that the zone has left out.
    fn days_of(zone: &TimeZone, first: Date, number: i32) -> impl Iterator<Item = Date> {
        let has = move |at: DateTime| {
            !matches!(zone.to_ambiguous_timestamp(at).offset(), AmbiguousOffset::Gap { .. })
        };
        let times = [time(0, 0, 0, 0), time(12, 0, 0, 0), time(23, 59, 0, 0)];
        (0..number)
            .map(move |day| first + day.days())
            .filter(move |day| times.iter().any(|at| has(day.to_datetime(*at))))
    }

    /// Asserts that a command which cron starts at this time runs once on each of these days.
    fn assert_runs(cron: Cron, at: Time, zone: &TimeZone, days: impl Iterator<Item = Date>) {
        let mut ran = BTreeSet::new();
        for day in days {
            let starts = cron.starts(day, at, zone);
            let runs: Vec<_> =
                starts.iter().map(|at| name_of(*at, zone)).filter(|name| ran.insert(name.clone())).collect();
            let name = zone.iana_name();
            assert_eq!(runs, [day.to_string()], "{cron:?} in {name:?} at {at}, which is {starts:?}");
        }
    }

    /// All zones, and the days around each of their jumps in these years.
    fn jumps(from: i16, until: i16) -> impl Iterator<Item = (TimeZone, Vec<Date>)> {
        let [from, until] =
            [from, until].map(|year| date(year, 1, 1).to_zoned(TimeZone::UTC).unwrap().timestamp());
        jiff::tz::db().available().map(move |name| {
            let zone = TimeZone::get(name.as_str()).unwrap();
            let jumps = zone.following(from).map(|jump| jump.timestamp()).take_while(|jump| *jump < until);
            let firsts = jumps.map(|jump| zone.to_datetime(jump).date() - 2.days()).collect::<BTreeSet<_>>();
            let days = firsts.into_iter().flat_map(|first| days_of(&zone, first, 5)).collect::<BTreeSet<_>>();
            (zone, days.into_iter().collect())
        })
    }

    /// The crontab lines with a time zone on a page, each with its hour and minute.
    fn documented(page: &str) -> Vec<(Time, Vec<String>)> {
        let page = format!("{}/../docs/{page}", env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(page).unwrap();
        let lines = page.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let of_line = |words: Vec<String>| match words.as_slice() {
            [minute, hour, day, month, weekday, command @ ..]
                if [day, month, weekday] == ["*"; 3] && command.contains(&"--time-zone".to_owned()) =>
            {
                Some((time(hour.parse().unwrap(), minute.parse().unwrap(), 0, 0), command.to_vec()))
            }
            _ => None,
        };
        lines.filter_map(of_line).collect()
    }

    #[test]
    fn the_documented_crontab_line_runs_once_on_every_day_in_every_zone() {
        let [guide, options] = ["GUIDE.md", "CLI.md"].map(documented);
        let [(at, command)] = &guide[..] else { panic!("{guide:?}") };
        assert_eq!(guide, options, "both pages have the same line");
        let Ok(Arguments { command: Command::Run(run), .. }) = Arguments::try_parse_from(command) else {
            panic!("{command:?}")
        };
        assert_eq!(days(run.every.unwrap()).ok(), Some(1));
        assert!(run.time_zone.is_some() && command.contains(&LOCAL.to_owned()));
        for cron in [Cron::Vixie, Cron::Plain] {
            let mut seen = 0;
            for (zone, days) in jumps(2020, 2040) {
                seen += days.len();
                assert_runs(cron, *at, &zone, days.into_iter());
            }
            assert!(seen > 10_000, "the time zones have no jumps: {seen}");
        }
    }

    /// Also at the time of a jump. Two times are not safe: that of a jump of three hours, which cron takes for a wrong clock,
    /// and that of a jump to midnight, behind which the next day has begun, as at 23:30 in Nuuk.
    #[test]
    fn a_line_for_any_time_of_day_runs_once_on_every_day() {
        for (zone, days) in jumps(2000, 2040) {
            for at in [time(0, 0, 0, 0), time(0, 30, 0, 0), time(2, 30, 0, 0), time(22, 30, 0, 0)] {
                let days = days.iter().copied().filter(|day| !Cron::Vixie.starts(*day, at, &zone).is_empty());
                assert_runs(Cron::Vixie, at, &zone, days);
            }
        }
    }

    /// What a run in UTC did to the same line: a start after the spring's jump found the run of the day before.
    #[test]
    fn a_run_in_utc_skips_a_day_of_helsinki() {
        let zone = TimeZone::get("Europe/Helsinki").unwrap();
        let starts = [29, 30].map(|day| Cron::Vixie.starts(date(2026, 3, day), time(2, 30, 0, 0), &zone)[0]);
        assert_eq!(starts.map(|at| name_of(at, &TimeZone::UTC)), ["2026-03-29"; 2]);
        assert_eq!(starts.map(|at| name_of(at, &zone)), ["2026-03-29", "2026-03-30"]);
    }

    #[test]
    fn periods_of_days_begin_in_1970_and_are_named_by_their_first_day() {
        let zone = TimeZone::get("America/New_York").unwrap();
        let of = |at: &str, days| run_name(at.parse::<Timestamp>().unwrap().into(), &zone, days).unwrap();
        // A Sunday there, in the week from Thursday on.
        assert_eq!([1, 7].map(|days| of("2026-11-23T04:59:59Z", days)), ["2026-11-22", "2026-11-19"]);
        assert_eq!(of("2026-11-23T05:00:00Z", 1), "2026-11-23");
        assert_eq!([1, 7].map(|days| of("1970-01-01T00:00:00Z", days)), ["1969-12-31", "1969-12-25"]);
        assert_eq!(of("2026-11-23T04:59:59Z", 1_000_000), "1970-01-01");
    }

    #[test]
    fn a_time_zone_goes_with_whole_days() {
        let of = |hours: u64| days(Duration::from_secs(hours * 3_600)).ok();
        assert_eq!([of(24), of(168), of(36), of(12), of(0)], [Some(1), Some(7), None, None, None]);
        assert!(
            parse_zone("local").is_ok() && parse_zone("Europe/Helsinki").is_ok() && parse_zone("UTC").is_ok()
        );
        for name in ["Europe/Nowhere", "", "EET2", "+02:00"] {
            assert!(parse_zone(name).unwrap_err().contains("Europe/Helsinki"), "{name}");
        }
    }
}
