//! The servers: who leads, who is in trouble, and what an operator may ask and do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use futures::future::try_join_all;
use tokio::time::timeout;
use zklock_testcontainers::Ensemble;
use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::history::Left;
use super::part::TICK;
use super::record::{Entry, Kept, Who};
use super::wish::{ANNOUNCEMENT, LOGS, PERMITS, RECORDS, is_shared, log, path};

/// How many servers there are.
pub(crate) const SERVERS: usize = 3;
/// The server that grants shorter session timeouts than the others, and what it grants to those who ask for more.
pub(crate) const LESSER: usize = 0;
pub(crate) const LESSER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a question may take.
const ANSWER: Duration = Duration::from_secs(2);

/// How long a session for an operator may take, if nothing else is bounded by that: new servers are slow.
const PATIENCE: Duration = Duration::from_secs(60);
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
    /// With its directory.
    pub(crate) path: String,
    /// Whether it is a reader's.
    pub(crate) shared: bool,
    pub(crate) session: i64,
    /// The transaction that created it.
    pub(crate) czxid: i64,
    /// Whose it is, unless its data was overwritten.
    pub(crate) who: Option<Who>,
    /// How long it has been there, by the wall clock, which the servers have from the same machine.
    pub(crate) age: Duration,
}

impl Servers {
    /// Starts them with this `syncLimit`.
    pub(crate) async fn start(sync_limit: u32) -> anyhow::Result<Arc<Self>> {
        let ensemble = Ensemble::builder(SERVERS)
            .tick_time(TICK)
            .property("syncLimit", sync_limit.to_string())
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
            self.revive(server).await?;
        }
        Ok(self.ensemble.wait_until_serving().await?)
    }

    /// Lets a server go on that is paused, and starts one again that is not running. ZooKeeper ends by itself if it finds that it
    /// cannot go on, and relies on an init system. Then this prints the end of its log.
    pub(crate) async fn revive(&self, server: usize) -> anyhow::Result<()> {
        if let Err(error) = self.ensemble.unpause(server).await {
            eprintln!("torture: {error}");
            // With other servers in trouble it may wait for them in vain; it is up all the same.
            if let Ok(Err(error)) = timeout(PATIENCE, self.ensemble.restart(server)).await {
                eprintln!("torture: server {server} was not started again: {error}");
            }
        }
        Ok(())
    }

    /// An operator's own session.
    pub(crate) async fn operator(&self) -> anyhow::Result<Client> {
        operator_of(&self.ensemble.connect_string()).await
    }

    /// An operator for each server, which asks that server only.
    pub(crate) async fn operators(&self) -> anyhow::Result<Vec<Client>> {
        let addresses = (0..SERVERS).map(|server| self.ensemble.address(server));
        try_join_all(addresses.map(async |address| operator_of(&address).await)).await
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

async fn operator_of(servers: &str) -> anyhow::Result<Client> {
    let connector = Client::connector().with_session_timeout(OPERATOR_TIMEOUT);
    let connected = timeout(PATIENCE, connector.connect(servers)).await;
    connected.context("no session for an operator")?.context("no session for an operator")
}

/// What contenders have on the servers, and which servers have it. The operators are those of the servers, in order.
pub(crate) async fn left(operators: &[Client], locks: usize) -> Result<Vec<Left>, Error> {
    Ok(compared(try_join_all(operators.iter().map(|operator| view(operator, locks))).await?))
}

/// What an operator sees that contenders have.
async fn view(operator: &Client, locks: usize) -> Result<Vec<Node>, Error> {
    let mut nodes = queues(operator, locks).await?.concat();
    nodes.extend(permits(operator).await?);
    nodes.extend(node(operator, ANNOUNCEMENT.to_owned()).await?);
    Ok(nodes)
}

/// The nodes that some server shows, each once, with the servers that show it.
fn compared(views: Vec<Vec<Node>>) -> Vec<Left> {
    let mut left = BTreeMap::<(String, i64), Left>::new();
    for (server, nodes) in views.into_iter().enumerate() {
        for Node { path, session, czxid, who, .. } in nodes {
            let new = Left { path: path.clone(), session, who, servers: Vec::new() };
            left.entry((path, czxid)).or_insert(new).servers.push(server);
        }
    }
    left.into_values().collect()
}

/// The queue of each lock, the first one in front.
pub(crate) async fn queues(operator: &Client, locks: usize) -> Result<Vec<Vec<Node>>, Error> {
    try_join_all((0..locks).map(|lock| queue(operator, path(lock)))).await
}

/// The permits or slots that are there, the oldest first.
pub(crate) async fn permits(operator: &Client) -> Result<Vec<Node>, Error> {
    queue(operator, PERMITS.to_owned()).await
}

/// Makes the logs of the locks.
pub(crate) async fn make_logs(operator: &Client, locks: usize) -> Result<(), Error> {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    operator.create(LOGS, b"", &options).await?;
    for lock in 0..locks {
        operator.create(&log(lock), b"", &options).await?;
    }
    Ok(())
}

/// What was entered in each log, in order.
pub(crate) async fn logs(operator: &Client, locks: usize) -> anyhow::Result<Vec<Vec<Entry>>> {
    operator.sync("/").await?;
    let mut logs = Vec::new();
    for lock in 0..locks {
        let mut names = operator.list_children(&log(lock)).await?;
        names.sort_by(|one, other| number(one).cmp(number(other)));
        logs.push(names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?);
    }
    Ok(logs)
}

/// The records of slots that run once, by their names, and the ranges of names whose records were dropped.
pub(crate) type Records = (BTreeMap<String, Kept>, Vec<(String, String)>);

/// Reads them.
pub(crate) async fn records(operator: &Client) -> anyhow::Result<Records> {
    operator.sync("/").await?;
    let (data, names) = match operator.get_data(RECORDS).await {
        Err(Error::NoNode) => return Ok(Records::default()),
        read => (read?.0, operator.list_children(RECORDS).await?),
    };
    let ranges: BTreeMap<String, _> =
        if data.is_empty() { BTreeMap::new() } else { serde_json::from_slice(&data)? };
    let mut records = BTreeMap::new();
    for name in names {
        let (data, _) = operator.get_data(&format!("{RECORDS}/{name}")).await?;
        records.insert(name, serde_json::from_slice(&data)?);
    }
    Ok((records, ranges.into_values().next().unwrap_or_default()))
}

async fn queue(operator: &Client, directory: String) -> Result<Vec<Node>, Error> {
    let names = match operator.list_children(&directory).await {
        Err(Error::NoNode) => Vec::new(),
        names => names?,
    };
    let mut nodes = Vec::new();
    for name in names {
        nodes.extend(node(operator, format!("{directory}/{name}")).await?);
    }
    // The last ten digits are the number, whatever stands before.
    nodes.sort_by(|one, other| number(&one.path).cmp(number(&other.path)));
    Ok(nodes)
}

/// The node with this path, if it is there.
async fn node(operator: &Client, path: String) -> Result<Option<Node>, Error> {
    match operator.get_data(&path).await {
        Err(Error::NoNode) => Ok(None),
        read => {
            let (data, stat) = read?;
            let shared = path.rsplit('/').next().is_some_and(is_shared);
            let (session, who, czxid, age) =
                (stat.ephemeral_owner, owner(&data), stat.czxid, age(stat.ctime));
            Ok(Some(Node { path, shared, session, czxid, who, age }))
        }
    }
}

/// What both recipes say of a contender.
fn owner(data: &[u8]) -> Option<Who> {
    let data: serde_json::Value = serde_json::from_slice(data).ok()?;
    data.get("owner")?.as_str()?.parse().ok()
}

/// How long ago this was: milliseconds since the Unix epoch.
fn age(created: i64) -> Duration {
    let created = UNIX_EPOCH + Duration::from_millis(created.unsigned_abs());
    SystemTime::now().duration_since(created).unwrap_or(Duration::ZERO)
}

fn number(name: &str) -> &str {
    name.get(name.len().saturating_sub(10)..).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(path: &str, czxid: i64) -> Node {
        let (path, age) = (path.to_owned(), Duration::ZERO);
        Node { path, shared: false, session: 1, czxid, who: None, age }
    }

    #[test]
    fn a_node_is_left_on_the_servers_that_show_it() {
        let (all, one, again) = (node("/a", 1), node("/b", 2), node("/b", 3));
        let left = compared(vec![vec![all.clone()], vec![all.clone(), one], vec![all, again]]);
        let left: Vec<_> = left.iter().map(|left| (left.path.as_str(), left.servers.as_slice())).collect();
        assert_eq!(left, [("/a", &[0, 1, 2][..]), ("/b", &[1]), ("/b", &[2])]);
    }
}
