//! `zklock replay`: runs flight records through the machines again.

use std::process::ExitCode;

use zklock_audit::{Filter, replay};

use crate::args;
use crate::audit::read;
use crate::exit::Code;
use crate::failure::Outcome;
use crate::output;
use crate::text::harmless;

/// Prints each line of interest, with what the machines decide.
pub(crate) fn run(options: &args::Replay) -> Outcome {
    let records = read(&options.records)?;
    let filter = Filter { path: options.path.clone(), acquisition: options.acquisition };
    let mut printed = Ok(());
    let replayed = replay(&records, &filter, |line| {
        if printed.is_ok() {
            printed = output::print(&format!("{}\n", harmless(line)));
        }
    });
    printed?;
    output::print(&format!(
        "{} inputs and {} pieces of evidence: the machines decide otherwise in {} places\n",
        replayed.inputs, replayed.evidence, replayed.diverged
    ))?;
    Ok(if replayed.diverged == 0 { ExitCode::SUCCESS } else { Code::No.into() })
}
