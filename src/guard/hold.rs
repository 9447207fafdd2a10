//! A handle of a hold, for what accompanies the guard in the background.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::lost::{Lost, LostReason};
use super::operation::{Applied, Operation};
use super::transaction;
use super::transaction_error::TransactionError;
use super::turn::Turn;
use crate::requests::OwnNode;
use crate::zk::ZkSession;

/// A handle of a hold. Dropping it releases nothing: the hold ends with its [`Guard`](crate::Guard).
#[derive(Clone)]
pub(crate) struct Hold {
    turn: Arc<Turn>,
}

impl Hold {
    pub(super) fn new(turn: Arc<Turn>) -> Self {
        Self { turn }
    }

    /// The transaction that created the holder's node.
    pub(crate) fn czxid(&self) -> i64 {
        self.turn.held.czxid()
    }

    /// The holder's nodes, one in each queue.
    pub(crate) fn nodes(&self) -> &[OwnNode] {
        &self.turn.held.nodes
    }

    /// The session in which the lock is held.
    pub(crate) fn session(&self) -> &Arc<ZkSession> {
        self.turn.held.session()
    }

    /// From here on the node at this path goes with the holder's own one, which is the only one. Call it before the request that
    /// makes the node is sent. Once the lock is being released, none is sent any more.
    pub(crate) fn accompany(&self, path: String) {
        let mut driver = self.turn.held.driver.lock();
        driver.iter_mut().for_each(|driver| driver.accompany(path.clone()));
    }

    /// Whether the lock is held at this instant.
    pub(crate) fn check(&self) -> Result<(), Lost> {
        self.turn.check()
    }

    /// Resolves once the guard is lost. The stop margin does not count.
    pub(crate) fn lost(&self) -> impl Future<Output = LostReason> + Send + Sync + 'static + use<> {
        self.turn.clone().lost(Duration::ZERO)
    }

    /// The loss, for this reason unless another one came first.
    pub(crate) fn lost_for(&self, reason: LostReason) -> Lost {
        self.turn.held.as_lost(reason)
    }

    /// Sends a transaction that takes effect only while the lock is held. The operations are not checked.
    pub(crate) async fn write(&self, operations: Vec<Operation>) -> Result<Vec<Applied>, TransactionError> {
        transaction::send(&self.turn, operations).await
    }
}
