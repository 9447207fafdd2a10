//! Who is in a lock's queue.

use std::time::SystemTime;

use zklock_recipe::ForeignClient;

use crate::fence::FencingToken;
use crate::node::NodeData;
use crate::requests::Node;

/// One contender in a lock's queue, as [`Lock::contenders`](crate::Lock::contenders) saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// Its place in the queue: 0 holds the lock, or is about to.
    pub position: usize,
    /// Its node's path.
    pub path: String,
    /// The number that the server gave it: a lower one goes first.
    pub number: i32,
    /// Its owner text; `None` if the node's data is not ours to read, or not zklock's.
    pub owner: Option<String>,
    /// Its extra data, if it has any.
    pub data: Option<String>,
    /// When it began to contend, by its own wall clock.
    pub since: Option<SystemTime>,
    /// The id of its ZooKeeper session; `None` if the node is not ours to read.
    pub session: Option<i64>,
    /// The fencing token it has, or will have, as the holder; `None` if the node is not ours to read.
    pub token: Option<FencingToken>,
}

/// A contender of another client in a lock's directory, as [`Lock::foreign_contenders`](crate::Lock::foreign_contenders) saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignContender {
    /// Its node's path.
    pub path: String,
    /// Whose it seems to be, by its name.
    pub client: ForeignClient,
    /// The id of its ZooKeeper session; `None` if the node is not ours to read, or not ephemeral.
    pub session: Option<i64>,
}

impl Contender {
    /// From its node at this path.
    pub(crate) fn new(position: usize, path: String, node: Node) -> Self {
        let data = node.seen.as_ref().and_then(|seen| seen.data.clone());
        Self {
            position,
            path,
            number: node.sequence.0,
            since: data.as_ref().and_then(NodeData::since),
            owner: data.as_ref().map(|data| data.owner.clone()),
            data: data.and_then(|data| data.data),
            session: node.seen.as_ref().map(|seen| seen.session),
            token: node.seen.map(|seen| FencingToken::new(seen.czxid)),
        }
    }
}
