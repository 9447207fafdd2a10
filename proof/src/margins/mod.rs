//! Who is told first: the holder that it has lost the lock, or the next contender that it has got it.
//!
//! Each scenario lets servers, connections or processes fail under a holder, on a real ensemble of three, and fails if two
//! guards are ever valid at once. It measures the margin: from the end of the guard to the next grant. The table is
//! that of `docs/STRICTNESS.md`.

mod args;
mod contest;
mod cut_off_client;
mod cut_off_server;
mod differing_servers;
mod holder;
mod late_create;
mod leader_death;
mod operator;
mod paused_server;
mod peer;
mod rolling_restart;
mod scenario;
mod stalled_server;
mod stopped_process;

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

pub(crate) use args::Margins;
pub(crate) use holder::{Part, hold};
use scenario::SCENARIOS;

use crate::harness::table;

/// True if no scenario failed.
pub(crate) async fn run(margins: &Margins) -> anyhow::Result<bool> {
    let (mut rows, mut passed) = (Vec::new(), true);
    let is_asked_for = |name: &str| margins.only.is_empty() || margins.only.iter().any(|only| only == name);
    for scenario in SCENARIOS.iter().filter(|scenario| is_asked_for(scenario.name)) {
        // A failure is a panic, which has said what is wrong. The other scenarios are played all the same.
        match AssertUnwindSafe((scenario.play)(margins.repetitions.into())).catch_unwind().await {
            Ok(measured) => rows.extend(measured),
            Err(_) => {
                eprintln!("margins: {} FAILED", scenario.name);
                passed = false;
            }
        }
    }
    table::print("margin", &rows);
    Ok(passed)
}
