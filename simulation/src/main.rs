//! `make simulate`.

mod args;
mod seeds;

use std::process::ExitCode;

use clap::Parser;
use zklock_simulation::{print_trace, run};

use args::Args;

fn main() -> ExitCode {
    let args = Args::parse();
    let Some(seed) = args.seed else { return seeds::run(&args) };
    if args.trace {
        print_trace();
    }
    let outcome = run(seed, &args.choices());
    println!("seen {}", serde_json::to_string(&outcome.seen).expect("numbers"));
    outcome.reached.iter().for_each(|message| println!("reached {message}"));
    outcome.violations.iter().for_each(|violation| println!("VIOLATION {violation}"));
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
