//! Who is told first: the holder that it has lost the lock, or the next contender that it has got it.
//!
//! Each scenario lets servers or connections fail under a holder, on a real ensemble of three, and fails if two
//! guards are ever valid at once. It measures the margin: from the end of the guard to the next grant. The table is
//! that of `docs/STRICTNESS.md`.

mod contest;
mod cut_off;
mod differing_servers;
mod late_create;
mod operator;
mod peer;
mod rolling_restart;
mod scenario;
mod stalled_server;

use std::thread;

use anyhow::Context;
use clap::Args;
use clap::builder::PossibleValuesParser;
use tokio::runtime;
use tokio::sync::oneshot;

use scenario::{SCENARIOS, Scenario};

use crate::harness::{Row, Ruling, table};

/// What is to be measured.
#[derive(Debug, Args)]
pub(crate) struct Margins {
    /// How often each scenario is repeated.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) repetitions: u16,
    /// Only these scenarios.
    #[arg(value_name = "SCENARIO", value_parser = PossibleValuesParser::new(SCENARIOS.iter().map(|one| one.name)))]
    pub(crate) only: Vec<String>,
}

/// Passes if no scenario failed.
pub(crate) async fn run(margins: &Margins) -> anyhow::Result<Ruling> {
    let mut rows = Vec::new();
    let mut ruling = Ruling::Pass;
    let is_asked_for = |name: &str| margins.only.is_empty() || margins.only.iter().any(|only| only == name);
    for scenario in SCENARIOS.iter().filter(|scenario| is_asked_for(scenario.name)) {
        match play(scenario, margins.repetitions.into()).await? {
            Some(measured) => rows.extend(measured),
            None => {
                eprintln!("margins: {} FAILED", scenario.name);
                ruling = Ruling::Fail;
            }
        }
    }
    table::print("what happens to the holder | times | least margin | median", rows.iter().map(Row::cells));
    Ok(ruling)
}

/// Plays it in a thread and a runtime of its own, which end with it. `None` if it panicked; then it has said why.
async fn play(scenario: &'static Scenario, times: usize) -> anyhow::Result<Option<Vec<Row>>> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let (played, measured) = oneshot::channel();
    thread::spawn(move || played.send(runtime.block_on((scenario.play)(times))));
    Ok(measured.await.ok())
}
