//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use jiff::tz::TimeZone;

use crate::connection::Connection;
use crate::console::Console;
use crate::pool::{self, PermitsOf, SlotOf};
use crate::{civil, duration, exit};

/// The options that are for locks, and not for slots and permits.
const OF_LOCKS: [&str; 5] = ["path", "shared", "lock", "shared_lock", "occasion"];

const EXAMPLES: &str = "\
Examples:
  zklock run /lock/report -- ./nightly-report --all      one at a time, wherever it is started
  zklock run --timeout 0 /lock/backup -- ./backup        at once or not at all
  zklock run -q -t 0 -E 0 /lock/sync -- ./sync           for cron: no mail while another host runs it
  zklock run --restart /lock/feed -- ./feed              one in the whole cluster; again after a loss
  zklock run --every 1d --time-zone local /lock/mail -- ./mail
                                                         once a day, though every host's cron starts it
  zklock run --shared /lock/prices -- ./read-prices      a reader: beside other readers, and no writer
  zklock run --lock /lock/a --lock /lock/b -- ./merge    several locks at once, without deadlock
  zklock run --permits /convert/8:3 -- ./convert         some at once: takes 3 of 8, and waits until they are free
  zklock run --slot /workers/16 -- ./worker              a number below 16 that no other one has, in ZKLOCK_SLOT
  zklock lead --value $(hostname):80 /feed -- ./feed     as run, and everybody can ask who leads
  curl http://$(zklock leader /feed)/                    where the leader is
  zklock show --watch /lock/report                       who holds it, who waits, who did before
  zklock show --exit-code -q /lock/report || ./alarm     for scripts: 1 if nobody holds it
  zklock verify \"$ZKLOCK_SEQUENCER\" && ./irreversible    ask the servers right before
  zklock doctor -s zk1:2181,zk2:2181,zk3:2181            what these servers make of locks";

const RUN: &str = "\
CMD finds in its environment:
  ZKLOCK_PATH                the lock's path
  ZKLOCK_ACCESS              exclusive, or shared for a reader
  ZKLOCK_TOKEN               the fencing token: let the store refuse a token lower than one it has seen
  ZKLOCK_SEQUENCER           the sequencer that `zklock verify` checks
  ZKLOCK_SESSION_TIMEOUT_MS  how long ZooKeeper keeps the lock after the last sign of life of its holder
  ZKLOCK_ONCE                with --once and --every: the name of the run
  ZKLOCK_SLOT                with --slot: the index, from 0 on
  ZKLOCK_PERMITS             with --permits: the weight

Slots and permits have neither ZKLOCK_ACCESS nor ZKLOCK_SEQUENCER.

With several locks, ZKLOCK_PATH, ZKLOCK_ACCESS and ZKLOCK_SEQUENCER have a line for each lock, in the same order: first \
those of --lock, then those of --shared-lock. ZKLOCK_TOKEN is one token for all of them.

CMD runs in a process group of its own. When CMD ends, zklock ends everything that CMD started and left behind. Then \
zklock releases the lock. If the lock is about to be lost, all of CMD gets SIGTERM. The rest gets SIGKILL after \
--kill-after, early enough to be gone before anyone else can hold the lock. No lease foresees an operator who deletes the \
holder's node or closes its session. --takeover-delay makes the next holder wait until CMD is gone then, too.

zklock passes signals on to CMD. A signal that comes while zklock waits for the lock ends the wait, and leaves no node.

CMD may end with 75 or 76, too. --conflict-exit-code tells apart the 75 of zklock.

`zklock --help` has the exit codes.";

/// Run any command under a strict lock on ZooKeeper, and see any lock's queue.
#[derive(Debug, Parser)]
#[command(name = "zklock", version, about, max_term_width = 120)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::table()))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    // Before the connection: its heading would stand over these options, too.
    #[command(flatten)]
    verbosity: Verbosity,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

impl Arguments {
    /// Reads the command line and the environment.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let mut command = Self::command().mut_args(without_empty_variable);
        let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }

    /// Where messages go, and how many.
    pub(crate) fn console(&self) -> Console {
        match self.verbosity {
            Verbosity { quiet: true, .. } => Console::Quiet,
            Verbosity { verbose: true, .. } => Console::Verbose,
            Verbosity { .. } => Console::Normal,
        }
    }
}

