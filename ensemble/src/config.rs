//! What a server is configured to do.

use std::time::Duration;

use crate::id::ServerId;

/// The configuration of one server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server's number.
    pub id: ServerId,
    /// How many servers vote. With one voter, the server is a standalone server.
    pub voters: u8,
    /// The unit of time, in which sessions expire.
    pub tick: Duration,
    /// How many ticks the servers of an ensemble wait for each other before they look for another leader.
    pub sync_limit: u32,
    /// How many ticks a new leader waits for its followers.
    pub init_limit: u32,
    /// The shortest timeout of a session.
    pub min_session_timeout: Duration,
    /// The longest timeout of a session.
    pub max_session_timeout: Duration,
    /// The ZooKeeper whose behaviour the server has, where versions differ.
    pub version: Version,
    /// The four-letter words that the server answers beside `srvr`; `*` stands for all.
    pub words: Vec<String>,
    /// How often the leader looks for containers that have become empty.
    pub container_check: Duration,
    /// How long a leader takes from telling its followers to commit to committing itself. Meanwhile it reads the past, even
    /// behind a sync.
    pub apply_delay: Duration,
    /// How long requests wait at a leader or a standalone server until it decides about them, one after the other. Touches
    /// and revalidations do not wait. So a request may be decided about by what came after it.
    pub prep_delay: Duration,
    /// How long a session that has expired does not close yet: its requests pass, and touches come too late to save it.
    pub expiry_delay: Duration,
    /// The address that every client has: its identity of the scheme `ip`.
    pub client_address: String,
    /// The nodes that are there from the first, parents first, each with the number of children that were created in it: as in data of
    /// before.
    pub nodes: Vec<(String, i32)>,
    /// How many transactions the disk has beside its snapshot before they become part of it.
    pub log_length: usize,
    /// The contents of `/zookeeper/config` in an ensemble.
    pub members: String,
}

/// A version of ZooKeeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 3.8.0 as Debian has it. An event has the zxid -1, `exists` asks not who may read, and a connection has one watch on
    /// a path: a second one of another kind replaces the first.
    V3_8_0,
    /// 3.9.3. An event has the zxid of its transaction.
    V3_9_3,
    /// 3.9.5. Its replies are those of 3.9.3.
    V3_9_5,
}

impl Config {
    /// What a server of so many voters does unless it is told otherwise: ticks of two seconds.
    pub fn new(id: ServerId, voters: u8) -> Self {
        let member =
            |server| format!("server.{server}=127.0.0.{server}:2888:3888:participant;0.0.0.0:2181\n");
        let tick = Duration::from_secs(2);
        Self {
            id,
            voters,
            tick,
            sync_limit: 5,
            init_limit: 10,
            min_session_timeout: tick * 2,
            max_session_timeout: tick * 20,
            version: Version::V3_9_5,
            words: Vec::new(),
            container_check: Duration::from_secs(60),
            apply_delay: Duration::ZERO,
            prep_delay: Duration::ZERO,
            expiry_delay: Duration::ZERO,
            client_address: "127.0.0.1".into(),
            nodes: Vec::new(),
            log_length: 10_000,
            members: format!("{}version=0", (1..=voters).map(member).collect::<String>()),
        }
    }
}

impl Version {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V3_8_0 => "3.8.0",
            Self::V3_9_3 => "3.9.3",
            Self::V3_9_5 => "3.9.5",
        }
    }
}
