//! Who is compared.

use std::process::Stdio;

use clap::ValueEnum;
use tokio::process::Command;
use zklock_test_support::peers::Client;

use crate::peers::Peer;

/// What a lock rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    ZooKeeper,
    Etcd,
    Redis,
    Postgres,
}

/// A lock, as its users have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contestant {
    Zklock,
    ZookeeperClient,
    Curator,
    Kazoo,
    Go,
    Etcd,
    /// Redis by publishing, as Redisson does it.
    Redis,
    /// Redis by polling.
    RedisPolling,
    Postgres,
}

impl Contestant {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zklock => "zklock",
            Self::ZookeeperClient => "zookeeper-client",
            Self::Curator => "Curator",
            Self::Kazoo => "kazoo",
            Self::Go => "go-zookeeper",
            Self::Etcd => "etcd",
            Self::Redis => "Redis, published",
            Self::RedisPolling => "Redis, polled",
            Self::Postgres => "PostgreSQL",
        }
    }

    pub(crate) fn service(self) -> Service {
        match self {
            Self::Zklock | Self::ZookeeperClient | Self::Curator | Self::Kazoo | Self::Go => {
                Service::ZooKeeper
            }
            Self::Etcd => Service::Etcd,
            Self::Redis | Self::RedisPolling => Service::Redis,
            Self::Postgres => Service::Postgres,
        }
    }

    /// What keeps a holder that is cut off, or stopped, apart from the next one.
    pub(crate) fn strictness(self) -> &'static str {
        match self {
            Self::Zklock => "its guard ends before the next grant; fencing token",
            Self::ZookeeperClient | Self::Curator | Self::Kazoo | Self::Go => {
                "its user has to stop when the client is disconnected"
            }
            Self::Etcd => "its user has to watch `Done`, or put the lock's revision into each transaction",
            Self::Redis | Self::RedisPolling => "nobody tells it; no token",
            Self::Postgres => "nobody tells it; the lock stays with the server's connection",
        }
    }

    /// How it runs in a program of its own.
    pub(crate) fn program(self) -> anyhow::Result<Command> {
        Ok(match self {
            Self::Curator => Client::Curator.program(),
            Self::Kazoo => Client::Kazoo.program(),
            Self::Go => Client::Go.program(),
            Self::Etcd => Client::Etcd.program(),
            _ => {
                let mut command = Command::new(std::env::current_exe()?);
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
                let name = self.to_possible_value().map(|value| value.get_name().to_owned());
                command.arg("part").args(name);
                command
            }
        })
    }

    /// As this program plays it.
    pub(crate) fn peer(self) -> Option<Peer> {
        match self {
            Self::Zklock => Some(Peer::Zklock),
            Self::ZookeeperClient => Some(Peer::ZookeeperClient),
            Self::Redis => Some(Peer::Redisson),
            Self::RedisPolling => Some(Peer::RedisPolling),
            Self::Postgres => Some(Peer::Postgres),
            Self::Curator | Self::Kazoo | Self::Go | Self::Etcd => None,
        }
    }
}
