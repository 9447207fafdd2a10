//! The options of `run` and `lead`.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use jiff::tz::TimeZone;

use crate::layout::Layout;
use crate::number::number;
use crate::pool::{self, PermitsOf, SlotOf};
use crate::{civil, duration};

/// The options that are for locks, and not for slots and permits.
const OF_LOCKS: [&str; 5] = ["path", "shared", "lock", "shared_lock", "occasion"];

/// What each CMD finds in its environment.
macro_rules! variables {
    () => {
        "\
CMD finds in its environment:
  ZKLOCK_PATH                the lock's path
  ZKLOCK_ACCESS              exclusive, or shared for a reader
  ZKLOCK_TOKEN               the fencing token: let the store refuse a token lower than one it has seen
  ZKLOCK_TOKENS              TOKEN:SESSION, behind such a line of each zklock run or lead around this one
  ZKLOCK_SEQUENCER           the sequencer that `zklock verify` checks
  ZKLOCK_SESSION_TIMEOUT_MS  the session timeout: how long ZooKeeper keeps the lock after it last heard from the holder
  ZKLOCK_SERVERS             the servers, also those of --servers, for a zklock that CMD runs. In the same way CMD finds the
                             variables of --sasl, --digest-file, --tls-ca, --tls-cert and --tls-key"
    };
}

/// How each CMD runs.
macro_rules! life {
    () => {
        "\
CMD runs in a process group of its own. When CMD ends, zklock ends everything that CMD started and left behind. Then \
zklock releases the lock. If the lock is about to be lost, every process of CMD gets SIGTERM. Processes that still run \
after --kill-after get SIGKILL. This is early enough: they have ended before another contender can hold the lock. If an \
operator deletes the holder's node or closes its session, no lease can warn zklock. For this case give --takeover-delay: \
a contender that is already in the queue then waits for that time, so that CMD can end first.

zklock passes signals on to CMD. If zklock gets SIGHUP, SIGINT, SIGQUIT or SIGTERM while it waits for the lock, it stops \
waiting and leaves the queue.

CMD itself may exit with 75 or 76. To distinguish zklock's 75 from CMD's, give --conflict-exit-code.

`zklock --help` lists the exit codes."
    };
}

const RUN: &str = concat!(
    variables!(),
    "
  ZKLOCK_ONCE                with --once and --every: the name of the run
  ZKLOCK_SLOT                with --slot: the index, from 0 to COUNT - 1
  ZKLOCK_PERMITS             with --permits: the weight

With --slot and --permits, ZKLOCK_ACCESS and ZKLOCK_SEQUENCER are not set.

With several locks, ZKLOCK_PATH, ZKLOCK_ACCESS and ZKLOCK_SEQUENCER have a line for each lock, in the same order: first \
those of --lock, then those of --shared-lock. ZKLOCK_TOKEN is one token for all of them.

",
    life!()
);

const LEAD: &str = concat!(variables!(), "\n\n", life!());

/// Acquire a lock, run a command, release the lock, and exit with the status of the command.
#[derive(Args, Debug)]
#[command(after_help = RUN, override_usage = "zklock run [OPTIONS] <PATH|--lock PATH...|--slot PATH/COUNT|--permits PATH/CAPACITY> -- <CMD>...")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) wanted: Wanted,

    #[command(flatten)]
    pub(crate) terms: Terms,
}

/// Campaign in an election, run a command while leading, resign, and exit with the status of the command.
#[derive(Args, Debug)]
#[command(after_help = LEAD, override_usage = "zklock lead [OPTIONS] --value <TEXT> <PATH> -- <CMD>...")]
pub(crate) struct Lead {
    /// The election's path, such as /feed
    pub(crate) path: String,

    /// What to announce while CMD runs, such as the address at which CMD listens
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) value: String,

    #[command(flatten)]
    pub(crate) terms: Terms,
}

/// What `run` waits for.
#[derive(Args, Debug)]
pub(crate) struct Wanted {
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

    /// Contend in the queue of another client at PATH, under that client's names. Its holders have no lease, so
    /// --takeover-delay must say for how long one of them may go on after its session has expired
    #[arg(long, value_name = "CLIENT", requires = "takeover_delay", conflicts_with_all = ["shared", "lock", "shared_lock", "slot", "permits", "once", "every"])]
    pub(crate) layout: Option<Layout>,

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
    #[arg(long, value_name = "N", requires = "occasion", default_value = "100", value_parser = number(1_u16, 1000))]
    pub(crate) keep: u16,
}

/// How `run` and `lead` wait, and how they run the command.
#[derive(Args, Debug)]
pub(crate) struct Terms {
    /// The command, and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,

    /// How long to wait for the lock. The time to connect counts. --connect-timeout may end the connecting earlier.
    /// With 0, zklock takes the lock at once or not at all. It does not wait for a holder. It waits only for ZooKeeper:
    /// for a lock at most --connect-timeout plus half a session timeout. With --restart each wait has this timeout [default: for ever]
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,

    /// Exit with CODE instead of 75 if the lock is not acquired. Then a 75 is always CMD's own [default: 75]
    #[arg(long, short = 'E', value_name = "CODE", value_parser = number(0, u8::MAX))]
    pub(crate) conflict_exit_code: Option<u8>,

    /// The name that others see in the queue [default: host:pid]
    #[arg(long, short, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) owner: Option<String>,

    /// What to do with CMD if the lock is lost
    #[arg(long, value_name = "WHAT", default_value = "term")]
    pub(crate) on_lost: OnLost,

    /// Hold the lock for this long at most. Then CMD is ended as if the lock were lost, and zklock exits with 124. CMD has ended by
    /// then: SIGTERM comes --kill-after earlier. With --restart, zklock queues again, at the end, and runs CMD again
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,

    /// What to do if somebody asks for the lock, with `zklock ask`
    #[arg(long, value_name = "WHAT", default_value = "warn")]
    pub(crate) on_ask: OnAsk,

    /// How long after SIGTERM the processes of CMD that still run get SIGKILL [default: half of what the session
    /// timeout allows, 2s at most]
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) kill_after: Option<Duration>,

    /// How long to wait before taking over from a holder that vanished without a release. Give all contenders the same
    /// delay [default: 0]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) takeover_delay: Option<Duration>,

    /// If the lock is lost, acquire it and run CMD again
    #[arg(long)]
    pub(crate) restart: bool,

    /// Who may see and change the lock's nodes
    #[arg(long, value_name = "WHO", default_value = "anyone")]
    pub(crate) acl: AclFor,

    /// If the chroot of --servers does not exist, create it. Without this option, zklock refuses such a chroot: a chroot with
    /// a typing error would give each host a lock of its own
    #[arg(long)]
    pub(crate) create_chroot: bool,

    /// Who tells systemd, by $NOTIFY_SOCKET, that the service is ready
    #[arg(long, value_name = "WHO", default_value = "zklock")]
    pub(crate) notify: Notify,
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

/// What follows if somebody asks a command's holder to let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnAsk {
    /// Do not listen
    Ignore,
    /// Print who asks, why, and by when
    Warn,
    /// Print it, and send SIGTERM to CMD, once. No SIGKILL follows. CMD is not run again
    Term,
}

/// Who speaks with systemd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Notify {
    /// zklock, once it holds the lock and has started CMD. CMD does not get NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID
    Zklock,
    /// CMD, by its own sd_notify, and zklock says nothing. The unit needs NotifyAccess=all
    Cmd,
}

/// Who may see and change the nodes of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AclFor {
    /// Everybody who reaches the servers
    Anyone,
    /// Clients with the same credentials
    Creator,
}
