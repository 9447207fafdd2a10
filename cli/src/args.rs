//! The command line.

mod run;

use std::ffi::OsStr;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::connection::Connection;
use crate::console::Console;
use crate::layout::Layout;
use crate::number::number;
use crate::{duration, exit};
pub(crate) use run::{AclFor, Lead, Notify, OnAsk, OnLost, Run, Terms, Wanted};

const EXAMPLES: &str = "\
Examples:
  zklock run /lock/report -- ./nightly-report --all      one at a time, wherever it is started
  zklock run --timeout 0 /lock/backup -- ./backup        at once or not at all
  zklock run -q -t 0 -E 0 /lock/sync -- ./sync           for cron: one at a time, and no mail of the others
  zklock run --restart /lock/feed -- ./feed              one in the whole cluster; restarts after a loss
  zklock run --every 1d --time-zone local /lock/mail -- ./mail
                                                         once a day, even if cron starts it on every host
  zklock run --shared /lock/prices -- ./read-prices      a reader: together with other readers, never with a writer
  zklock run --lock /lock/a --lock /lock/b -- ./merge    several locks at once, without deadlock
  zklock run --permits /convert/8:3 -- ./convert         several at once: waits until 3 of 8 are free, and takes them
  zklock run --slot /workers/16 -- ./worker              a number from 0 to 15 that no other worker has, in ZKLOCK_SLOT
  zklock lead --value $(hostname):80 /feed -- ./feed     like run; everybody can ask who leads
  curl http://$(zklock leader /feed)/                    where the leader is
  zklock show /lock/report                               who holds the lock, and who waits for it
  zklock show --exit-code -q /lock/report || ./alarm     for scripts: fails if nobody holds the lock
  zklock verify \"$ZKLOCK_SEQUENCER\" && ./irreversible    asks the servers right before an irreversible step
  zklock ask -r deploy -w 5m /lock/report                asks the holder to let go, and waits until it has
  zklock doctor -s zk1:2181,zk2:2181,zk3:2181            checks whether these servers are safe for locks";

/// Run a command while it holds a strict lock on ZooKeeper, and look at the queues of locks.
#[derive(Debug, Parser)]
#[command(name = "zklock", version, about, max_term_width = 120)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::TABLE))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    // Before the connection: its heading would stand over these options, too.
    /// Print errors only. A lock that is not acquired within --timeout is not an error
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,

    /// Print each step, and zklock's log
    #[arg(long, short, global = true)]
    verbose: bool,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

impl Arguments {
    /// Reads the command line and the environment.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let command = Self::command().mut_args(without_empty_variable).mut_args(with_negative_value);
        let mut command = command.mut_subcommands(|subcommand| subcommand.mut_args(with_negative_value));
        // In an error, clap would show each option with a value in the usage, those of the environment included, as if it were
        // required.
        command.build();
        let mut command = command.mut_subcommands(|mut subcommand| {
            let usage = subcommand.render_usage().to_string();
            subcommand.override_usage(usage.trim_start_matches("Usage: ").to_owned())
        });
        let matches = command.try_get_matches_from_mut(std::env::args_os());
        let mut matches = matches.map_err(|error| with_tip(error, &command))?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }

    /// Where messages go, and how many.
    pub(crate) fn console(&self) -> Console {
        match (self.quiet, self.verbose) {
            (true, _) => Console::Quiet,
            (false, true) => Console::Verbose,
            (false, false) => Console::Normal,
        }
    }
}

/// The same option. The number behind it may be negative, so that the option itself says what is wrong with the number.
fn with_negative_value(option: Arg) -> Arg {
    const OF_NUMBERS: [&str; 7] = ["DURATION", "PERIOD", "NUMBER", "INDEX", "CODE", "N", "PPM"];
    let is_number = |option: &Arg| {
        let names = option.get_value_names().unwrap_or_default();
        names.iter().any(|name| OF_NUMBERS.contains(&name.as_str())) && option.get_long().is_some()
    };
    if is_number(&option) { option.allow_hyphen_values(true) } else { option }
}

