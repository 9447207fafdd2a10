//! Scans: looks at ZooKeeper, one at a time, and after the first one only if somebody asks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join, join_all};
use futures::stream::{self, StreamExt, TryStreamExt};
use rustls::ClientConfig;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};
use zklock::inspect::{Cut, HeldLock, HeldPool};
use zklock::session::ServerAddress;
use zklock::{QueryError, Session};

use crate::args::Export;
use crate::connection::Connection;
use crate::console::Console;
use crate::election::{IN_FLIGHT, LedElection};
use crate::exit::Code;
use crate::failure::Failure;
use crate::servers::{Words, ask_srvr};

/// How long a scrape waits for a scan. Prometheus waits for 10 s by default.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long a server may take to answer a four-letter word.
const WORD: Duration = Duration::from_secs(2);

pub(super) struct Scan {
    pub(super) ended: Instant,
    pub(super) took: Duration,
    /// Until when this scan is the answer to scrapes.
    young_until: Instant,
    pub(super) servers: Vec<ServerAnswer>,
    /// `None` if ZooKeeper did not answer.
    pub(super) tree: Option<Tree>,
}

/// A server's answer to `srvr`, or why it cannot be reached, and how long that took.
pub(super) struct ServerAnswer {
    pub(super) address: ServerAddress,
    pub(super) words: Result<Words, String>,
    pub(super) took: Duration,
}

/// What is held, by its path.
#[derive(Default)]
pub(super) struct Tree {
    /// Each root, and whether it exists and these credentials may list it.
    pub(super) roots: Vec<(String, bool)>,
    pub(super) locks: BTreeMap<String, HeldLock>,
    pub(super) pools: BTreeMap<String, HeldPool>,
    pub(super) elections: Vec<LedElection>,
    pub(super) hidden: usize,
    pub(super) read: usize,
    /// Whether more is held than --max-locks, and whether there are more nodes than --max-nodes.
    pub(super) cut: [bool; 2],
}

impl Tree {
    /// Whether the scan ended at a bound, so that some is missing.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.contains(&true)
    }
}

/// The latest scan, and the wish for another one, which [`keep_scanning`] fulfils.
pub(super) struct Scans {
    ask: Notify,
    latest: watch::Sender<Option<Arc<Scan>>>,
}

impl Scans {
    pub(super) fn new() -> Arc<Self> {
        let scans = Self { ask: Notify::new(), latest: watch::Sender::new(None) };
        // The first scan is nobody's, and shows what is wrong with the options.
        scans.ask.notify_one();
        Arc::new(scans)
    }

    /// The latest scan; and if that is old, the next one, unless it takes too long. `None` if no scan has ended yet.
    pub(super) async fn young_scan(&self) -> Option<Arc<Scan>> {
        let mut latest = self.latest.subscribe();
        let known = latest.borrow_and_update().clone();
        if known.as_ref().is_none_or(|scan| Instant::now() >= scan.young_until) {
            self.ask.notify_one();
            let _late = timeout(PATIENCE, latest.changed()).await;
        }
        latest.borrow().clone()
    }
}

