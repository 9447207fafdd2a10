//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use jiff::tz::TimeZone;

use crate::connection::Connection;
use crate::console::Console;
use crate::layout::Layout;
use crate::pool::{self, PermitsOf, SlotOf};
use crate::{civil, duration, exit};

/// The options that are for locks, and not for slots and permits.
const OF_LOCKS: [&str; 5] = ["path", "shared", "lock", "shared_lock", "occasion"];

const EXAMPLES: &str = "\
Examples:
  zklock run /lock/report -- ./nightly-report --all      one at a time, wherever it is started
  zklock run --timeout 0 /lock/backup -- ./backup        at once or not at all
  zklock run -q -t 0 -E 0 /lock/sync -- ./sync           for cron: no mail while another host runs it
  zklock run --restart /lock/feed -- ./feed              one in the whole cluster; restarts after a loss
  zklock run --every 1d --time-zone local /lock/mail -- ./mail
                                                         once a day, even if cron starts it on every host
  zklock run --shared /lock/prices -- ./read-prices      a reader: together with other readers, never with a writer
  zklock run --lock /lock/a --lock /lock/b -- ./merge    several locks at once, without deadlock
  zklock run --permits /convert/8:3 -- ./convert         several at once: waits until 3 of 8 are free, and takes them
  zklock run --slot /workers/16 -- ./worker              a number from 0 to 15 that no other worker has, in ZKLOCK_SLOT
  zklock lead --value $(hostname):80 /feed -- ./feed     like run; everybody can ask who leads
  curl http://$(zklock leader /feed)/                    where the leader is
  zklock show --watch /lock/report                       who holds the lock, who waits, who held it before
  zklock show --exit-code -q /lock/report || ./alarm     for scripts: fails if nobody holds the lock
  zklock verify \"$ZKLOCK_SEQUENCER\" && ./irreversible    asks the servers right before an irreversible step
  zklock doctor -s zk1:2181,zk2:2181,zk3:2181            checks whether these servers are safe for locks";

const RUN: &str = "\
CMD finds in its environment:
  ZKLOCK_PATH                the lock's path
  ZKLOCK_ACCESS              exclusive, or shared for a reader
  ZKLOCK_TOKEN               the fencing token: let the store refuse a token lower than one it has seen
  ZKLOCK_SEQUENCER           the sequencer that `zklock verify` checks
  ZKLOCK_SESSION_TIMEOUT_MS  the session timeout: how long ZooKeeper keeps the lock after it last heard from the holder
  ZKLOCK_ONCE                with --once and --every: the name of the run
  ZKLOCK_SLOT                with --slot: the index, from 0 to COUNT - 1
  ZKLOCK_PERMITS             with --permits: the weight

With --slot and --permits, ZKLOCK_ACCESS and ZKLOCK_SEQUENCER are not set.

With several locks, ZKLOCK_PATH, ZKLOCK_ACCESS and ZKLOCK_SEQUENCER have a line for each lock, in the same order: first \
those of --lock, then those of --shared-lock. ZKLOCK_TOKEN is one token for all of them.

CMD runs in a process group of its own. When CMD ends, zklock ends everything that CMD started and left behind. Then \
zklock releases the lock. If the lock is about to be lost, every process of CMD gets SIGTERM. Processes that still run \
after --kill-after get SIGKILL. This is early enough: they have ended before another contender can hold the lock. If an \
operator deletes the holder's node or closes its session, no lease can warn zklock. For this case give --takeover-delay: \
a contender that is already in the queue then waits for that time, so that CMD can end first.

zklock passes signals on to CMD. If zklock gets SIGHUP, SIGINT, SIGQUIT or SIGTERM while it waits for the lock, it stops \
waiting and leaves the queue.

CMD itself may exit with 75 or 76. To distinguish zklock's 75 from CMD's, give --conflict-exit-code.

`zklock --help` lists the exit codes.";

/// Run a command while it holds a strict lock on ZooKeeper, and look at the queues of locks.
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
    /// Print errors only. A lock that is not acquired within --timeout is not an error
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

/// Acquire a lock, run a command, release the lock, and exit with the status of the command.
#[derive(Args, Debug)]
#[command(after_help = RUN, override_usage = "zklock run [OPTIONS] <PATH|--lock PATH...|--slot PATH/COUNT|--permits PATH/CAPACITY> -- <CMD>...")]
pub(crate) struct Run {
    /// The lock's path, such as /lock/report
    #[arg(required_unless_present_any = ["lock", "shared_lock", "slot", "permits"], conflicts_with_all = ["lock", "shared_lock"])]
    pub(crate) path: Option<String>,

    /// Hold the lock at PATH as a reader: together with other readers, but never with a `zklock run` without --shared
    #[arg(long, conflicts_with_all = ["lock", "shared_lock"])]
    pub(crate) shared: bool,

    /// In place of PATH: one of several locks that are acquired at once and held together
    #[arg(long, value_name = "PATH")]
    pub(crate) lock: Vec<String>,

    /// Like --lock, but hold this lock as a reader
    #[arg(long, value_name = "PATH")]
    pub(crate) shared_lock: Vec<String>,

    /// In place of PATH: take the free slot with the lowest index, from 0 to COUNT - 1, or PREFERRED if that is free.
    /// /workers/8 is one of 8 slots at /workers. CMD finds the index in ZKLOCK_SLOT
    #[arg(long, value_name = "PATH/COUNT[:PREFERRED]", value_parser = pool::parse_slot, conflicts_with_all = OF_LOCKS)]
    pub(crate) slot: Option<SlotOf>,