/// The same error, with what clap does not know: where a command stands, and whether a value is that of a variable.
fn with_tip(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    let text = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let argument = text(ContextKind::InvalidArg);
    let tip = match error.kind() {
        ErrorKind::UnknownArgument
            if !argument.starts_with('-') && text(ContextKind::Usage).contains("-- <CMD>") =>
        {
            format!(
                "there is one PATH; if '{argument}' belongs to the command, write -- before it: PATH -- {argument}"
            )
        }
        ErrorKind::InvalidSubcommand => match text(ContextKind::InvalidSubcommand).as_str() {
            "status" => "who holds a lock and who waits: zklock show PATH".to_owned(),
            "unlock" | "kill" => "to ask the holder to let go: zklock ask PATH; to take the lock from it: zklock release --force PATH"
                .to_owned(),
            _ => return error,
        },
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let option = command.get_arguments().find(|option| option.to_string() == argument);
            let Some(variable) = option.and_then(Arg::get_env) else { return error };
            if std::env::var(variable).ok() != Some(text(ContextKind::InvalidValue)) {
                return error;
            }
            format!("the value is that of the variable {}", variable.to_string_lossy())
        }
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// The same option. An environment variable that is empty counts as not set.
fn without_empty_variable(option: Arg) -> Arg {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let Some(name) = option.get_env().filter(|name| is_empty(name)) else { return option };
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    let help = format!("{help} [env: {}=]", name.to_string_lossy());
    option.env(None::<&'static str>).help(help)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Lead(Lead),
    Leader(Leader),
    Show(Show),
    Ls(List),
    Verify(Verify),
    Ask(Ask),
    Resize(Resize),
    Release(Release),
    Doctor(Doctor),
    Export(Export),
    Completions(Completions),
}

/// Print what the leader of an election has announced.
#[derive(Args, Debug)]
pub(crate) struct Leader {
    /// The election's path
    pub(crate) path: String,

    /// Print JSON: one object, or null if nobody leads
    #[arg(long)]
    pub(crate) json: bool,

    /// Print a line for each change, until a signal ends zklock. An empty line means that nobody leads
    #[arg(long, short)]
    pub(crate) watch: bool,
}

/// Show who holds a lock, slots or a semaphore, and who waits for it.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The lock's path
    pub(crate) path: String,

    /// Show the queue of another client, with zklock's contenders and the client's own. Without it, zklock learns that from
    /// its contenders' nodes
    #[arg(long, value_name = "CLIENT")]
    pub(crate) layout: Option<Layout>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Exit with 0 if somebody holds the lock, with 1 if nobody does, and with 66 if PATH does not exist: ZooKeeper
    /// removes the directory of an unused lock within about a minute. With --quiet, print nothing. Contenders of other
    /// clients do not count, and those of zklock with another layout do
    #[arg(long)]
    pub(crate) exit_code: bool,
}

/// List the held locks, slots and semaphores below a node, each with its holder and the length of its queue.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// The node to begin at
    #[arg(default_value = "/")]
    pub(crate) root: String,

    /// List the queues of another client, too, in which no contender of zklock is at this moment
    #[arg(long, value_name = "CLIENT")]
    pub(crate) layout: Option<Layout>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Ask the servers whether a holder still holds its lock. Exit with 0 if it does, and with 1 if not. If several
/// sequencers are given, all must be valid.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The sequencer, as CMD found it in ZKLOCK_SEQUENCER. It may have several lines, with one sequencer in each
    #[arg(required = true, value_name = "SEQUENCER")]
    pub(crate) sequencers: Vec<String>,
}

/// Ask those who hold a lock, an election, a permit or a slot to let go, and wait until they have. Exit with 0 once they have, and
/// with 1 if --within is over first. Nothing is taken from them.
#[derive(Args, Debug)]
pub(crate) struct Ask {
    /// The path of the lock, the election, the semaphore or the slots
    pub(crate) path: String,

    /// Why. The holders see it
    #[arg(long, short, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) reason: String,

