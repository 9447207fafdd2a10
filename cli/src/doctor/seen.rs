//! The facts that the doctor saw. Every finding rests on them.

use std::net::IpAddr;
use std::time::Duration;

use zklock::inspect::ForeignContender;
use zklock::session::ServerAddress;

use crate::layout::Layout;
use crate::pool::Shares;
use crate::queue::Entry;
use crate::servers::{Contact, Member, Mode, Settings, Words};

#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) servers: Vec<Server>,
    pub(super) wishes: Wishes,
    /// The session that locks would have here, if the servers give one.
    pub(super) session: Option<Lengths>,
    /// The chroot of the connect string, if it does not exist.
    pub(super) missing_chroot: Option<String>,
    pub(super) locks: Vec<Queue>,
    pub(super) clock_rate: i64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    /// The tick that leases are reckoned with.
    pub(super) tick: Duration,
    /// The session timeout that the servers granted.
    pub(super) timeout: Duration,
    /// The longest stop margin. A lease never falls below it while heartbeats are answered.
    pub(super) longest_stop_margin: Duration,
    /// The longest time that a guard stays valid once ZooKeeper is silent. The shortest one is the longest stop margin.
    pub(super) longest_validity: Duration,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) path: String,
    /// Why the path has no queue, if it does not exist.
    pub(super) missing: Option<String>,
    /// Why its queue cannot be read, if an ACL hides it.
    pub(super) refused: Option<String>,
    /// Its directory, if everybody may create nodes there.
    pub(super) open: Option<String>,
    /// The client with which zklock shares it.
    pub(super) layout: Option<Layout>,
    /// How many zklock contenders it has.
    pub(super) contenders: usize,
    /// How many contenders of that client it has.
    pub(super) theirs: usize,
    /// Those that hold the lock, or some of the pool.
    pub(super) holders: Vec<Holder>,
    pub(super) waiting: usize,
    /// The first one in the turnstile of the pool.
    pub(super) first: Option<Holder>,
    /// The semaphore at the path, or the slots there.
    pub(super) pool: Option<Shares>,
    /// The contenders of other clients in the queue, or in the turnstile.
    pub(super) foreign: Vec<ForeignContender>,
}

/// One that holds something, or is the first to wait.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) entry: Entry,
    /// When it came, as text.
    pub(super) came: String,
    /// What the servers know of its session.
    pub(super) contact: Contact,
}

#[derive(Clone, Debug)]
pub(super) struct Wishes {
    pub(super) session_timeout: Duration,
    /// Whether an option asks for it. Then no other session timeout will do.
    pub(super) exact: bool,
    pub(super) tick: Option<Duration>,
    /// Whether the digest credentials are sent as they are.
    pub(super) sends_password: bool,
    pub(super) sasl: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) address: ServerAddress,
    /// The addresses that the host's name stands for.
    pub(super) hosts: Vec<IpAddr>,
    /// Its answer to `srvr`, or why it cannot be reached.
    pub(super) words: Result<Words, String>,
    /// Its settings, if it answers `conf`.
    pub(super) settings: Option<Settings>,
    /// The facts from a session with this server alone, or why it gave none.
    pub(super) visit: Result<Visit, String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Visit {
    pub(super) longest_timeout: Duration,
    /// The ensemble, as this server knows it. Empty for a standalone server, `None` if the server does not say.
    pub(super) members: Option<Vec<Member>>,
    /// The identities that the server knows this client by, as scheme:name. Empty if the server is too old to say.
    pub(super) identities: Vec<String>,
}

impl Seen {
    /// The longest list of members that a server knows.
    pub(super) fn members(&self) -> &[Member] {
        let known = self.visits().filter_map(|visit| visit.members.as_deref());
        known.max_by_key(|members| members.len()).unwrap_or_default()
    }

    /// The longest tick of the servers that said theirs. The leader's tick counts, and any server may lead.
    pub(super) fn tick(&self) -> Option<Duration> {
        self.settings().map(|settings| settings.tick).max()
    }

    /// The shortest tick that a session may reckon with, if this session reckons with `reckoned`. Unless the tick is
    /// given, each session learns it from one server.
    pub(super) fn shortest_reckoned(&self, reckoned: Duration) -> Duration {
        let told = self.settings().map(|settings| settings.tick).filter(|_| self.wishes.tick.is_none());
        told.fold(reckoned, Duration::min)
    }

    /// The addresses of the servers that this is true of. `None` if it is true of no server.
    pub(super) fn named(&self, holds: impl Fn(&Server) -> bool) -> Option<String> {
        let servers = self.servers.iter().filter(|server| holds(server));
        let addresses = servers.map(|server| server.address.to_string()).collect::<Vec<_>>();
        (!addresses.is_empty()).then(|| addresses.join(", "))
    }

    pub(super) fn named_are(&self, holds: impl Fn(&Server) -> bool) -> Option<String> {
        let named = self.named(holds)?;
        let are = if named.contains(", ") { "are" } else { "is" };
        Some(format!("{named} {are}"))
    }

    pub(super) fn modes(&self) -> impl Iterator<Item = &Mode> {
        self.words().map(|words| &words.mode)
    }

    pub(super) fn settings(&self) -> impl Iterator<Item = Settings> {
        self.servers.iter().filter_map(|server| server.settings)
    }

    pub(super) fn words(&self) -> impl Iterator<Item = &Words> {
        self.servers.iter().filter_map(|server| server.words.as_ref().ok())
    }

    pub(super) fn visits(&self) -> impl Iterator<Item = &Visit> {
        self.servers.iter().filter_map(|server| server.visit.as_ref().ok())
    }
}

impl Server {
    /// Its mode; `None` if it was not reached.
    pub(super) fn mode(&self) -> Option<&Mode> {
        self.words.as_ref().ok().map(|words| &words.mode)
    }

    /// Whether it serves locks.
    pub(super) fn serves(&self) -> bool {
        self.visit.is_ok() && self.mode() != Some(&Mode::ReadOnly)
    }
}
