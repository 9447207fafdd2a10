//! Tables in Markdown, and the figures in them.

use clap::ValueEnum;

/// How a table names this: by its comment.
pub(crate) fn title(value: &impl ValueEnum) -> String {
    let help = value.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
    help.unwrap_or_default()
}

/// How a command line names it.
pub(crate) fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Prints rows under their heads, which bars separate.
pub(crate) fn print(heads: &str, rows: impl IntoIterator<Item = Vec<String>>) {
    println!("| {heads} |");
    println!("{}|", "|---".repeat(heads.split('|').count()));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}

/// What this part of the figures does not exceed: the median for 0.5. Between two figures it is in proportion. No number if there are
/// none.
pub(crate) fn quantile(figures: &[f64], part: f64) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_unstable_by(f64::total_cmp);
    let place = figures.len().saturating_sub(1) as f64 * part;
    let at = |place: f64| figures.get(place as usize).copied().unwrap_or(f64::NAN);
    at(place.floor()) + (at(place.ceil()) - at(place.floor())) * place.fract()
}

/// What was measured in one scenario that was repeated, in seconds.
pub(crate) struct Row {
    scenario: String,
    seconds: Vec<f64>,
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

    /// How often it was measured, the least, and the median.
    pub(crate) fn cells(&self) -> Vec<String> {
        let figure = |part| text(quantile(&self.seconds, part));
        vec![self.scenario.clone(), self.seconds.len().to_string(), figure(0.0), figure(0.5)]
    }
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
        assert_eq!(row.cells(), ["it is paused", "3", "-12.3 ms", "4.00 s"]);
        row.record(-4.801);
        assert_eq!(row.cells(), ["it is paused", "4", "-4.80 s", "1.99 s"]);
    }
}
