//! `make simulate`.

use std::process::ExitCode;

use zklock_simulation::{Choices, Member, Trace, run};

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let seed = arguments[0].parse().expect("a seed");
    let member = arguments.get(1).and_then(|name| Member::named(name));
    let trace = arguments.iter().any(|argument| argument == "--trace").then(Trace::print);
    let (outcome, faults) = run(seed, &Choices { member, without: Vec::new() });
    drop(trace);
    println!("{faults} faults, {} grants, {} losses", outcome.grants, outcome.losses);
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
