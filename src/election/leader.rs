//! The leader, as its announcement shows it, or as its contender's node does.

use std::time::SystemTime;

use crate::fence::FencingToken;
use crate::node::NodeData;
use crate::requests::{Announced, Node};

/// The leader of an election, as its announcement shows it; see [`Election::leader`](crate::Election::leader).
///
/// In a [layout](crate::Layout) it is the first contender in the queue, of either client, as its node shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The value that the leader announces. Of a leader of another client, all that its node has: an id that Curator's user has
    /// set, or else an address of its host, and nothing of a `LeaderLatch` without an id; kazoo's identifier.
    pub value: String,
    /// The leader's fencing token.
    pub token: FencingToken,
    /// The leader's owner text; see [`LockOptions::owner`](crate::LockOptions::owner). It is empty if the leader is another client's.
    pub owner: String,
    /// When the leader announced this value, by the wall clock of its own machine. In a layout, when it came as a candidate; `None`
    /// if the leader is another client's.
    pub since: Option<SystemTime>,
    /// The id of the leader's ZooKeeper session; 0 if a leader of kazoo's has a node that is not ephemeral.
    pub session: i64,
}

impl Leader {
    pub(super) fn new(announced: Announced) -> Self {
        let Announced { data, session, zxid: _ } = announced;
        Self {
            since: data.since(),
            token: FencingToken::new(data.token),
            value: data.value,
            owner: data.owner,
            session,
        }
    }

    /// Makes the leader of a contender; `None` if this session may not read its node.
    pub(super) fn of_contender(node: Node) -> Option<Self> {
        let seen = node.seen?;
        Some(Self {
            value: seen.text,
            token: FencingToken::new(seen.czxid),
            since: seen.data.as_ref().and_then(NodeData::since),
            owner: seen.data.map(|data| data.owner).unwrap_or_default(),
            session: seen.session,
        })
    }
}
