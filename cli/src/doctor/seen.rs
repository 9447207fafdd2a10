//! What was seen: all that the findings rest on.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use zklock::ForeignContender;

use super::lease::Arithmetic;
use crate::connection::Address;

/// Everything that was looked at.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Those of the connect string, in its order.
    pub(super) servers: Vec<Server>,
    pub(super) wishes: Wishes,
    /// The session that locks would have here, if there is one to be had.
    pub(super) session: Option<Arithmetic>,
    /// The locks that were asked for.
    pub(super) locks: Vec<Queue>,
    /// How much faster than it should this machine's clock runs, in parts per million.
    pub(super) clock_rate: i64,
}

/// A lock's queue.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) path: String,
    /// How many contend by zklock.
    pub(super) contenders: usize,
    pub(super) foreign: Vec<ForeignContender>,
}

/// What the options say.
#[derive(Clone, Debug)]
pub(super) struct Wishes {
    /// The session timeout to ask for.
    pub(super) session_timeout: Duration,
    /// Whether it was asked for by an option: then no other one will do.
    pub(super) exact: bool,
    /// The tick, if it was told.
    pub(super) tick: Option<Duration>,
    /// Whether there are digest credentials.
    pub(super) digest: bool,
}

/// What one server of the connect string was found to be.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) address: Address,
    /// What the host's name stands for.
    pub(super) hosts: Vec<IpAddr>,
    /// What it answered to the words that anybody may ask, or why it cannot be reached.
    pub(super) words: Result<Words, String>,
    /// What a session with this server alone showed, or why there was none.
    pub(super) visit: Result<Visit, String>,
}

/// A server's answers to four-letter words.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    pub(super) mode: Mode,
    /// As in `3.9.3`.
    pub(super) version: Option<String>,
    /// The longest that a request has taken there since it was started.
    pub(super) slowest: Option<Duration>,
    /// Its part of the configuration, if it tells that.
    pub(super) settings: Option<Settings>,
}

/// What a server does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    Leader,
    Follower,
    Observer,
    Standalone,
    ReadOnly,
    /// It runs, but has no quorum.
    NotServing,
    /// It was reached, but does not answer.
    Silent(String),
    /// It was reached, but speaks no TLS that we trust, or does not trust us.
    TlsFailed(String),
    /// It does not tell.
    #[default]
    Unknown,
}

/// What `conf` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) id: u64,
    pub(super) tick: Duration,
    pub(super) shortest_timeout: Duration,
    pub(super) longest_timeout: Duration,
}

/// What a session with one server showed.
#[derive(Clone, Debug, Default)]
pub(super) struct Visit {
    /// The longest session timeout that it grants.
    pub(super) longest_timeout: Duration,
    /// The median round trip of what the server answers by itself.
    pub(super) read: Duration,
    /// The median of what a quorum has to agree to.
    pub(super) write: Duration,
    /// The ensemble, as this server knows it; empty for a standalone one, `None` if it does not tell.
    pub(super) members: Option<Vec<Member>>,
    /// Whom the server takes us for, as scheme:name; empty if it is too old to tell.
    pub(super) identities: Vec<String>,
}

/// A server of the ensemble, as that knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) id: u64,
    /// Where the other servers reach it.
    pub(super) host: String,
    pub(super) votes: bool,
}

impl Seen {
    /// The ensemble, as most of it is known to a server that was visited.
    pub(super) fn members(&self) -> &[Member] {
        let known = self.visits().filter_map(|visit| visit.members.as_deref());
        known.max_by_key(|members| members.len()).unwrap_or_default()
    }

    /// The longest tick that a server told. The leader's is what counts, and any server may lead.
    pub(super) fn tick(&self) -> Option<Duration> {
        self.settings().map(|settings| settings.tick).max()
    }

    /// The shortest tick that a session may reckon with, if this one does with `reckoned`: unless it is given, each learns it
    /// from one server.
    pub(super) fn shortest_reckoned(&self, reckoned: Duration) -> Duration {
        let told = self.settings().map(|settings| settings.tick).filter(|_| self.wishes.tick.is_none());
        told.fold(reckoned, Duration::min)
    }

    /// Whether there is but one server, so that none reports to another.
    pub(super) fn is_alone(&self) -> bool {
        self.modes().any(|mode| *mode == Mode::Standalone) && self.members().len() < 2
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
    /// What it does; `None` if it was not reached.
    pub(super) fn mode(&self) -> Option<&Mode> {
        self.words.as_ref().ok().map(|words| &words.mode)
    }

    /// Whether locks can be had there.
    pub(super) fn serves(&self) -> bool {
        self.visit.is_ok() && self.mode() != Some(&Mode::ReadOnly)
    }
}

impl Words {
    /// None, for what the server does instead.
    pub(super) fn none(mode: Mode) -> Self {
        Self { mode, ..Self::default() }
    }
}

impl Mode {
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
