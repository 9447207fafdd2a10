//! How long nobody runs the command: from the end of one under `zklock run` to the begin of the next.
//!
//! The scenarios are tests of the program, which fail if two commands ever run at once. Each prints its gaps; this repeats
//! the tests and tabulates what they print.

use std::process::Stdio;

use anyhow::{Context, ensure};
use clap::Args;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::harness::{Row, table};

/// The tests that print gaps.
const TESTS: &str = "test(/^(loss|run|terminal)::/) & test(/gone|cut_off|black_hole|operator|killed|told|stopped|asked|began/)";

#[derive(Debug, Args)]
pub(crate) struct Gaps {
    /// How often each scenario is repeated.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    repetitions: u16,
}

/// True if no test failed.
pub(crate) async fn run(gaps: &Gaps) -> anyhow::Result<bool> {
    let mut tests = Command::new("cargo")
        .args(["nextest", "run", "-p", "zklock-cli", "--test", "cli"])
        .args(["-E", TESTS, "--profile", "gaps", "--stress-count", &gaps.repetitions.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot run cargo nextest")?;
    let mut lines = BufReader::new(tests.stderr.take().context("no pipe")?).lines();
    let mut rows = Vec::<Row>::new();
    while let Some(line) = lines.next_line().await? {
        if let Some((scenario, seconds)) = gap(&line) {
            let known = rows.iter().position(|row| row.scenario() == scenario);
            let row = known.unwrap_or_else(|| {
                rows.push(Row::of(scenario));
                rows.len() - 1
            });
            rows[row].record(seconds);
        } else if line.contains("FAIL") || line.contains("error") {
            eprintln!("{line}");
        }
    }
    ensure!(!rows.is_empty(), "no test has printed a gap");
    table::print("gap", &rows);
    Ok(tests.wait().await?.success())
}

/// The scenario and the seconds in `gap: SCENARIO: +1.234 s`, if that is what the line says.
fn gap(line: &str) -> Option<(&str, f64)> {
    let (scenario, seconds) = line.trim().strip_prefix("gap: ")?.rsplit_once(": ")?;
    let seconds = seconds.strip_suffix(" s")?;
    seconds.starts_with(['+', '-']).then(|| Some((scenario, seconds.parse().ok()?)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_found_among_what_tests_print() {
        assert_eq!(gap("    gap: SIGTERM to zklock: +0.017 s"), Some(("SIGTERM to zklock", 0.017)));
        assert_eq!(
            gap("gap: an operator, and no delay: -0.493 s"),
            Some(("an operator, and no delay", -0.493))
        );
        assert_eq!(gap("gap: an operator: gone 0.520 s after it"), None);
        assert_eq!(gap("test the_lock_is_free ... ok"), None);
    }
}
