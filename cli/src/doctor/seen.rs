//! The facts that the doctor saw. Every finding rests on them.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;
use zklock::inspect::ForeignContender;

use super::lease::Arithmetic;
use crate::connection::Address;
use crate::layout::Layout;
use crate::pool::{Amount, Stock};
use crate::queue::Stranger;

/// All the facts.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The servers of the connect string, in its order.
    pub(super) servers: Vec<Server>,
    pub(super) wishes: Wishes,
    /// The session that locks would have here, if the servers give one.
    pub(super) session: Option<Arithmetic>,
    /// The queues of the locks to look at.
    pub(super) locks: Vec<Queue>,
    /// How much too fast this machine's clock runs, in parts per million.
    pub(super) clock_rate: i64,
}

/// A lock's queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) path: String,
    /// Why the path has no queue, if it does not exist.
    pub(super) missing: Option<String>,
    /// Why its queue cannot be read, if an ACL hides it.
    pub(super) refused: Option<String>,
    /// Says that the path is used for something other than a lock, and how.
    pub(super) other: Option<String>,
    /// The client with which zklock shares it.
    pub(super) layout: Option<Layout>,
    /// How many zklock contenders it has.
    pub(super) contenders: usize,
    /// How many contenders of that client it has.
    pub(super) theirs: usize,
    /// Those that hold the lock, or some of the pool.
    pub(super) holders: Vec<Holder>,
    /// How many wait.
    pub(super) waiting: usize,
    /// The semaphore at the path, or the slots there.
    pub(super) pool: Option<Room>,
    pub(super) foreign: Vec<ForeignContender>,
}

/// A semaphore, or slots. The fields of the JSON have the same names.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Room {
    #[serde(flatten)]
    pub(super) stock: Stock,
    pub(super) held: u64,
    /// The first one in the turnstile.
    #[serde(skip)]
    pub(super) first: Option<Holder>,
    /// The contenders of other clients in the turnstile's directory.
    #[serde(skip)]
    pub(super) foreign: Vec<Stranger>,
}

/// One that holds something, or is the first to wait, as text.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) owner: String,
    pub(super) came: String,
    pub(super) session: String,
    pub(super) is_zklocks: bool,
    pub(super) sequence: Option<i32>,
    /// How much of a pool it has.
    pub(super) amount: Option<Amount>,
    /// What the servers know of its session.
    pub(super) contact: Contact,
}

/// What the servers know of a session's last sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contact {
    Heard {
        ago: Duration,
        /// Its session timeout.
        timeout: Duration,
        by: String,
    },
    /// No server has a connection of it.
    Gone,
    /// A server does not say, for this reason. So no time of another server counts.
    Unknown(String),
}

/// The wishes in the options.
#[derive(Clone, Debug)]
pub(super) struct Wishes {
    /// The session timeout to ask for.
    pub(super) session_timeout: Duration,
    /// Whether an option asks for it. Then no other session timeout will do.
    pub(super) exact: bool,
    /// The tick, if an option gives it.
    pub(super) tick: Option<Duration>,
    /// Whether digest credentials are given.
    pub(super) digest: bool,
}

/// The facts about one server of the connect string.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) address: Address,
    /// The addresses that the host's name stands for.
    pub(super) hosts: Vec<IpAddr>,
    /// Its answers to four-letter words, or why it cannot be reached.
    pub(super) words: Result<Words, String>,
    /// The facts from a session with this server alone, or why it gave none.
    pub(super) visit: Result<Visit, String>,
}

/// A server's answers to four-letter words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    pub(crate) mode: Mode,
    /// ZooKeeper's version, such as `3.9.3`.
    pub(super) version: Option<String>,
    /// The name of the software, if the server says that it is no ZooKeeper.
    pub(super) imitator: Option<String>,
    /// The longest time that a request has taken since the server started.
    pub(crate) slowest: Option<Duration>,
    /// How many nodes the tree has.
    pub(super) nodes: Option<u64>,
    /// Its settings, if it answers `conf`.
    pub(super) settings: Option<Settings>,
}

