//! Completions and manual pages, for packages of the program.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::args::{self, Arguments};
use crate::failure::{Failure, Outcome};
use crate::output;

const NAME: &str = env!("CARGO_BIN_NAME");

pub(crate) fn print_completions(completions: args::Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::command(), NAME, &mut script);
    print_bytes(script)
}

pub(crate) fn write_pages(man: args::Man) -> Outcome {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    let Some(directory) = man.dir else { return print_bytes(page(&program).map_err(Failure::internal)?) };
    write_all(&program, &directory).map_err(|error| {
        Failure::usage(format_args!("the pages cannot be written to {}: {error}", directory.display()))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print_bytes(bytes: Vec<u8>) -> Outcome {
    output::print(&String::from_utf8(bytes).map_err(Failure::internal)?)?;
    Ok(ExitCode::SUCCESS)
}

fn write_all(program: &Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
    for command in visible.chain([program]) {
        fs::write(directory.join(format!("{}.1", title(command))), page(command)?)?;
    }
    Ok(())
}

fn title(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// The manual page of a command. clap writes all sections but the usage line: its own synopsis lists all options, and leaves out the
/// `--` between the arguments.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let man = Man::new(command.clone())
        .title(title(command).to_uppercase())
        // Without a date, the same program makes the same page. Without the quotes, the source would stand as the date.
        .date("\"\"")
        .source(format!("{NAME} {}", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let usage = command.clone().render_usage().to_string();
    let mut synopsis = Roff::new();
    synopsis.control("SH", ["SYNOPSIS"]).text([roman(usage.trim_start_matches("Usage: "))]);
    synopsis.to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if command.get_after_help().is_some() {
        man.render_extra_section(&mut page)?;
    }
    Ok(page)
}
