//! The contenders in a lock's queue.

use std::time::SystemTime;

use zklock_recipe::{Child, Foreign, ForeignClient, Kind};

use crate::fence::FencingToken;
use crate::layout::Layout;
use crate::node::NodeData;
use crate::path::name_of;
use crate::requests::QueueNode;
use crate::settings::Settings;

/// One contender in a lock's queue, as [`Lock::contenders`](crate::Lock::contenders) saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// The contender's place in the queue, which begins with 0.
    pub position: usize,
    /// Whether the contender is exclusive (a lock, a writer) or shared (a reader).
    pub kind: Kind,
    /// Whether the contender holds the lock, or is about to. That is the first one in the queue; and each reader that no
    /// writer is in front of.
    pub holds: bool,
    /// The path of the contender's node.
    pub path: String,
    /// The other client that the contender belongs to, by its node's name, in a queue that is [shared](Layout); `None` if it is
    /// zklock's.
    pub client: Option<ForeignClient>,
    /// The number that the server gave the node. The lowest number in the queue goes first.
    pub number: i32,
    /// The contender's owner text; `None` if this session may not read the node, or if its data is not zklock's.
    pub owner: Option<String>,
    /// The contender's extra data, if it has any.
    pub data: Option<String>,
    /// When the contender entered the queue, by the wall clock of its own machine.
    pub since: Option<SystemTime>,
    /// When its node was created, by the wall clock of the leader at that time. If it is far from `since`, one of the two clocks
    /// is wrong. `None` if this session may not read the node.
    pub created: Option<SystemTime>,
    /// The id of the contender's ZooKeeper session; `None` if this session may not read the node.
    pub session: Option<i64>,
    /// The fencing token that the contender has, or will have, as the holder, except for its turn: a process that passes the lock
    /// on between its tasks has later turns. `None` if this session may not read the node.
    pub token: Option<FencingToken>,
}

/// A contender of another client in a lock's directory, as [`Lock::foreign_contenders`](crate::Lock::foreign_contenders) saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignContender {
    /// The path of the contender's node.
    pub path: String,
    /// The client that the node's name points to.
    pub client: ForeignClient,
    /// The layout with which zklock contends in that client's queue; `None` if it has none. If the client is
    /// [`Zklock`](ForeignClient::Zklock), this is that contender's layout.
    pub layout: Option<Layout>,
    /// The id of the contender's ZooKeeper session; `None` if this session may not read the node, or if the node is not
    /// ephemeral.
    pub session: Option<i64>,
}

impl Contender {
    pub(crate) fn new(position: usize, holds: bool, node: QueueNode) -> Self {
        let data = node.seen.as_ref().and_then(|seen| seen.data.clone());
        let client = match (node.place.kind, Child::of(name_of(&node.path))) {
            (Kind::Exclusive | Kind::Shared, Child::Suspect(client)) => Some(client),
            _ => None,
        };
        Self {
            position,
            kind: node.place.kind,
            holds,
            path: node.path,
            client: client.filter(|client| *client != ForeignClient::Zklock),
            number: node.place.sequence.0,
            since: data.as_ref().and_then(NodeData::since),
            owner: data.as_ref().map(|data| data.owner.clone()),
            data: data.and_then(|data| data.data),
            created: node.seen.as_ref().and_then(|seen| seen.created),
            session: node.seen.as_ref().map(|seen| seen.session),
            token: node.seen.map(|seen| FencingToken::new(seen.czxid)),
        }
    }

    /// Makes the queue of these nodes, which are in its order.
    pub(crate) fn queue(nodes: Vec<QueueNode>) -> Vec<Self> {
        let readers = nodes.iter().take_while(|node| node.place.kind == Kind::Shared).count();
        let contender =
            |(position, node): (usize, QueueNode)| Self::new(position, position < readers.max(1), node);
        nodes.into_iter().enumerate().map(contender).collect()
    }
}

impl ForeignContender {
    pub(crate) fn new(lock: &Settings, foreign: Foreign) -> Self {
        let Foreign { name, client, session } = foreign;
        let layout = zklock_recipe::QueueLayout::of(&name).map(Layout::of);
        Self { path: lock.queue.path.of_child(&name), client, layout, session }
    }
}
