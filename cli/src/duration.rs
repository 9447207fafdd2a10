//! Durations as people write them.

use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};

/// Parses `10`, `0.5`, `1500ms`, `10s` and `1m30s`. A number alone is in seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string());
    }
    let duration: SignedDuration = text.parse().map_err(|_| {
        "write a duration as 10s, 1500ms or 1m30s; a number without a unit is in seconds".to_owned()
    })?;
    Duration::try_from(duration).map_err(|_| "it is negative".to_owned())
}

/// Parses a period. It may also have days, of 24 hours, and weeks: `1d`, `2w`.
pub(crate) fn parse_period(text: &str) -> Result<Duration, String> {
    let of_days = |span: Span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok();
    let period = match parse(text) {
        Ok(period) => period,
        Err(_) => {
            let span = text.parse::<Span>().ok().and_then(of_days);
            let span =
                span.ok_or("write a period as 15m, 12h, 1d or 1w; a number without a unit is in seconds")?;
            Duration::try_from(span).map_err(|_| "it is negative")?
        }
    };
    match period.subsec_nanos() {
        0 if !period.is_zero() => Ok(period),
        _ => Err("a period must be whole seconds, at least 1".to_owned()),
    }
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
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "soon", "-1", "-3s", "1e400", "NaN", "5 parsecs"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_period_may_have_days_and_has_whole_seconds() {
        for (text, minutes) in [("1d", 1440), ("2w", 14 * 1440), ("1d 12h", 2160), ("15m", 15), ("120", 2)] {
            assert_eq!(parse_period(text), Ok(Duration::from_secs(minutes * 60)), "{text:?}");
        }
        for text in ["0", "1.5", "1500ms", "-1d"] {
            assert!(parse_period(text).is_err(), "{text:?}");
        }
        for text in ["1 month", "1y", "daily", ""] {
            assert!(parse_period(text).unwrap_err().contains("15m, 12h, 1d or 1w"), "{text:?}");
        }
    }

    #[test]
    fn it_is_written_as_it_is_read_best() {
        let of = |millis| text(Duration::from_millis(millis));
        assert_eq!([of(0), of(42), of(1500), of(2000)], ["0ms", "42ms", "1.5s", "2s"]);
        assert_eq!([of(2837), of(2999), of(59_999), of(1050)], ["2.83s", "2.99s", "59.99s", "1.05s"]);
        assert_eq!([of(200_000), of(7_500_000), of(180_000_000)], ["3m 20s", "2h 5m", "2d 2h"]);
    }
}
