//! `zklock completions`: a shell's completions, for packages of the program.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Arguments, Completions};
use crate::failure::{Failure, Outcome};
use crate::output;

pub(crate) fn print_completions(completions: Completions) -> Outcome {
    let mut script = Vec::new();
    let name = env!("CARGO_BIN_NAME");
    clap_complete::generate(completions.shell, &mut Arguments::command(), name, &mut script);
    output::print(&String::from_utf8(script).map_err(Failure::internal)?)?;
    Ok(ExitCode::SUCCESS)
}
