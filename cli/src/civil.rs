//! Runs of `--every` that are days of a time zone, as cron counts them.

use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::failure::Failure;

const DAY: u64 = 86_400;

const LOCAL: &str = "local";

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
    use jiff::civil::{Time, time};
    use jiff::tz::AmbiguousOffset;

    use super::*;
    use crate::args::{Arguments, Command};

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
        let [guide, options] = ["guide/once.md", "CLI.md"].map(documented);
        let [(at, command)] = &guide[..] else { panic!("{guide:?}") };
        assert_eq!(guide, options, "both pages have the same line");
        let Ok(Arguments { command: Command::Run(run), .. }) = Arguments::try_parse_from(command) else {
            panic!("{command:?}")
        };
        assert_eq!(days(run.wanted.every.unwrap()).ok(), Some(1));
        assert!(run.wanted.time_zone.is_some() && command.contains(&LOCAL.to_owned()));
        let [from, until] =
            [2020, 2040].map(|year| date(year, 1, 1).to_zoned(TimeZone::UTC).unwrap().timestamp());
        let mut seen = 0;
        for name in jiff::tz::db().available() {
            let zone = TimeZone::get(name.as_str()).unwrap();
            let jumps = zone.following(from).map(|jump| jump.timestamp()).take_while(|jump| *jump < until);
            let firsts = jumps.map(|jump| zone.to_datetime(jump).date() - 2.days()).collect::<BTreeSet<_>>();
            for start in firsts
                .into_iter()
                .flat_map(|first| (0..5).map(move |day| (first + day.days()).to_datetime(*at)))
            {
                // No cron leaves out a time that is on the clock, and any cron may start a command twice.
                let offsets = match zone.to_ambiguous_timestamp(start).offset() {
                    AmbiguousOffset::Unambiguous { offset } => [offset; 2],
                    AmbiguousOffset::Fold { before, after } => [before, after],
                    AmbiguousOffset::Gap { .. } => panic!("{name:?} has no {start}"),
                };
                for offset in offsets {
                    let run = run_name(offset.to_timestamp(start).unwrap().into(), &zone, 1);
                    assert_eq!(run.unwrap(), start.date().to_string(), "{name:?}");
                }
                seen += 1;
            }
        }
        assert!(seen > 10_000, "the time zones have no jumps: {seen}");
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