/// Scans whenever somebody asks. After a scan it rests for --min-interval, and for as long as the scan took. It returns only if the
/// options cannot be used. It leaves its session behind.
pub(super) async fn keep_scanning(
    wish: &Export,
    connection: &Connection,
    addresses: Vec<ServerAddress>,
    session: &mut Option<Session>,
    scans: &Scans,
    console: Console,
) -> Failure {
    if let Err(failure) = connection.tls() {
        return failure;
    }
    let mut was_up = true;
    loop {
        scans.ask.notified().await;
        let began = Instant::now();
        let tls = connection.tls().ok().flatten().map(|tls| tls.config);
        let asked_each = join_all(addresses.iter().map(|address| ask_server(tls.as_ref(), address)));
        let (servers, tree) = join(asked_each, scan_tree(session, wish, connection)).await;
        let is_up = tree.is_ok();
        let tree = match tree {
            Ok(tree) => Some(tree),
            Err(failure) if failure.code == Code::Usage => return failure,
            Err(failure) => {
                if was_up {
                    let failure = connection.with_tls_failures(failure).await;
                    console.warn(format_args!("{failure}; zklock tries again at each scrape"));
                }
                None
            }
        };
        if is_up {
            // The next silence is told again.
            let _told_below = connection.silence.take_told();
        }
        if is_up && !was_up {
            console.note("ZooKeeper answers again");
        }
        was_up = is_up;
        let ended = Instant::now();
        let took = began.elapsed();
        let young_until = ended + wish.min_interval.max(took);
        scans.latest.send_replace(Some(Arc::new(Scan { ended, took, young_until, servers, tree })));
        sleep_until(young_until).await;
    }
}

/// The roots that are not below another one: nothing is read, or counted, twice.
fn outermost(roots: &[String]) -> impl Iterator<Item = &String> {
    let is_below = |path: &str, root: &str| {
        path.strip_prefix(root.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
    };
    roots
        .iter()
        .enumerate()
        .filter(move |(index, path)| {
            !roots[..*index].contains(path) && !roots.iter().any(|root| root != *path && is_below(path, root))
        })
        .map(|(_, path)| path)
}

async fn ask_server(tls: Option<&Arc<ClientConfig>>, address: &ServerAddress) -> ServerAnswer {
    let began = Instant::now();
    let words = ask_srvr(tls, address, began + WORD).await;
    ServerAnswer { address: address.clone(), words, took: began.elapsed() }
}

/// Looks at the tree, in the open session. It opens one if there is none, or if the last one is over for good.
async fn scan_tree(
    session: &mut Option<Session>,
    wish: &Export,
    connection: &Connection,
) -> Result<Tree, Failure> {
    let open = session.take().filter(|session| !session.state().is_final());
    let session = session.insert(match open {
        Some(open) => open,
        None => connection.session_to_look().await?,
    });
    let mut tree = Tree::default();
    let bound = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    for root in outermost(&wish.roots) {
        let room = bound(wish.max_locks).saturating_sub(tree.locks.len() + tree.pools.len());
        let reads = bound(wish.max_nodes).saturating_sub(tree.read);
        if reads == 0 {
            // Nothing is said of the ROOTs that are left.
            tree.cut[1] = true;
            break;
        }
        let below = match session.locks_below_up_to(root, room, reads).await {
            Err(QueryError::NotAuthorized { .. }) => {
                tree.read += 1;
                tree.roots.push((root.clone(), false));
                continue;
            }
            below => below?,
        };
        tree.roots.push((root.clone(), below.exists));
        tree.hidden += below.hidden;
        tree.read += below.read;
        tree.cut[0] |= below.cut == Some(Cut::Found);
        tree.cut[1] |= below.cut == Some(Cut::Read);
        tree.locks.extend(below.locks.into_iter().map(|lock| (lock.path.clone(), lock)));
        tree.pools.extend(below.pools.into_iter().map(|pool| (pool.path.clone(), pool)));
    }
    let elections = stream::iter(tree.locks.keys()).map(|path| LedElection::of_queue(session, path));
    let elections = elections.buffered(IN_FLIGHT).try_collect::<Vec<_>>().await?;
    tree.elections = elections.into_iter().flatten().collect();
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_below_another_one_is_not_scanned_again() {
        let remaining = |roots: &[&str]| {
            let roots = roots.iter().map(|root| (*root).to_owned()).collect::<Vec<_>>();
            outermost(&roots).cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(remaining(&["/lock", "/lock/a", "/lock"]), "/lock");
        assert_eq!(remaining(&["/lock", "/locks", "/feed"]), "/lock /locks /feed");
        assert_eq!(remaining(&["/lock", "/"]), "/");
    }
}
