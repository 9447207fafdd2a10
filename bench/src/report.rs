//! What is printed: a table, or a line of JSON for each row and each ratio.

use serde::{Serialize, Serializer};

use crate::args::Scenario;

pub(crate) struct Report {
    pub(crate) lines: Vec<Line>,
    pub(crate) ratios: Vec<Ratio>,
}

/// One peer.
#[derive(Serialize)]
pub(crate) struct Line {
    #[serde(rename = "impl")]
    pub(crate) implementation: &'static str,
    pub(crate) scenario: Scenario,
    pub(crate) clients: u32,
    /// For each client.
    pub(crate) cycles: u32,
    pub(crate) rtt_ms: f64,
    /// How often a second a lock changed hands.
    pub(crate) per_s: Short,
    pub(crate) p50_us: Short,
    pub(crate) p99_us: Short,
    pub(crate) requests_per_cycle: Short,
    pub(crate) events_per_cycle: Short,
    /// Replies and events.
    pub(crate) reply_bytes_per_cycle: Short,
    /// The longest wait, as a multiple of what each contender would wait if all had the lock in turn: of half of the slices
    /// it was less. Only where all contend for one lock.
    pub(crate) longest_wait: Short,
}

/// One peer's number divided by another's.
#[derive(Serialize)]
pub(crate) struct Ratio {
    pub(crate) ratio: Short,
    pub(crate) of: &'static str,
    pub(crate) against: &'static str,
    pub(crate) metric: &'static str,
}

impl Report {
    pub(crate) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            for line in &self.lines {
                println!("{}", serde_json::to_string(line)?);
            }
            for ratio in &self.ratios {
                println!("{}", serde_json::to_string(ratio)?);
            }
        } else {
            self.print_table();
        }
        Ok(())
    }

    fn print_table(&self) {
        println!(
            "{:<25} {:>9} {:>10} {:>10} {:>9} {:>7} {:>12} {:>8}",
            "", "per s", "p50 us", "p99 us", "requests", "events", "reply bytes", "longest"
        );
        for line in &self.lines {
            println!(
                "{:<25} {:>9.1} {:>10.0} {:>10.0} {:>9.2} {:>7.2} {:>12.1} {:>8}",
                line.implementation,
                line.per_s.0,
                line.p50_us.0,
                line.p99_us.0,
                line.requests_per_cycle.0,
                line.events_per_cycle.0,
                line.reply_bytes_per_cycle.0,
                if line.longest_wait.0.is_finite() {
                    format!("{:.2}", line.longest_wait.0)
                } else {
                    String::new()
                }
            );
        }
        for ratio in &self.ratios {
            println!("{} / {}: {:.3} ({})", ratio.of, ratio.against, ratio.ratio.0, ratio.metric);
        }
    }
}

/// A figure that JSON shows with three decimals: more would claim a precision nobody has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Short(pub(crate) f64);

impl Serialize for Short {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64((self.0 * 1000.0).round() / 1000.0)
    }
}

/// Prints a line of JSON, or a text that says the same.
pub(crate) fn print(
    json: bool,
    reading: &impl Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    println!("{}", if json { serde_json::to_string(reading)? } else { text() });
    Ok(())
}