    /// How long to wait, and by when they are to have let go
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) within: Duration,

    /// The name under which the holders see who asks [default: host:pid]
    #[arg(long, short, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) owner: Option<String>,

    /// Ask only the holder with this SEQUENCE in `zklock show`: one of several readers, permits or slots
    #[arg(long, value_name = "NUMBER", value_parser = number(i32::MIN, i32::MAX))]
    pub(crate) sequence: Option<i32>,

    /// Ask only the holder of the slot with this index
    #[arg(long, value_name = "INDEX", conflicts_with = "sequence", value_parser = number(0, u32::MAX))]
    pub(crate) slot: Option<u32>,
}

/// Change the capacity of a semaphore, or the number of slots. Contenders that wait state the old number, so they are refused, and
/// exit with 64.
#[derive(Args, Debug)]
pub(crate) struct Resize {
    /// The path of the semaphore or of the slots
    pub(crate) path: String,

    /// The new capacity, or the new number of slots. Holders keep what they have. If more is held, nobody is admitted
    /// until enough of that is released
    #[arg(value_parser = number(1, u32::MAX), allow_negative_numbers = true)]
    pub(crate) number: u32,

    /// Do not ask for confirmation if more is held than NUMBER, or if contenders wait
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Take a lock, the lead, a permit or a slot from its holder: delete the holder's node. If readers hold a lock, it is taken from
/// all of them.
#[derive(Args, Debug)]
pub(crate) struct Release {
    /// The path of the lock, the election, the semaphore or the slots
    pub(crate) path: String,

    /// Take it although the holder did not release it
    #[arg(long, required = true)]
    pub(crate) force: bool,

    /// Take it only from the holder with this SEQUENCE in `zklock show`: from one of several readers, or a permit or a slot
    #[arg(long, value_name = "NUMBER", value_parser = number(i32::MIN, i32::MAX))]
    pub(crate) sequence: Option<i32>,

    /// Take the slot with this index from its holder
    #[arg(long, value_name = "INDEX", conflicts_with = "sequence", value_parser = number(0, u32::MAX))]
    pub(crate) slot: Option<u32>,

    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Look at the servers and at the settings, and report what makes locks fragile.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Paths of locks to check: does the path exist, for whom do others wait, and do other clients contend there?
    #[arg(value_name = "PATH")]
    pub(crate) locks: Vec<String>,

    /// zklock shares the queue of another client at each PATH. Without it, zklock learns that from its contenders' nodes
    #[arg(long, value_name = "CLIENT", requires = "locks")]
    pub(crate) layout: Option<Layout>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Serve metrics of held locks, slots, semaphores and elections, and of the servers, for Prometheus, until a signal.
///
/// zklock looks at ZooKeeper only if somebody asks for the metrics, at one time only once, and changes nothing. Everybody
/// who reaches ADDRESS can read paths, owners, and what leaders announce.
#[derive(Args, Debug)]
pub(crate) struct Export {
    /// The nodes to begin at
    #[arg(value_name = "ROOT", default_value = "/")]
    pub(crate) roots: Vec<String>,

    /// Where to listen for HTTP, as HOST:PORT. The metrics are at /metrics
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9744")]
    pub(crate) listen: String,

    /// How long to answer with the same metrics before zklock looks again. If a look takes longer, it rests for as long as
    /// the look took
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    pub(crate) min_interval: Duration,

    /// How many locks, slots and semaphores to look for. If more are held, zklock_scan_cut is 1 for this bound
    #[arg(long, value_name = "N", default_value = "1000", value_parser = number(1, u32::MAX))]
    pub(crate) max_locks: u32,

    /// How many nodes to read in a look, below all ROOTs together. If more are there, zklock_scan_cut is 1 for this bound
    #[arg(long, value_name = "N", default_value = "100000", value_parser = number(1, u32::MAX))]
    pub(crate) max_nodes: u32,
}

/// Print a shell's completions.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_sound() {
        Arguments::command().debug_assert();
    }
}
