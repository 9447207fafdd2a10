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
    #[serde(serialize_with = "short")]
    pub(crate) per_s: f64,
    #[serde(serialize_with = "short")]
    pub(crate) p50_us: f64,
    #[serde(serialize_with = "short")]
    pub(crate) p99_us: f64,
    #[serde(serialize_with = "short")]
    pub(crate) requests_per_cycle: f64,
    #[serde(serialize_with = "short")]
    pub(crate) events_per_cycle: f64,
    /// Replies and events.
    #[serde(serialize_with = "short")]
    pub(crate) reply_bytes_per_cycle: f64,
    /// The longest wait, as a multiple of what each contender would wait if all had the lock in turn: of half of the slices
    /// it was less. Only where all contend for one lock.
    #[serde(serialize_with = "short")]
    pub(crate) longest_wait: f64,
}

/// One peer's number divided by another's.
#[derive(Serialize)]
pub(crate) struct Ratio {
    #[serde(serialize_with = "short")]
    pub(crate) ratio: f64,
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
                line.per_s,
                line.p50_us,
                line.p99_us,
                line.requests_per_cycle,
                line.events_per_cycle,
                line.reply_bytes_per_cycle,
                if line.longest_wait.is_finite() {
                    format!("{:.2}", line.longest_wait)
                } else {
                    String::new()
                }
            );
        }
        for ratio in &self.ratios {
            println!("{} / {}: {:.3} ({})", ratio.of, ratio.against, ratio.ratio, ratio.metric);
        }
    }
}

/// Three decimals: more would claim a precision nobody has.
pub(crate) fn short<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value * 1000.0).round() / 1000.0)
}