/// The same option. An environment variable that is empty counts as not set.
fn without_empty_variable(option: Arg) -> Arg {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let Some(name) = option.get_env().filter(|name| is_empty(name)) else { return option };
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    let help = format!("{help} [env: {}=]", name.to_string_lossy());
    option.env(None::<&'static str>).help(help)
}

#[derive(Args, Debug)]
struct Verbosity {
    /// Print errors only; a lock that is not acquired within --timeout is none
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,

    /// Print each step, and zklock's log
    #[arg(long, short, global = true)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Lead(Lead),
    Leader(Leader),
    Show(Show),
    Ls(List),
    Verify(Verify),
    Release(Release),
    Doctor(Doctor),
    Completions(Completions),
    Man(Man),
}

/// The client whose queue it is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Layout {
    /// Curator's InterProcessMutex or LeaderSelector
    Curator,
    /// Curator's InterProcessReadWriteLock
    CuratorRw,
    /// kazoo's Lock, ReadLock, WriteLock or Election
    Kazoo,
    /// go-zookeeper's Lock
    Go,
}

impl From<Layout> for zklock::Layout {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::Curator => Self::Curator,
            Layout::CuratorRw => Self::CuratorReadWrite,
            Layout::Kazoo => Self::Kazoo,
            Layout::Go => Self::Go,
        }
    }
}

/// Acquire a lock, run a command, release the lock, and exit as the command did.
#[derive(Args, Debug)]
#[command(after_help = RUN, override_usage = "zklock run [OPTIONS] <PATH|--lock PATH...|--slot PATH/COUNT|--permits PATH/CAPACITY> -- <CMD>...")]
pub(crate) struct Run {
    /// The lock's path, such as /lock/report
    #[arg(required_unless_present_any = ["lock", "shared_lock", "slot", "permits"], conflicts_with_all = ["lock", "shared_lock"])]
    pub(crate) path: Option<String>,

    /// Hold the lock at PATH as a reader: beside other readers, and beside no `zklock run` without --shared
    #[arg(long, conflicts_with_all = ["lock", "shared_lock"])]
    pub(crate) shared: bool,

    /// In place of PATH: one of several locks that are acquired at once and held together
    #[arg(long, value_name = "PATH")]
    pub(crate) lock: Vec<String>,

    /// As --lock, and held as a reader
    #[arg(long, value_name = "PATH")]
    pub(crate) shared_lock: Vec<String>,

    /// In place of PATH: take the free slot with the lowest index, from 0 to COUNT - 1, or PREFERRED if that is
    /// free. /workers/8 is a slot of 8 at /workers. CMD finds the index in ZKLOCK_SLOT
    #[arg(long, value_name = "PATH/COUNT[:PREFERRED]", value_parser = pool::parse_slot, conflicts_with_all = OF_LOCKS)]
    pub(crate) slot: Option<SlotOf>,

    /// In place of PATH: a permit of a semaphore. /convert/8:3 takes 3 of a capacity of 8 at /convert [default WEIGHT: 1]
    #[arg(long, value_name = "PATH/CAPACITY[:WEIGHT]", value_parser = pool::parse_permits, conflicts_with_all = OF_LOCKS, conflicts_with = "slot")]
    pub(crate) permits: Option<PermitsOf>,

    /// The command, and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,

    /// How long to wait for the lock. The time to connect counts; --connect-timeout may end that part earlier. 0 takes the
    /// lock at once or not at all: it waits for ZooKeeper's answer, for --connect-timeout and half a session timeout at
    /// most, and for no holder. With --restart each wait has this timeout [default: for ever]
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,

    /// The exit code in place of 75 if the lock is not acquired, so that a 75 is CMD's own [default: 75]
    #[arg(long, short = 'E', value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,

