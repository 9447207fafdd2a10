//! The search for locks in a tree of nodes.

use std::collections::HashMap;

use futures::stream::{self, StreamExt};
use serde::Serialize;
use zklock::recipe::{self, Child, Sequence};
use zookeeper_client::{Client, Error};

use crate::failure::Failure;
use crate::queue::Entry;
use crate::text;

/// How many nodes are read at once: enough to hide the round trips, and little for a server.
const IN_FLIGHT: usize = 64;

/// The servers' own nodes. No lock can be there.
const RESERVED: &str = "/zookeeper";

/// A lock that somebody holds.
#[derive(Serialize)]
pub(super) struct Held {
    pub(super) path: String,
    pub(super) holder: Entry,
    /// How many wait behind the holder.
    pub(super) waiting: usize,
    /// How many contenders of other clients are in the directory.
    pub(super) foreign: usize,
}

/// The result of the search.
pub(super) struct Walk {
    /// Whether the root exists.
    pub(super) exists: bool,
    /// In the order of their paths.
    pub(super) locks: Vec<Held>,
    /// How many nodes an ACL hides.
    pub(super) hidden: usize,
}

/// One node.
enum Node {
    Listed {
        lock: Option<Box<Held>>,
        children: Vec<String>,
    },
    /// A contender of another client.
    Stranger,
    Hidden,
    Gone,
}

/// Looks at the root and at every node below it. Nodes that are deleted meanwhile are left out.
pub(super) async fn below(client: &Client, root: &str) -> Result<Walk, Failure> {
    if is_reserved(client, root) {
        let problem = "belongs to the servers, and no lock is there; use another root";
        return Err(Failure::usage(format_args!("{root} {problem}")));
    }
    let mut walk = Walk { exists: true, locks: Vec::new(), hidden: 0 };
    let mut strangers = HashMap::<String, usize>::new();
    let mut children = match look(client, root).await? {
        Node::Listed { lock, children } => {
            walk.locks.extend(lock.map(|lock| *lock));
            children
        }
        Node::Hidden => return Err(failure(&format!("listing {root}"), Error::NoAuth)),
        Node::Stranger => Vec::new(),
        Node::Gone => return Ok(Walk { exists: false, ..walk }),
    };
    while !children.is_empty() {
        let nodes = children.drain(..).filter(|path| !is_reserved(client, path)).collect::<Vec<_>>();
        let look = async |path: String| (look(client, &path).await, path);
        let mut looks = stream::iter(nodes).map(look).buffer_unordered(IN_FLIGHT);
        while let Some((node, path)) = looks.next().await {
            let node = node?;
            // A contender that an ACL hides keeps zklock out as well.
            if matches!(node, Node::Stranger) || matches!(node, Node::Hidden) && is_suspect(&path) {
                *strangers.entry(parent(&path).to_owned()).or_default() += 1;
            }
            match node {
                Node::Listed { lock, children: more } => {
                    walk.locks.extend(lock.map(|lock| *lock));
                    children.extend(more);
                }
                Node::Hidden => walk.hidden += 1,
                Node::Stranger | Node::Gone => {}
            }
        }
    }
    for lock in &mut walk.locks {
        lock.foreign += strangers.get(&lock.path).copied().unwrap_or_default();
    }
    walk.locks.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(walk)
}

/// Reads one node: the lock if it is a lock's directory, and its other children. Contenders have no children.
async fn look(client: &Client, path: &str) -> Result<Node, Failure> {
    let (names, stat) = match client.get_children(path).await {
        Ok(listed) => listed,
        Err(Error::NoNode) => return Ok(Node::Gone),
        Err(Error::NoAuth) => return Ok(Node::Hidden),
        Err(error) => return Err(failure(&format!("listing {path}"), error)),
    };
    if is_suspect(path) && recipe::session(stat.ephemeral_owner).is_some() {
        return Ok(Node::Stranger);
    }
    let (mut contenders, mut children) = (Vec::new(), Vec::new());
    for name in names {
        match Sequence::parse(&name) {
            Some(sequence) => contenders.push(sequence),
            None => children.push(join(path, &name)),
        }
    }
    contenders.sort_unstable();
    Ok(Node::Listed { lock: first(client, path, &contenders).await?.map(Box::new), children })
}

/// The lock of these contenders, if one of them still exists.
async fn first(client: &Client, path: &str, contenders: &[Sequence]) -> Result<Option<Held>, Failure> {
    for (gone, sequence) in contenders.iter().enumerate() {
        let node = join(path, &sequence.name());
        let read = match client.get_data(&node).await {
            Ok(read) => Some(read),
            Err(Error::NoAuth) => None,
            Err(Error::NoNode) => continue,
            Err(error) => return Err(failure(&format!("reading {node}"), error)),
        };
        let waiting = contenders.len() - gone - 1;
        let is_as_created = read.as_ref().is_some_and(|(_, stat)| stat.version == 0);
        let holder = Entry::first(node, *sequence, read);
        let foreign = usize::from(is_as_created && holder.owner.is_none());
        return Ok(Some(Held { path: path.to_owned(), holder, waiting, foreign }));
    }
    Ok(None)
}

/// Whether the node is a contender of another client, if it is ephemeral.
fn is_suspect(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    matches!(Child::of(name), Child::Suspect(_))
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty()).unwrap_or("/")
}

fn join(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

fn is_reserved(client: &Client, path: &str) -> bool {
    let absolute = format!("{}{path}", client.path().trim_end_matches('/'));
    absolute.strip_prefix(RESERVED).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn failure(doing: &str, error: Error) -> Failure {
    let plain = Failure::from(error);
    Failure::new(plain.code, format_args!("{}: {plain}", text::harmless(doing)))
}
