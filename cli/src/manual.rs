//! Completions and manual pages, for packages of the program.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::{self, Arguments};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::output;

const NAME: &str = env!("CARGO_BIN_NAME");

/// Prints a shell's completions.
pub(crate) fn completions(completions: args::Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::command(), NAME, &mut script);
    print(script)
}

/// Prints the manual page, or writes the pages of all commands.
pub(crate) fn pages(man: args::Man) -> Outcome {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    let Some(directory) = man.dir else { return print(page(&program).map_err(Failure::internal)?) };
    write(&program, &directory).map_err(|error| {
        Failure::usage(format_args!("the pages cannot be written to {}: {error}", directory.display()))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print(bytes: Vec<u8>) -> Outcome {
    output::print(&String::from_utf8(bytes).map_err(Failure::internal)?)?;
    Ok(ExitCode::SUCCESS)
}

fn write(program: &Command, directory: &Path) -> io::Result<()> {
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

/// One page. Its sections are clap's, but for the text behind the help: the lines of that text must stay as they are.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let is_program = command.get_name() == NAME;
    let man = Man::new(command.clone())
        .title(title(command).to_uppercase())
        // Without a date, the same program makes the same page. Without the quotes, the source would stand as the date.
        .date("\"\"")
        .source(format!("{NAME} {}", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if is_program {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::new();
    let behind = command.get_after_long_help().or_else(|| command.get_after_help());
    behind_help(&mut rest, &behind.map(ToString::to_string).unwrap_or_default());
    if !is_program {
        behind_help(&mut rest, &exit::table());
        rest.control("SH", ["SEE ALSO"]).text([roman(format!("{NAME}(1)"))]);
    }
    rest.to_writer(&mut page)?;
    Ok(page)
}

/// The usage line of the help. clap's own section lists all options, and leaves out the `--` between the arguments.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let name = command.get_bin_name().unwrap_or(NAME);
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([bold(name), roman(usage.strip_prefix(name).unwrap_or_default())]);
    roff
}

/// Adds the text behind the help. Empty lines separate its paragraphs, which may have a heading. Indented lines stay as
/// they are.
fn behind_help(roff: &mut Roff, text: &str) {
    let mut paragraphs = text.split("\n\n").filter(|paragraph| !paragraph.is_empty()).peekable();
    if paragraphs.peek().is_some_and(|first| heading(first).is_none()) {
        roff.control("SH", ["NOTES"]);
    }
    for paragraph in paragraphs {
        match heading(paragraph) {
            Some((heading, rest)) => {
                roff.control("SH", [heading.to_uppercase().as_str()]);
                lines(roff, rest);
            }
            None => {
                roff.control("PP", []);
                lines(roff, paragraph);
            }
        }
    }
}

/// A heading is a line of one or two words and a colon, above indented lines.
fn heading(paragraph: &str) -> Option<(&str, &str)> {
    let (first, rest) = paragraph.split_once('\n')?;
    let name = first.strip_suffix(':')?;
    (name.split(' ').count() <= 2 && rest.starts_with(' ')).then_some((name, rest))
}

fn lines(roff: &mut Roff, text: &str) {
    let mut kept = false;
    for line in text.lines() {
        let keep = line.starts_with(' ');
        if keep != kept {
            // Between `nf` and `fi`, roff does not fill a line up with the next one.
            roff.control(if keep { "nf" } else { "fi" }, []);
            kept = keep;
        }
        roff.text([roman(line)]);
    }
    if kept {
        roff.control("fi", []);
    }
}
