//! The servers: who leads, who is in trouble, and what an operator may ask and do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tokio::time::timeout;
use zklock_testcontainers::Ensemble;
use zookeeper_client::{Client, Error};

use super::record::Who;

/// How many servers there are.
pub(crate) const SERVERS: usize = 3;
/// Ticks until a server that hears nothing of its leader, or a leader of its quorum, gives up: longer than a session
/// timeout, as with ZooKeeper's defaults.
const SYNC_LIMIT: &str = "7";
/// The server that grants shorter session timeouts than the others, and what it grants to those who ask for more.
pub(crate) const LESSER: usize = 0;
const LESSER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a question may take.
const ANSWER: Duration = Duration::from_secs(2);
/// An operator's session outlives what it looks at.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(20);

/// The ensemble, and which of its servers are in trouble.
pub(crate) struct Servers {
    pub(crate) ensemble: Ensemble,
    troubled: Mutex<[bool; SERVERS]>,
}

/// A server that is in trouble until this is dropped: one at a time.
pub(crate) struct Trouble {
    pub(crate) server: usize,
    servers: Arc<Servers>,
}

/// One contender's node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) session: i64,
    /// Whose it is, unless its data was overwritten.
    pub(crate) who: Option<Who>,
}

impl Servers {
    pub(crate) async fn start(tick: Duration) -> anyhow::Result<Arc<Self>> {
        let ensemble = Ensemble::builder(SERVERS)
            .tick_time(tick)
            .property("syncLimit", SYNC_LIMIT)
            .property_of(LESSER, "maxSessionTimeout", LESSER_TIMEOUT.as_millis().to_string());
        let ensemble = ensemble.start().await.context("cannot start an ensemble")?;
        Ok(Arc::new(Self { ensemble, troubled: Mutex::default() }))
    }

    fn troubled(&self) -> MutexGuard<'_, [bool; SERVERS]> {
        self.troubled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a server for a fault, unless it is in trouble already.
    pub(crate) fn reserve(self: &Arc<Self>, server: usize) -> Option<Trouble> {
        let mut troubled = self.troubled();
        let present = troubled.get_mut(server)?;
        (!std::mem::replace(present, true)).then(|| Trouble { server, servers: self.clone() })
    }

    /// Whether no server is in trouble, and all of them serve.
    pub(crate) async fn is_calm(&self) -> bool {
        let calm = *self.troubled() == [false; SERVERS];
        calm && timeout(ANSWER, self.ensemble.wait_until_serving()).await.is_ok_and(|served| served.is_ok())
    }

    pub(crate) async fn leader(&self) -> Option<usize> {
        timeout(ANSWER, self.ensemble.leader()).await.ok()?.ok()
    }

    /// Undoes every fault, and waits until all servers serve.
    pub(crate) async fn recover(&self) -> anyhow::Result<()> {
        self.ensemble.heal().await?;
        for server in 0..SERVERS {
            // An error says that it is not running.
            if self.ensemble.unpause(server).await.is_err() {
                self.ensemble.restart(server).await?;
            }
        }
        Ok(self.ensemble.wait_until_serving().await?)
    }

    /// An operator's own session.
    pub(crate) async fn operator(&self) -> anyhow::Result<Client> {
        let connector = Client::connector().with_session_timeout(OPERATOR_TIMEOUT);
        let connected = timeout(ANSWER, connector.connect(&self.ensemble.connect_string())).await;
        connected.context("no session for an operator")?.context("no session for an operator")
    }

    /// How many watches the servers have in all.
    pub(crate) async fn watches(&self) -> anyhow::Result<u64> {
        Ok(self.figures("wchs", "Total watches:").await?.into_iter().sum())
    }

    /// How many ephemeral nodes there are, as the server says that knows of most.
    pub(crate) async fn ephemerals(&self) -> anyhow::Result<u64> {
        Ok(self.figures("mntr", "zk_ephemerals_count").await?.into_iter().max().unwrap_or(0))
    }

    /// What each server says of itself.
    async fn figures(&self, word: &str, key: &str) -> anyhow::Result<Vec<u64>> {
        let mut figures = Vec::new();
        for server in 0..SERVERS {
            let answer = self.ensemble.admin(server, word).await?;
            let value = answer.lines().find_map(|line| line.strip_prefix(key));
            let value = value.and_then(|value| value.trim().parse().ok());
            figures.push(value.with_context(|| format!("no {key} in the answer to {word}: {answer}"))?);
        }
        Ok(figures)
    }
}

impl Drop for Trouble {
    fn drop(&mut self) {
        if let Some(present) = self.servers.troubled().get_mut(self.server) {
            *present = false;
        }
    }
}

/// The queue in this directory, the holder first.
pub(crate) async fn queue(operator: &Client, path: &str) -> Result<Vec<Node>, Error> {
    let names = match operator.list_children(path).await {
        Err(Error::NoNode) => Vec::new(),
        names => names?,
    };
    let mut nodes = Vec::new();
    for name in names {
        match operator.get_data(&format!("{path}/{name}")).await {
            Err(Error::NoNode) => {}
            read => {
                let (data, stat) = read?;
                nodes.push(Node { name, session: stat.ephemeral_owner, who: owner(&data) });
            }
        }
    }
    // The last ten digits are the number, whatever stands before.
    nodes.sort_by(|one, other| number(&one.name).cmp(number(&other.name)));
    Ok(nodes)
}

/// What both recipes say of a contender.
fn owner(data: &[u8]) -> Option<Who> {
    let data: serde_json::Value = serde_json::from_slice(data).ok()?;
    let (client, task) = data.get("owner")?.as_str()?.strip_prefix('c')?.split_once('.')?;
    Some(Who { client: client.parse().ok()?, task: task.parse().ok()? })
}

fn number(name: &str) -> &str {
    name.get(name.len().saturating_sub(10)..).unwrap_or(name)
}
