//! The locks below a node.

use std::collections::HashMap;

use futures::stream::{self, StreamExt};

use crate::lock::contender::Contender;
use crate::lock::error::QueryError;
use crate::lock::query::query;
use crate::path::{PathProblem, check_node};
use crate::requests::{Branch, Holding, branch, is_suspect};
use crate::zk::Succession;

/// How many nodes are looked at at once: enough to hide the round trips, and little for a server.
const IN_FLIGHT: usize = 64;

/// The servers' own nodes, among which no lock can be.
const RESERVED: &str = "/zookeeper";

/// What is below a node, as [`Session::locks_below`](crate::Session::locks_below) saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocksBelow {
    /// Whether the node exists.
    pub exists: bool,
    /// The locks that somebody holds, in the order of their paths.
    pub locks: Vec<HeldLock>,
    /// How many nodes this session may not list. Locks below them are not found.
    pub hidden: usize,
}

/// A lock that somebody holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldLock {
    /// Its path.
    pub path: String,
    /// Its holder, or who is about to be.
    pub holder: Contender,
    /// How many wait behind the holder.
    pub waiting: usize,
    /// How many contenders of other clients are in its directory. They keep everybody from acquiring the lock.
    pub foreign: usize,
}

/// Looks at the root, and at all below it. What goes meanwhile is left out.
pub(super) async fn below(succession: &Succession, root: &str) -> Result<LocksBelow, QueryError> {
    let problem =
        check_node(root).err().or_else(|| is_reserved(succession, root).then_some(PathProblem::Reserved));
    if let Some(problem) = problem {
        return Err(QueryError::Path { path: root.to_owned(), problem });
    }
    let mut walk = LocksBelow { exists: true, locks: Vec::new(), hidden: 0 };
    let mut foreign = HashMap::<String, usize>::new();
    let mut paths = vec![root.to_owned()];
    while !paths.is_empty() {
        let nodes = paths.drain(..).filter(|path| !is_reserved(succession, path)).collect::<Vec<_>>();
        let look = async |path: String| (look(succession, &path).await, path);
        let mut looks = stream::iter(nodes).map(look).buffer_unordered(IN_FLIGHT);
        while let Some((node, path)) = looks.next().await {
            let node = node?;
            // A node that is not ours to read keeps zklock out, too.
            if matches!(node, Branch::Foreign) || matches!(node, Branch::Hidden) && is_suspect(&path) {
                *foreign.entry(parent(&path).to_owned()).or_default() += 1;
            }
            match node {
                Branch::Hidden if path == root => return Err(QueryError::NotAuthorized { path }),
                Branch::Gone if path == root => walk.exists = false,
                Branch::Hidden => walk.hidden += 1,
                Branch::Foreign | Branch::Gone => {}
                Branch::Listed { holder, children } => {
                    paths.extend(children.iter().map(|name| join(&path, name)));
                    walk.locks.extend(holder.map(|holder| held(path, holder)));
                }
            }
        }
    }
    for lock in &mut walk.locks {
        lock.foreign += foreign.get(&lock.path).copied().unwrap_or_default();
    }
    walk.locks.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(walk)
}

async fn look(succession: &Succession, path: &str) -> Result<Branch, QueryError> {
    let node = path.to_owned();
    query(succession, path, |wire| branch(wire.client, node)).await
}

fn held(path: String, holder: Holding) -> HeldLock {
    let Holding { node, waiting, is_lookalike } = holder;
    let holder = Contender::new(0, join(&path, &node.sequence.name()), node);
    HeldLock { path, holder, waiting, foreign: usize::from(is_lookalike) }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty()).unwrap_or("/")
}

fn join(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

fn is_reserved(succession: &Succession, path: &str) -> bool {
    let absolute = format!("{}{path}", succession.present().chroot());
    absolute.strip_prefix(RESERVED).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
