//! Durations as people write them.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

/// Parses `10`, `0.5`, `1500ms`, `10s`, `1m30s` and `1d`, with days of 24 hours. A number alone is in seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        if seconds < 0.0 {
            return Err("it is negative".to_owned());
        }
        return Duration::try_from_secs_f64(seconds).map_err(|_| {
            "it is too long, or no number; leave the option out if the time is to have no bound".to_owned()
        });
    }
    let span = text.parse::<Span>().ok();
    let span = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    let span = span.ok_or(
        "write a duration as 10s, 1500ms, 1m30s, 12h, 1d or 1w; a number without a unit is in seconds",
    )?;
    Duration::try_from(span).map_err(|_| "it is negative".to_owned())
}

/// Parses a period: a duration of whole seconds.
pub(crate) fn parse_period(text: &str) -> Result<Duration, String> {
    let period = parse(text)?;
    match period.subsec_nanos() {
        0 if !period.is_zero() => Ok(period),
        _ => Err("a period must be whole seconds, at least 1".to_owned()),
    }
}

/// Parses the servers' tick. A lease that is computed with none would be too long.
pub(crate) fn parse_tick(text: &str) -> Result<Duration, String> {
    let tick = parse(text)?;
    if tick < Duration::from_millis(1) {
        return Err("a server's tickTime is 1ms or more; give the value of the servers".to_owned());
    }
    Ok(tick)
}

/// Writes it for people: `1.5s`, `42ms`, `3m 20s`. It is rounded down, so that a limit in a message can be given as an
/// option.
pub(crate) fn text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => {
            let text = format!("{seconds}.{:02}", duration.subsec_millis() / 10);
            format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
        }
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_alone_is_of_seconds_and_units_may_be_added() {
        for (text, millis) in [
            ("0", 0),
            ("0.25", 250),
            ("90", 90_000),
            ("1500ms", 1500),
            ("1m30s", 90_000),
            ("2h 5m", 7_500_000),
            ("1d 12h", 129_600_000),
            ("2w", 1_209_600_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["-1", "-3s", "1e400", "NaN", "inf"] {
            assert!(parse(text).is_err_and(|said| !said.contains("Duration")), "{text:?}");
        }
        for text in ["", "soon", "5 parsecs", "1 month", "1y", "daily"] {
            assert!(parse(text).unwrap_err().contains("1500ms, 1m30s, 12h, 1d or 1w"), "{text:?}");
        }
    }

    #[test]
    fn a_period_has_whole_seconds() {
        assert_eq!(parse_period("1d"), Ok(Duration::from_secs(86_400)));
        for text in ["0", "1.5", "1500ms", "-1d"] {
            assert!(parse_period(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn it_is_written_as_it_is_read_best() {
        let of = |millis| text(Duration::from_millis(millis));
        assert_eq!([of(0), of(42), of(1500), of(2000)], ["0ms", "42ms", "1.5s", "2s"]);
        assert_eq!([of(2837), of(2999), of(59_999), of(1050)], ["2.83s", "2.99s", "59.99s", "1.05s"]);
        assert_eq!([of(200_000), of(7_500_000), of(180_000_000)], ["3m 20s", "2h 5m", "2d 2h"]);
    }

    proptest! {
        #[test]
        fn any_text_is_a_duration_or_is_refused(
            text in prop_oneof![any::<String>(), "[-+]?([0-9]{0,20}(\\.[0-9]{1,3})?(e[0-9]{1,3}|ns|ms|s|m|h|d|w|mo|y|:)? ?){0,4}"],
        ) {
            let duration = parse(&text);
            prop_assert!(parse_period(&text).is_err() || parse_period(&text) == duration);
            prop_assert!(parse_tick(&text).is_err() || parse_tick(&text) == duration);
            let _ = duration.map(super::text);
        }

        #[test]
        fn any_duration_is_read_from_its_text_rounded_down(milliseconds in prop_oneof![0..100_000_u64, 0..600_000_000_000_000_u64]) {
            let duration = Duration::from_millis(milliseconds);
            let read = parse(&super::text(duration)).unwrap();
            prop_assert!(read <= duration);
            prop_assert_eq!(super::text(read), super::text(duration));
        }
    }
}
