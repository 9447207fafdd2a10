//! Whose lock it is.

use clap::ValueEnum;
use tokio::process::Command;
use zklock_test_support::peers::Client;

use crate::harness::table::{title, word};
use crate::harness::this_program;

/// What a lock rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    ZooKeeper,
    Etcd,
    Postgres,
}

/// A lock. Tables call it as its comment does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contestant {
    /// zklock
    Zklock,
    /// zookeeper-client
    ZookeeperClient,
    /// Curator
    Curator,
    /// kazoo
    Kazoo,
    /// go-zookeeper
    Go,
    /// etcd
    Etcd,
    /// PostgreSQL
    Postgres,
    /// three locks at once
    Several,
    /// a lock by key, eight tasks a session
    Keys,
    /// a semaphore of eight
    Permits,
    /// Curator's semaphore of eight
    CuratorPermits,
    /// a node that is created and deleted
    Raw,
}

impl Contestant {
    /// The locks that one holder has alone, of each client: the first seven.
    pub(crate) fn peers() -> Vec<Self> {
        Self::value_variants()[..7].to_vec()
    }

    pub(crate) fn name(self) -> String {
        title(&self)
    }

    pub(crate) fn service(self) -> Service {
        match self {
            Self::Etcd => Service::Etcd,
            Self::Postgres => Service::Postgres,
            _ => Service::ZooKeeper,
        }
    }

    /// Whether it has one holder at a time, so that others wait until that one has gone.
    pub(crate) fn is_exclusive(self) -> bool {
        !matches!(self, Self::Permits | Self::CuratorPermits | Self::Raw)
    }

    /// How it runs in a program of its own, by these servers and at this path.
    pub(crate) fn program(self, servers: &str, path: &str) -> anyhow::Result<Command> {
        let mut command = match self {
            Self::Curator | Self::CuratorPermits => Client::Curator.program(),
            Self::Kazoo => Client::Kazoo.program(),
            Self::Go => Client::Go.program(),
            Self::Etcd => Client::Etcd.program(),
            _ => {
                let mut command = this_program("part")?;
                command.arg(word(&self));
                command
            }
        };
        command.args([servers, path, if self == Self::CuratorPermits { "permits" } else { "mutex" }]);
        Ok(command)
    }
}
