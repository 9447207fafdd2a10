//! The servers: who leads, who is in trouble, and what an operator may ask and do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::future::try_join_all;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;
use zklock_contest::history::Left;
use zklock_contest::member::Member;
use zklock_contest::members::{SYNC_LIMIT, TICK, rules};
use zklock_contest::nodes::{Node, view};
use zklock_test_support::number;
use zklock_testcontainers::Ensemble;
use zookeeper_client::{Client, Error};

pub(crate) const SERVERS: usize = 3;
/// The server that grants shorter session timeouts than the others, and what it grants to those who ask for more.
pub(crate) const LESSER: usize = 0;
const LESSER_TIMEOUT: Duration = Duration::from_secs(3);
/// The same for programs, which ask for three times as much: so the lease of a session that moves there is not over at once.
const LESSER_OF_PROGRAMS: Duration = Duration::from_secs(4);
/// A server that grants programs a longer session timeout than they ask for, and what it grants at the least.
const AMPLE: usize = 1;
pub(crate) const AMPLE_TIMEOUT: Duration = Duration::from_secs(12);
/// How long a question may take.
const ANSWER: Duration = Duration::from_secs(2);

/// How long a session for an operator may take, if nothing else is bounded by that: new servers are slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// An operator's session outlives what it looks at.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(20);

/// The ensemble, and which of its servers are in trouble.
pub(crate) struct Servers {
    pub(crate) ensemble: Ensemble,
    troubled: [Arc<Mutex<()>>; SERVERS],
}

/// A server that is in trouble until this is dropped: one at a time.
pub(crate) struct Trouble {
    pub(crate) server: usize,
    _troubled: OwnedMutexGuard<()>,
}

impl Servers {
    pub(crate) async fn start(for_programs: bool) -> anyhow::Result<Arc<Self>> {
        let least = if for_programs { AMPLE_TIMEOUT } else { 2 * TICK };
        let most = if for_programs { LESSER_OF_PROGRAMS } else { LESSER_TIMEOUT };
        let ensemble = Ensemble::builder(SERVERS)
            .tick_time(TICK)
            .property("syncLimit", SYNC_LIMIT.to_string())
            .property_of(AMPLE, "minSessionTimeout", least.as_millis().to_string())
            .property_of(LESSER, "maxSessionTimeout", most.as_millis().to_string());
        let ensemble = ensemble.start().await.context("cannot start an ensemble")?;
        Ok(Arc::new(Self { ensemble, troubled: Default::default() }))
    }

    /// Reserves a server for a fault, unless it is in trouble already.
    pub(crate) fn reserve(&self, server: usize) -> Option<Trouble> {
        let troubled = self.troubled.get(server)?.clone().try_lock_owned().ok()?;
        Some(Trouble { server, _troubled: troubled })
    }

    pub(crate) async fn leader(&self) -> Option<usize> {
        timeout(ANSWER, self.ensemble.leader()).await.ok()?.ok()
    }

    /// The server that this session is connected to, as far as the servers say.
    pub(crate) async fn of_session(&self, session: i64) -> Option<usize> {
        for server in 0..SERVERS {
            let asked = timeout(ANSWER, self.ensemble.admin(server, "cons")).await;
            if asked.is_ok_and(|asked| asked.is_ok_and(|it| it.contains(&format!("sid={session:#x},")))) {
                return Some(server);
            }
        }
        None
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

    pub(crate) async fn operator(&self) -> anyhow::Result<Client> {
        operator_of(&self.ensemble.connect_string()).await
    }

    /// An operator for each server, which asks that server only.
    pub(crate) async fn operators(&self) -> anyhow::Result<Vec<Client>> {
        let addresses = (0..SERVERS).map(|server| self.ensemble.address(server));
        try_join_all(addresses.map(async |address| operator_of(&address).await)).await
    }

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
            figures.push(number(&self.ensemble.admin(server, word).await?, key));
        }
        Ok(figures)
    }
}

async fn operator_of(servers: &str) -> anyhow::Result<Client> {
    let connector = Client::connector().with_session_timeout(OPERATOR_TIMEOUT);
    let connected = timeout(PATIENCE, connector.connect(servers)).await;
    connected.context("no session for an operator")?.context("no session for an operator")
}

/// What contenders have on the servers, and which servers have it. The operators are those of the servers, in order.
pub(crate) async fn left(operators: &[Client], member: Member) -> Result<Vec<Left>, Error> {
    let locks = rules(member).locks;
    Ok(compared(try_join_all(operators.iter().map(|operator| view(operator, member, locks))).await?))
}

/// The nodes that some server shows, each once, with the servers that show it.
fn compared(views: Vec<Vec<Node>>) -> Vec<Left> {
    let mut left = BTreeMap::<(String, i64), Left>::new();
    for (server, nodes) in views.into_iter().enumerate() {
        for Node { path, session, czxid, who, .. } in nodes {
            let new = Left { path: path.clone(), session, who, servers: Vec::new(), is_everywhere: false };
            let left = left.entry((path, czxid)).or_insert(new);
            left.servers.push(server);
            left.is_everywhere = left.servers.len() == SERVERS;
        }
    }
    left.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(path: &str, czxid: i64) -> Node {
        Node { path: path.to_owned(), session: 1, czxid, who: None }
    }

    #[test]
    fn a_node_is_left_on_the_servers_that_show_it() {
        let (all, one, again) = (node("/a", 1), node("/b", 2), node("/b", 3));
        let left = compared(vec![vec![all.clone()], vec![all.clone(), one], vec![all, again]]);
        let left: Vec<_> = left.iter().map(|left| (left.path.as_str(), left.servers.as_slice())).collect();
        assert_eq!(left, [("/a", &[0, 1, 2][..]), ("/b", &[1]), ("/b", &[2])]);
    }
}