    /// Who contends, for people who look at the queue [default: host:pid]
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) owner: Option<String>,

    /// What to do with CMD if the lock is lost
    #[arg(long, value_name = "WHAT", default_value = "term")]
    pub(crate) on_lost: OnLost,

    /// How long after SIGTERM the rest of CMD gets SIGKILL [default: half of what the session timeout allows, 2s at most]
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) kill_after: Option<Duration>,

    /// How long to wait before taking over from a holder that vanished without a release. Give all contenders the same
    /// [default: 0]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) takeover_delay: Option<Duration>,

    /// Contend in the queue of another client at PATH, under that client's names. Its holders have no lease, so
    /// --takeover-delay must say for how long one of them may go on after its session has expired
    #[arg(long, value_name = "CLIENT", requires = "takeover_delay", conflicts_with_all = ["lock", "shared_lock", "slot", "permits", "once", "every"])]
    pub(crate) layout: Option<Layout>,

    /// If the lock is lost, acquire it and run CMD again
    #[arg(long)]
    pub(crate) restart: bool,

    /// Run CMD only if this run has not been done yet, on any host. Name it by 1 to 128 letters, digits and . _ : + -, so that
    /// later runs are greater as text: by a date, such as 2026-11-22
    #[arg(long, value_name = "NAME", group = "occasion", conflicts_with_all = ["restart", "shared", "lock", "shared_lock"])]
    pub(crate) once: Option<String>,

    /// As --once, with the present period as the run: 1d, 12h or 15m, by the servers' clock, from midnight UTC on. If cron
    /// starts CMD once a day, say --time-zone, too
    #[arg(long, value_name = "PERIOD", group = "occasion", conflicts_with_all = ["restart", "shared", "lock", "shared_lock"], value_parser = duration::parse_period)]
    pub(crate) every: Option<Duration>,

    /// With --every of whole days, the run is a date in this time zone: Europe/Helsinki, or local for this machine's. Give
    /// the zone by which cron counts
    #[arg(long, value_name = "ZONE", requires = "every", conflicts_with = "once", value_parser = civil::parse_zone)]
    pub(crate) time_zone: Option<TimeZone>,

    /// Begin the run again if its last attempt failed, or vanished before its end [default: a run begins at most once]
    #[arg(long, requires = "occasion")]
    pub(crate) retry: bool,

    /// How many records of runs to keep, 1 to 1000. A run whose record may have been dropped is refused
    #[arg(long, value_name = "N", requires = "occasion", default_value = "100", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) keep: u16,

    /// Who may see and change the lock's nodes
    #[arg(long, value_name = "WHO", default_value = "anyone")]
    pub(crate) acl: Access,
}

/// Campaign in an election, run a command while leading, resign, and exit as the command did.
#[derive(Args, Debug)]
pub(crate) struct Lead {
    /// What to announce while CMD runs, such as the address at which CMD listens
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["shared", "lock", "shared_lock", "slot", "permits", "occasion"])]
    pub(crate) value: String,

    // Its path is the election's.
    #[command(flatten)]
    pub(crate) run: Run,
}

/// Print what the leader of an election has announced.
#[derive(Args, Debug)]
pub(crate) struct Leader {
    /// The election's path
    pub(crate) path: String,

    /// Print JSON: one object, or null if nobody leads
    #[arg(long)]
    pub(crate) json: bool,

    /// Print each change, a line each, until a signal; an empty line says that nobody leads
    #[arg(long, short)]
    pub(crate) watch: bool,
}

/// The fate of the command of a lock that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// Send SIGTERM, and SIGKILL later
    Term,
    /// Send SIGKILL at once
    Kill,
    /// Let CMD run on, though another CMD may run beside it
    IgnoreAndWarn,
}

/// Who may see and change the nodes of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Access {
    /// Everybody who reaches the servers
    Anyone,
    /// Clients with the same credentials
    Creator,
}

/// Show who holds a lock, slots or a semaphore, and who waits for it.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The lock's path
    pub(crate) path: String,

    /// Show the queue of another client, with zklock's contenders and the client's own
    #[arg(long, value_name = "CLIENT")]
    pub(crate) layout: Option<Layout>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Redraw as the queue changes, with the last handoffs; q ends it
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) watch: bool,

    /// Exit with 0 if somebody holds the lock, and with 1 if nobody does; with --quiet, print nothing. Contenders of other
    /// clients do not count
    #[arg(long, conflicts_with = "watch")]
    pub(crate) exit_code: bool,
}

/// List the locks, slots and semaphores below a node that somebody holds, each with its holder and the length of its queue.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// The node to begin at
    #[arg(default_value = "/")]
    pub(crate) root: String,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Ask the servers whether a holder still has its lock: 0 if it does, 1 if not. Of several sequencers, each must stand.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The sequencer, as CMD found it in ZKLOCK_SEQUENCER. It may have several lines, with one in each
    #[arg(required = true, value_name = "SEQUENCER")]
    pub(crate) sequencers: Vec<String>,
}

/// Take a lock from its holder: delete the holder's node. From readers, it takes the lock from all that hold it.
#[derive(Args, Debug)]
pub(crate) struct Release {
    /// The lock's path
    pub(crate) path: String,

    /// Take the lock though the holder did not release it
    #[arg(long, required = true)]
    pub(crate) force: bool,

    /// Take it only from the holder with this SEQUENCE of `zklock show`: from one of several readers
    #[arg(long, value_name = "NUMBER")]
    pub(crate) sequence: Option<i32>,

    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Look at the servers and at the settings, and report what makes locks fragile.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Locks to look at: whether they exist, who is waited for, and contenders of other clients
    #[arg(value_name = "PATH")]
    pub(crate) locks: Vec<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a shell's completions.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

/// Print the manual page, or write the pages of all commands.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Write zklock.1, zklock-run.1 and so on into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_sound() {
        Arguments::command().debug_assert();
    }
}
