//! Looks for locks in a tree of nodes.

use std::sync::Arc;

use zklock_recipe::{Event, Sequence};
use zookeeper_client::{Client, Error};

use super::foreign::{self, judge};
use super::read::{Node, Seen};
use super::reply::failure;

/// What a look at a node showed.
pub(crate) enum Branch {
    /// The node exists, and this session may list it.
    Listed {
        /// The contender that holds the lock of this directory, if any.
        holder: Option<Holding>,
        /// The names of all children that are no contenders.
        children: Vec<String>,
    },
    /// The node is a contender of another client.
    Foreign,
    /// This session may not list the node.
    Hidden,
    /// The node does not exist.
    Gone,
}

/// The contender that holds the lock of a directory.
pub(crate) struct Holding {
    pub(crate) node: Node,
    /// How many contenders wait behind it.
    pub(crate) waiting: usize,
    /// Whether the node only looks like zklock's.
    pub(crate) is_lookalike: bool,
}

/// Whether a node at this path, if it is ephemeral, is a contender of another client.
pub(crate) fn is_suspect(path: &str) -> bool {
    foreign::is_suspect(name(path))
}

/// Looks at one node. Contenders have no children, so it does not list them.
pub(crate) async fn branch(client: Arc<Client>, path: String) -> Result<Branch, Event> {
    let (names, stat) = match client.get_children(&path).await {
        Ok(listed) => listed,
        Err(Error::NoNode) => return Ok(Branch::Gone),
        Err(Error::NoAuth) => return Ok(Branch::Hidden),
        Err(error) => return Err(failure(error)),
    };
    if is_suspect(&path) && zklock_recipe::session(stat.ephemeral_owner).is_some() {
        return Ok(Branch::Foreign);
    }
    let (mut contenders, mut children) = (Vec::new(), Vec::new());
    for name in names {
        match Sequence::parse(&name) {
            Some(sequence) => contenders.push(sequence),
            None => children.push(name),
        }
    }
    contenders.sort_unstable();
    Ok(Branch::Listed { holder: first(&client, &path, &contenders).await?, children })
}

/// Returns the first of these contenders that still exists.
async fn first(client: &Client, path: &str, contenders: &[Sequence]) -> Result<Option<Holding>, Event> {
    for (gone, sequence) in contenders.iter().enumerate() {
        let (seen, is_lookalike) =
            match client.get_data(&format!("{}/{sequence}", path.trim_end_matches('/'))).await {
                Ok((data, stat)) => {
                    let is_lookalike = judge(&sequence.name(), Some((&data, &stat))).is_some();
                    (Some(Seen::new(&data, &stat)), is_lookalike)
                }
                Err(Error::NoAuth) => (None, false),
                Err(Error::NoNode) => continue,
                Err(error) => return Err(failure(error)),
            };
        let node = Node { sequence: *sequence, seen };
        return Ok(Some(Holding { node, waiting: contenders.len() - gone - 1, is_lookalike }));
    }
    Ok(None)
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}