    /// In place of PATH: take a permit of a semaphore. /convert/8:3 takes the weight 3 of the capacity 8 at /convert
    /// [default WEIGHT: 1]
    #[arg(long, value_name = "PATH/CAPACITY[:WEIGHT]", value_parser = pool::parse_permits, conflicts_with_all = OF_LOCKS, conflicts_with = "slot")]
    pub(crate) permits: Option<PermitsOf>,

    /// The command, and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,

    /// How long to wait for the lock. The time to connect counts. --connect-timeout may end the connecting earlier.
    /// With 0, zklock takes the lock at once or not at all. It does not wait for a holder. It waits only for ZooKeeper:
    /// at most --connect-timeout plus half a session timeout, and longer with --slot, --permits, --once and --every.
    /// With --restart each wait has this timeout [default: for ever]
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,

    /// Exit with CODE instead of 75 if the lock is not acquired. Then a 75 is always CMD's own [default: 75]
    #[arg(long, short = 'E', value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,

    /// The name that others see in the queue [default: host:pid]
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) owner: Option<String>,

    /// What to do with CMD if the lock is lost
    #[arg(long, value_name = "WHAT", default_value = "term")]
    pub(crate) on_lost: OnLost,

    /// How long after SIGTERM the processes of CMD that still run get SIGKILL [default: half of what the session
    /// timeout allows, 2s at most]
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) kill_after: Option<Duration>,

    /// How long to wait before taking over from a holder that vanished without a release. Give all contenders the same
    /// delay [default: 0]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) takeover_delay: Option<Duration>,

    /// Contend in the queue of another client at PATH, under that client's names. Its holders have no lease, so
    /// --takeover-delay must say for how long one of them may go on after its session has expired
    #[arg(long, value_name = "CLIENT", requires = "takeover_delay", conflicts_with_all = ["lock", "shared_lock", "slot", "permits", "once", "every"])]
    pub(crate) layout: Option<Layout>,

    /// If the lock is lost, acquire it and run CMD again
    #[arg(long)]
    pub(crate) restart: bool,

    /// Run CMD only if no host has done the run NAME yet. A name has 1 to 128 letters, digits and . _ : + -. The names
    /// of later runs must sort after those of earlier runs, as dates do: 2026-11-22
    #[arg(long, value_name = "NAME", group = "occasion", conflicts_with_all = ["restart", "shared", "lock", "shared_lock"])]
    pub(crate) once: Option<String>,

    /// Like --once, but zklock names the run after the present period, of 1d, 12h or 15m for example. The servers'
    /// clock decides, in UTC. If cron starts CMD once a day, give --time-zone, too
    #[arg(long, value_name = "PERIOD", group = "occasion", conflicts_with_all = ["restart", "shared", "lock", "shared_lock"], value_parser = duration::parse_period)]
    pub(crate) every: Option<Duration>,

    /// With --every of whole days, the run is a date in this time zone: Europe/Helsinki, or local for the zone of this
    /// machine. Give the zone that cron uses
    #[arg(long, value_name = "ZONE", requires = "every", conflicts_with = "once", value_parser = civil::parse_zone)]
    pub(crate) time_zone: Option<TimeZone>,

    /// Begin the run again if its last attempt failed, or ended without a record of its end [default: a run begins at
    /// most once]
    #[arg(long, requires = "occasion")]
    pub(crate) retry: bool,

    /// How many records of runs to keep, 1 to 1000. zklock refuses a run whose record may have been dropped
    #[arg(long, value_name = "N", requires = "occasion", default_value = "100", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) keep: u16,

    /// Who may see and change the lock's nodes
    #[arg(long, value_name = "WHO", default_value = "anyone")]
    pub(crate) acl: Access,
}

/// Campaign in an election, run a command while leading, resign, and exit with the status of the command.
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

    /// Say who leads among the candidates of another client and of zklock: the first in the queue at PATH
    #[arg(long, value_name = "CLIENT")]
    pub(crate) layout: Option<Layout>,

    /// Print JSON: one object, or null if nobody leads
    #[arg(long)]
    pub(crate) json: bool,

    /// Print a line for each change, until a signal ends zklock. An empty line means that nobody leads
    #[arg(long, short)]
    pub(crate) watch: bool,
}

/// The fate of the command of a lock that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// Send SIGTERM, and SIGKILL after --kill-after
    Term,
    /// Send SIGKILL at once
    Kill,
    /// Let CMD go on. Another CMD may run at the same time
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

    /// Show the queue of another client, with zklock's contenders and the client's own. Without it, zklock learns that from
    /// its contenders' nodes
    #[arg(long, value_name = "CLIENT")]
    pub(crate) layout: Option<Layout>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Show the queue and the last handoffs, and redraw them when they change. q quits
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) watch: bool,

    /// Exit with 0 if somebody holds the lock, with 1 if nobody does, and with 66 if PATH does not exist: ZooKeeper
    /// removes the directory of an unused lock within about a minute. With --quiet, print nothing. Contenders of other
    /// clients do not count
    #[arg(long, conflicts_with = "watch")]
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

/// Take a lock from its holder: delete the holder's node. If readers hold the lock, it is taken from all of them.
#[derive(Args, Debug)]
pub(crate) struct Release {
    /// The lock's path
    pub(crate) path: String,

    /// Take the lock although the holder did not release it
    #[arg(long, required = true)]
    pub(crate) force: bool,

    /// Take the lock only from the holder with this SEQUENCE in `zklock show`, for example from one of several readers
    #[arg(long, value_name = "NUMBER")]
    pub(crate) sequence: Option<i32>,

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
