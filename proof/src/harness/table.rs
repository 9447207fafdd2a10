//! A table in Markdown: a row for each scenario that was repeated.

use std::fmt;

use clap::ValueEnum;

/// How a table names this: by its comment.
pub(crate) fn title(value: &impl ValueEnum) -> String {
    let help = value.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
    help.unwrap_or_default()
}

/// What was measured in one scenario, in seconds.
pub(crate) struct Row {
    scenario: String,
    seconds: Vec<f64>,
}

/// Prints rows under their heads.
pub(crate) fn print(rows: &[Row]) {
    println!("| what happens to the holder | times | least margin | median |");
    println!("|---|---|---|---|");
    rows.iter().for_each(|row| println!("{row}"));
}

impl Row {
    pub(crate) fn of(scenario: impl Into<String>) -> Self {
        Self { scenario: scenario.into(), seconds: Vec::new() }
    }

    /// Adds one repetition's, and says so, for the case that a later one fails.
    pub(crate) fn record(&mut self, seconds: f64) {
        self.seconds.push(seconds);
        eprintln!("{}, repetition {}: {}", self.scenario, self.seconds.len(), text(seconds));
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        let least = seconds.first().copied().map_or_else(String::new, text);
        let median = median(&seconds).map_or_else(String::new, text);
        write!(f, "| {} | {} | {least} | {median} |", self.scenario, seconds.len())
    }
}

fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

fn text(seconds: f64) -> String {
    if seconds.abs() < 0.1 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_least_and_what_is_in_the_middle() {
        let mut row = Row::of("it is paused");
        for seconds in [4.0, -0.0123, 9.0] {
            row.record(seconds);
        }
        assert_eq!(row.to_string(), "| it is paused | 3 | -12.3 ms | 4.00 s |");
        row.record(-4.801);
        assert_eq!(row.to_string(), "| it is paused | 4 | -4.80 s | 1.99 s |");
    }
}
