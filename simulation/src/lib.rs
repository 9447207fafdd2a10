//! zklock and zookeeper-client as they ship, on simulated servers, network and clocks, by seed.
//!
//! ```text
//! run ──▶ faults ──▶ cluster (servers on the heap) ──▶ world (time, clocks, network, processes)
//!  └────▶ contender ──▶ zklock_contest ──▶ zklock as it ships ──▶ zookeeper-client as it ships ──▶ shims ──▶ world
//!              └─────▶ history: what was held and when, in global time, and what was wrong with it
//! ```

mod cluster;
mod contender;
mod core;
mod faults;
mod history;
mod interventions;
mod operator;
mod part;
mod peers;
mod processes;
mod quiet;
mod run;
mod seen;
mod slack;
mod trace;

pub use history::Outcome;
pub use run::{Choices, run};
pub use seen::Seen;
pub use trace::print_trace;
