//! The faults of a drill, and how the proxies bring each about.

use std::time::Duration;

use tokio::time::Instant;

use super::proxy::{Flow, Proxy, Weather};

/// A fault on the way between a holder and the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Cut,
    BlackHole,
    Late,
    ToServers,
    ToHolder,
    Reconnect,
    DeadServer,
}

impl Fault {
    /// All of them, in the order of the report.
    pub(super) const ALL: [Self; 7] = [
        Self::Cut,
        Self::BlackHole,
        Self::Late,
        Self::ToServers,
        Self::ToHolder,
        Self::Reconnect,
        Self::DeadServer,
    ];

    /// The name in the JSON. It never changes.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::BlackHole => "black-hole",
            Self::Late => "late",
            Self::ToServers => "to-servers",
            Self::ToHolder => "to-holder",
            Self::Reconnect => "reconnect",
            Self::DeadServer => "dead-server",
        }
    }

    /// What fails, with so many servers.
    pub(super) fn text(self, servers: usize) -> &'static str {
        match self {
            Self::Cut => "the connection is reset, and no server accepts another",
            Self::BlackHole => "nothing passes either way, and connections stay open",
            Self::Late => "everything is later and later, up to half a session timeout each way",
            Self::ToServers => "nothing reaches the servers; their answers would pass",
            Self::ToHolder => "nothing reaches the holder; its requests pass",
            Self::Reconnect if servers == 1 => "the connection is reset; the server accepts another",
            Self::Reconnect => "the connection is reset; other servers accept another",
            Self::DeadServer => "the holder's server is silent; the others answer",
        }
    }

    /// Whether the holder can keep the lock: a server can be reached.
    pub(super) fn is_survivable(self) -> bool {
        match self {
            Self::Reconnect | Self::DeadServer => true,
            Self::Cut | Self::BlackHole | Self::Late | Self::ToServers | Self::ToHolder => false,
        }
    }

    /// Whether it can be tried with so many servers.
    pub(super) fn is_possible(self, servers: usize) -> bool {
        self != Self::DeadServer || servers > 1
    }

    /// Brings it about. The holder is connected through the proxy `near`, and the others admit nobody yet.
    pub(super) fn begin(self, proxies: &[Proxy], near: usize, timeout: Duration) {
        let later = Flow::Later { since: Instant::now(), limit: timeout / 2 };
        let everywhere = |change: fn(&mut Weather, Flow)| {
            proxies.iter().for_each(|proxy| proxy.change(|weather| change(weather, later)));
        };
        let elsewhere = || {
            let others = proxies.iter().enumerate().filter(|(index, _)| *index != near || proxies.len() == 1);
            others.for_each(|(_, proxy)| proxy.open());
        };
        match self {
            Self::Cut => {
                everywhere(|weather, _| weather.admits = false);
                proxies.iter().for_each(Proxy::cut);
            }
            Self::BlackHole => everywhere(|weather, _| {
                (weather.admits, weather.to_server, weather.to_client) = (true, Flow::Stopped, Flow::Stopped);
            }),
            Self::Late => everywhere(|weather, later| {
                (weather.admits, weather.to_server, weather.to_client) = (true, later, later);
            }),
            Self::ToServers => everywhere(|weather, _| {
                (weather.admits, weather.to_server) = (true, Flow::Stopped);
            }),
            Self::ToHolder => everywhere(|weather, _| {
                (weather.admits, weather.to_client) = (true, Flow::Stopped);
            }),
            Self::Reconnect => {
                proxies[near].change(|weather| weather.admits = false);
                elsewhere();
                proxies[near].cut();
            }
            Self::DeadServer => {
                proxies[near].change(|weather| {
                    (weather.to_server, weather.to_client) = (Flow::Stopped, Flow::Stopped);
                });
                elsewhere();
            }
        }
    }
}
