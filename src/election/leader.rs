//! The leader, as its announcement shows it.

use std::time::SystemTime;

use super::requests::Announced;
use crate::fence::FencingToken;

/// The leader of an election, as its announcement shows it; see [`Election::leader`](crate::Election::leader).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The value that the leader announces.
    pub value: String,
    /// The leader's fencing token.
    pub token: FencingToken,
    /// The leader's owner text; see [`LockOptions::owner`](crate::LockOptions::owner).
    pub owner: String,
    /// When the leader announced this value, by the wall clock of its own machine; `None` if it is too late for this machine to represent.
    pub since: Option<SystemTime>,
    /// The id of the leader's ZooKeeper session.
    pub session: i64,
}

impl Leader {
    pub(super) fn new(announced: Announced) -> Self {
        let Announced { data, session } = announced;
        Self {
            since: data.since(),
            token: FencingToken::new(data.token),
            value: data.value,
            owner: data.owner,
            session,
        }
    }
}
