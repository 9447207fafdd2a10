//! Walking a tree of nodes for locks.

use futures::stream::{self, StreamExt};
use serde::Serialize;
use zklock::recipe::Sequence;
use zookeeper_client::{Client, Error};

use crate::exit::Failure;
use crate::queue::Entry;
use crate::text;

/// How many nodes are looked at at once: enough to hide the round trips, and little for a server.
const IN_FLIGHT: usize = 64;

/// The servers' own nodes, among which no lock can be.
const RESERVED: &str = "/zookeeper";

/// A lock that somebody holds.
#[derive(Serialize)]
pub(super) struct Held {
    pub(super) path: String,
    pub(super) holder: Entry,
    /// How many wait behind the holder.
    pub(super) waiting: usize,
}

/// What was found.
pub(super) struct Walk {
    /// Whether there was a root to begin at.
    pub(super) exists: bool,
    /// In the order of their paths.
    pub(super) locks: Vec<Held>,
    /// How many nodes may not be listed by us.
    pub(super) hidden: usize,
}

/// What one node turned out to be.
enum Node {
    Listed { lock: Option<Held>, children: Vec<String> },
    Hidden,
    Gone,
}

/// Looks at the root, and at all below it. What goes meanwhile is left out.
pub(super) async fn below(client: &Client, root: &str) -> Result<Walk, Failure> {
    if is_reserved(client, root) {
        let problem = "belongs to the servers, and no lock is there; use another root";
        return Err(Failure::usage(format_args!("{root} {problem}")));
    }
    let mut walk = Walk { exists: true, locks: Vec::new(), hidden: 0 };
    let mut children = match look(client, root.to_owned()).await? {
        Node::Listed { lock, children } => {
            walk.locks.extend(lock);
            children
        }
        Node::Hidden => return Err(failure(&format!("listing {root}"), Error::NoAuth)),
        Node::Gone => return Ok(Walk { exists: false, ..walk }),
    };
    while !children.is_empty() {
        let nodes = children.drain(..).filter(|path| !is_reserved(client, path)).collect::<Vec<_>>();
        let mut looks = stream::iter(nodes).map(|path| look(client, path)).buffer_unordered(IN_FLIGHT);
        while let Some(node) = looks.next().await {
            match node? {
                Node::Listed { lock, children: more } => {
                    walk.locks.extend(lock);
                    children.extend(more);
                }
                Node::Hidden => walk.hidden += 1,
                Node::Gone => {}
            }
        }
    }
    walk.locks.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(walk)
}

/// Looks at one node: whether it is a lock's directory, and what else is in it. Contenders have no children.
async fn look(client: &Client, path: String) -> Result<Node, Failure> {
    let names = match client.list_children(&path).await {
        Ok(names) => names,
        Err(Error::NoNode) => return Ok(Node::Gone),
        Err(Error::NoAuth) => return Ok(Node::Hidden),
        Err(error) => return Err(failure(&format!("listing {path}"), error)),
    };
    let (mut contenders, mut children) = (Vec::new(), Vec::new());
    for name in names {
        match Sequence::parse(&name) {
            Some(sequence) => contenders.push(sequence),
            None => children.push(join(&path, &name)),
        }
    }
    contenders.sort_unstable();
    Ok(Node::Listed { lock: first(client, path, &contenders).await?, children })
}

/// The lock of these contenders, if one of them is still there.
async fn first(client: &Client, path: String, contenders: &[Sequence]) -> Result<Option<Held>, Failure> {
    for (gone, sequence) in contenders.iter().enumerate() {
        let node = join(&path, &sequence.name());
        let read = match client.get_data(&node).await {
            Ok(read) => Some(read),
            Err(Error::NoAuth) => None,
            Err(Error::NoNode) => continue,
            Err(error) => return Err(failure(&format!("reading {node}"), error)),
        };
        let waiting = contenders.len() - gone - 1;
        return Ok(Some(Held { path, holder: Entry::first(node, *sequence, read), waiting }));
    }
    Ok(None)
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
