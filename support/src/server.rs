//! The servers that tests run against.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zklock_testcontainers::ZooKeeper;
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

use crate::wait::{eventually, within};

/// The tick of [`server`] and [`own_server`].
pub const TICK: Duration = Duration::from_millis(100);

/// The environment's variable with the address of the server that the tests of a run share. Without it each starts its own.
pub const STANDING: &str = "ZKLOCK_TEST_SERVER";

/// What has the tests' directories on the server that they share.
const PLACE: &str = "/tests";

/// A place for one test: a server of its own, or a directory of its own on a server that it shares.
#[derive(Debug)]
pub struct Server {
    address: String,
    /// What its connections take for the root, or empty.
    chroot: String,
    own: Option<ZooKeeper>,
}

/// Returns a place for a test that does nothing to the server itself, and does not count what is the whole server's.
/// Session timeouts may be between 0.2 s and 60 s.
pub async fn server() -> Server {
    let Ok(address) = std::env::var(STANDING) else { return own_server().await };
    static PLACES: AtomicUsize = AtomicUsize::new(0);
    let chroot = format!("{PLACE}/{}-{}", std::process::id(), PLACES.fetch_add(1, Ordering::Relaxed));
    // Nobody else has its name. A busy machine may need more than one attempt.
    let made = async || {
        let Ok(client) = Client::connect(&address).await else { return false };
        match client.create(&chroot, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await {
            Ok(_) | Err(zookeeper_client::Error::NodeExists) => true,
            Err(_) => false,
        }
    };
    eventually("a directory for the test", made).await;
    Server { address, chroot, own: None }
}

/// Starts the server that tests share. They can make nothing but directories of their own there, so no two of them meet.
pub async fn standing_server() -> Server {
    let server = own_server().await;
    let client = Client::connect(&server.address).await.expect("a client");
    let everybody = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create(PLACE, b"", &everybody).await.expect("a directory");
    let reader = [Acl::new(Permission::READ, AuthId::anyone())];
    client.set_acl("/", &reader, None).await.expect("the root is closed");
    server
}

/// Starts a server for a test that stops or slows it, or counts all that is on it.
pub async fn own_server() -> Server {
    let server = ZooKeeper::builder().tick_time(TICK).max_session_timeout(Duration::from_secs(60));
    server.start().await.expect("a ZooKeeper server").into()
}

impl From<ZooKeeper> for Server {
    fn from(server: ZooKeeper) -> Self {
        Self { address: server.connect_string(), chroot: String::new(), own: Some(server) }
    }
}

impl Server {
    /// Where to connect, with the chroot.
    pub fn connect_string(&self) -> String {
        self.at(&self.address)
    }

    /// The server's address, for a proxy.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The same place behind another address: that of a proxy.
    pub fn at(&self, address: impl AsRef<str>) -> String {
        format!("{}{}", address.as_ref(), self.chroot)
    }

    /// The path that the server knows a node by.
    pub fn full(&self, path: &str) -> String {
        format!("{}{path}", self.chroot)
    }

    /// The server, of a test that has its own.
    pub fn own(&self) -> &ZooKeeper {
        self.own.as_ref().expect("a test that does something to its server begins with own_server()")
    }

    /// Asks the server a four-letter word.
    pub async fn admin(&self, word: &str) -> String {
        within(word, async {
            let mut connection = TcpStream::connect(&self.address).await.expect("a connection");
            connection.write_all(word.as_bytes()).await.expect("a question");
            let mut answer = String::new();
            connection.read_to_string(&mut answer).await.expect("an answer");
            answer
        })
        .await
    }

    /// How many ephemeral nodes are at this place.
    pub async fn ephemerals(&self) -> u64 {
        if self.own.is_some() {
            return number(&self.admin("mntr").await, "zk_ephemerals_count");
        }
        let below = format!("\t{}/", self.chroot);
        self.admin("dump").await.lines().filter(|line| line.starts_with(&below)).count() as u64
    }

    /// How many watches on data are at this place: each session and node counts once, however many callers of that session
    /// ask. A server names no watches on children.
    pub async fn watches(&self) -> u64 {
        let below = format!("{}/", self.chroot);
        let (mut count, mut is_below) = (0, false);
        for line in self.admin("wchp").await.lines() {
            match line.strip_prefix('\t') {
                Some(_) => count += u64::from(is_below),
                None => is_below = line.starts_with(&below) || line == self.chroot,
            }
        }
        count
    }

    /// Whether no ephemeral node and no watch is left at this place.
    pub async fn is_left_clean(&self) -> bool {
        match &self.own {
            Some(_) => {
                let monitored = self.admin("mntr").await;
                number(&monitored, "zk_ephemerals_count") == 0 && number(&monitored, "zk_watch_count") == 0
            }
            None => self.ephemerals().await == 0 && self.watches().await == 0,
        }
    }
}

/// Returns the number with this name from a server's answer.
pub fn number(text: &str, key: &str) -> u64 {
    let line =
        text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{key} in {text}"));
    line.trim().parse().expect("a number")
}