/// The mode of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    Leader,
    Follower,
    Observer,
    Standalone,
    ReadOnly,
    /// The server runs, but has no quorum.
    NotServing,
    /// The server was reached, but does not answer.
    Silent(String),
    /// The server was reached, but TLS failed: it speaks none, its certificate is not trusted, or it does not trust the
    /// client's.
    TlsFailed(String),
    /// The server does not say.
    #[default]
    Unknown,
}

/// The settings in the answer to `conf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) id: u64,
    pub(super) tick: Duration,
    pub(super) shortest_timeout: Duration,
    pub(super) longest_timeout: Duration,
}

/// The facts from a session with one server.
#[derive(Clone, Debug, Default)]
pub(super) struct Visit {
    /// The longest session timeout that the server grants.
    pub(super) longest_timeout: Duration,
    /// The median round trip of a request that the server answers by itself.
    pub(super) read: Duration,
    /// The median round trip of a request that a quorum has to agree to.
    pub(super) write: Duration,
    /// The ensemble, as this server knows it. Empty for a standalone server, `None` if the server does not say.
    pub(super) members: Option<Vec<Member>>,
    /// The identities that the server knows this client by, as scheme:name. Empty if the server is too old to say.
    pub(super) identities: Vec<String>,
}

/// A server of the ensemble, by the ensemble's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) id: u64,
    /// The host at which the other servers reach it.
    pub(super) host: String,
    pub(super) votes: bool,
}

impl Contact {
    /// How long from now the session lasts at most if its client is dead, unless the leader changes. The leader rounds an
    /// expiry up to its next tick (`ExpiryQueue`). It may learn of the client's last sign of life half a tick later, because
    /// followers tell it when it asks.
    pub(crate) fn expires_in(&self, tick: Duration) -> Option<Duration> {
        match self {
            Self::Heard { ago, timeout, .. } => Some((*timeout + tick * 3 / 2).saturating_sub(*ago)),
            Self::Gone | Self::Unknown(_) => None,
        }
    }

    /// Whether a client that works would have been heard of since: zklock sends four heartbeats in a session timeout.
    pub(crate) fn is_silent(&self) -> bool {
        match self {
            Self::Heard { ago, timeout, .. } => *ago > *timeout / 2,
            Self::Gone => true,
            Self::Unknown(_) => false,
        }
    }

    /// How long ago it was. `None` if nobody knows.
    pub(super) fn ago(&self) -> Option<Duration> {
        match self {
            Self::Heard { ago, .. } => Some(*ago),
            Self::Gone | Self::Unknown(_) => None,
        }
    }
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

    /// Whether the ensemble is a single server. Then no server reports to another one.
    pub(super) fn is_alone(&self) -> bool {
        self.modes().any(|mode| *mode == Mode::Standalone) && self.members().len() < 2
    }

    /// The addresses of the servers that this is true of. `None` if it is true of no server.
    pub(super) fn named(&self, holds: impl Fn(&Server) -> bool) -> Option<String> {
        let servers = self.servers.iter().filter(|server| holds(server));
        let addresses = servers.map(|server| server.address.to_string()).collect::<Vec<_>>();
        (!addresses.is_empty()).then(|| addresses.join(", "))
    }

    pub(super) fn modes(&self) -> impl Iterator<Item = &Mode> {
        self.words().map(|words| &words.mode)
    }

    pub(super) fn settings(&self) -> impl Iterator<Item = Settings> {
        self.words().filter_map(|words| words.settings)
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

impl Mode {
    /// Whether the server has said that it serves clients.
    pub(crate) fn serves(&self) -> bool {
        match self {
            Self::Leader | Self::Follower | Self::Observer | Self::Standalone => true,
            // A server whose whitelist lacks the word has answered all the same.
            Self::Unknown => true,
            Self::ReadOnly | Self::NotServing | Self::Silent(_) | Self::TlsFailed(_) => false,
        }
    }

    /// Why a server that was reached does not answer.
    pub(super) fn problem(&self) -> Option<&String> {
        match self {
            Self::Silent(why) | Self::TlsFailed(why) => Some(why),
            _ => None,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Observer => "observer",
            Self::Standalone => "standalone",
            Self::ReadOnly => "read-only",
            Self::NotServing => "not serving",
            Self::Silent(_) => "silent",
            Self::TlsFailed(_) => "tls failed",
            Self::Unknown => "unknown",
        })
    }
}
