//! `make simulate`.

mod args;
mod seeds;

use std::process::ExitCode;

use clap::Parser;
use zklock_simulation::{Trace, run};

use args::{Args, Seen};

fn main() -> ExitCode {
    let args = Args::parse();
    let Some(seed) = args.seed else { return seeds::run(&args) };
    let trace = args.trace.then(Trace::print);
    let outcome = run(seed, &args.choices());
    drop(trace);
    println!("{}", Seen::of(&outcome));
    outcome.violations.iter().for_each(|violation| println!("VIOLATION {violation}"));
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
