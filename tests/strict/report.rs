//! How often a scenario is repeated, and the row it adds to the table.

const VARIABLE: &str = "ZKLOCK_STRICT_REPETITIONS";

/// How often each scenario is to be repeated.
pub(crate) fn repetitions() -> usize {
    let Some(text) = std::env::var_os(VARIABLE) else { return 1 };
    let number = text.to_str().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
    number.unwrap_or_else(|| panic!("{VARIABLE}={text:?} is no number from 1"))
}

/// The margins of one scenario: seconds from the end of the holder's guard to the next grant, negative if two held.
pub(crate) struct Margins {
    scenario: &'static str,
    seconds: Vec<f64>,
}

impl Margins {
    pub(crate) fn of(scenario: &'static str) -> Self {
        Self { scenario, seconds: Vec::new() }
    }

    /// Adds one repetition's, and tells it, for when a later one fails.
    pub(crate) fn record(&mut self, seconds: f64) {
        self.seconds.push(seconds);
        println!("{}, repetition {}: {}", self.scenario, self.seconds.len(), text(seconds));
    }

    /// Prints the row.
    pub(crate) fn print(mut self) {
        self.seconds.sort_by(f64::total_cmp);
        let (scenario, number) = (self.scenario, self.seconds.len());
        let (least, median) = (self.seconds[0], median(&self.seconds));
        println!("| {scenario} | {number} | {} | {} |", text(least), text(median));
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

fn text(seconds: f64) -> String {
    if seconds.abs() < 0.1 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

#[test]
fn a_median_is_in_the_middle() {
    assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
    assert_eq!(median(&[-1.0, 2.0, 4.0, 9.0]), 3.0);
    assert_eq!((text(-0.0123), text(-4.801)), ("-12.3 ms".to_owned(), "-4.80 s".to_owned()));
}
