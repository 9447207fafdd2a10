//! Transactions that ZooKeeper commits only while a lock is held.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use tracing::debug;
use zklock_recipe::acquisition::Certainty;

use super::hold::turn::Turn;
use super::lost::LostReason;
use super::operation::{Applied, Node, NodeOperation, NodeOptions, validate};
use super::requests;
use super::transaction_error::TransactionError;
use crate::requests::Acknowledged;
use crate::wire::LinkAnswer;

/// A ZooKeeper transaction under a lock. It begins with a check of the holder's own node, and ZooKeeper commits it
/// whole or not at all. So it takes effect only while the lock is held, however long this process was paused before. It
/// is the only kind of write that needs no fencing token.
///
/// [`Guard::transaction`](crate::Guard::transaction) makes it. Paths are absolute and relative to the connect string's
/// chroot, as a lock's are. ZooKeeper accepts about 1 MiB in all, unless the servers' `jute.maxbuffer` says otherwise.
/// If a transaction is larger, the server ends the connection, and the transaction fails with
/// [`TransactionError::Unknown`].
///
/// If an operator deletes the lock's whole directory, its numbers start over. Then another contender may get the
/// holder's name, and the check, which knows only the name, would take that contender for the holder. So if the
/// holder's node was not seen on the present connection, the guard first looks at it
/// ([`Guard::verify`](crate::Guard::verify), one more round trip). A server notifies the holder of a later deletion,
/// except in the holder's first 40 ms. One gap remains: the time from that look, or until that notification arrives, to
/// the commit. If the connection breaks just when the transaction is handed to it, the gap lasts until the next
/// connection is there.
///
/// ```no_run
/// # async fn example(guard: zklock::Guard) -> Result<(), zklock::guard::TransactionError> {
/// use zklock::guard::NodeOptions;
///
/// let applied = guard
///     .transaction()
///     .set("/orders/42", "paid", Some(3))
///     .create_with("/log/entry-", "42 was paid", NodeOptions::new().sequential())
///     .commit()
///     .await?;
/// # drop(applied);
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction<'guard> {
    turn: &'guard Arc<Turn>,
    operations: Vec<NodeOperation>,
}

impl<'guard> Transaction<'guard> {
    pub(super) fn new(turn: &'guard Arc<Turn>) -> Self {
        Self { turn, operations: Vec::new() }
    }

    /// Creates a persistent node with an open ACL. The node's parent must exist, and the node must not.
    pub fn create(self, path: impl Into<String>, data: impl Into<Vec<u8>>) -> Self {
        self.create_with(path, data, NodeOptions::new())
    }

    /// Creates a node with options.
    pub fn create_with(
        self,
        path: impl Into<String>,
        data: impl Into<Vec<u8>>,
        options: NodeOptions,
    ) -> Self {
        self.apply(NodeOperation::Create(Node { options, ..Node::new(path, data) }))
    }

    /// Sets a node's data, if the node has this version. `None` stands for any version.
    pub fn set(self, path: impl Into<String>, data: impl Into<Vec<u8>>, version: Option<i32>) -> Self {
        self.apply(NodeOperation::Set(Node::new(path, data), version))
    }

    /// Deletes a node without children, if the node has this version. `None` stands for any version.
    pub fn delete(self, path: impl Into<String>, version: Option<i32>) -> Self {
        self.apply(NodeOperation::Delete(Node::new(path, []), version))
    }

    /// Checks that a node exists and has this version. `None` stands for any version. If the check fails, the
    /// transaction writes nothing. The session needs permission to read the node.
    pub fn check(self, path: impl Into<String>, version: Option<i32>) -> Self {
        self.apply(NodeOperation::Check(Node::new(path, []), version))
    }

    /// Adds an operation.
    pub(crate) fn apply(mut self, operation: NodeOperation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Sends the transaction, and returns once ZooKeeper has committed it. It returns the result of each operation, in
    /// the order in which you added them. It takes one round trip. Without operations the transaction only checks that
    /// the lock is held.
    ///
    /// The call returns at the latest when the guard's lease ends. Do not call it inside
    /// [`Guard::run`](crate::Guard::run): the [`Lost`](crate::Lost) of `run` says nothing about the write.
    ///
    /// # Errors
    ///
    /// See [`TransactionError`]. After every error but [`Unknown`](TransactionError::Unknown), nothing was written.
    ///
    /// # Cancel safety
    ///
    /// Not safe. If you drop the future after it was polled, you do not know whether ZooKeeper commits the transaction,
    /// as with [`TransactionError::Unknown`]. Dropping the future does not change the guard.
    pub async fn commit(self) -> Result<Vec<Applied>, TransactionError> {
        let Self { turn, operations } = self;
        for (index, operation) in operations.iter().enumerate() {
            let valid = turn.held.nodes.iter().try_for_each(|(lock, _)| validate(operation, lock));
            valid.map_err(|cause| TransactionError::Invalid {
                operation: index,
                path: operation.node().path.clone(),
                cause,
            })?;
        }
        if operations.iter().any(|operation| operation.node().options.ephemeral) {
            turn.held.session().will_own_nodes();
        }
        send(turn, operations).await
    }
}

/// Sends operations that were checked; as [`Transaction::commit`].
pub(crate) async fn send(
    turn: &Arc<Turn>,
    operations: Vec<NodeOperation>,
) -> Result<Vec<Applied>, TransactionError> {
    let held = &turn.held;
    // The connection may break again meanwhile. Each round takes a quorum's answer, so the lease bounds the loop.
    let connection = loop {
        match held.certainty() {
            Certainty::Seen(connection) => break connection,
            Certainty::Unsure => {
                debug!("a transaction waits until a quorum has shown the holder's nodes on this connection");
                turn.verify().await.map_err(TransactionError::Lost)?
            }
        }
    };
    turn.check().map_err(TransactionError::Lost)?;
    let lock = held.path.clone();
    let nodes = held.nodes().collect();
    // The transaction goes out on this connection and on no later one. Before a later connection is there, somebody
    // may delete our node, and another contender may get its name.
    let mut request = held
        .session()
        .requester
        .request_where(Some(connection), |wire| requests::commit(wire.client, lock, nodes, operations));
    // It is sent at its first poll. The end of the turn takes the same mutex first, so nothing is sent behind it. Until
    // the answer is definite, the servers may still commit the transaction, so the node stays with this turn.
    let sent = poll_fn(|cx| Poll::Ready(held.tie_unless_lost(turn.number, || request.poll_unpin(cx))));
    let answer = match sent.await {
        Some(Poll::Ready(answer)) => answer,
        Some(Poll::Pending) => answer(turn, request).await,
        None => return Err(TransactionError::Lost(turn.lost_for(LostReason::NodeDeleted))),
    };
    let outcome = match answer {
        LinkAnswer::Given(outcome, _) => outcome,
        LinkAnswer::Lost | LinkAnswer::Over(_) => {
            debug!("nobody knows whether a transaction was committed");
            return Err(TransactionError::Unknown { path: held.path.clone() });
        }
    };
    if !matches!(outcome, Err(Some(TransactionError::Unknown { .. }))) {
        held.untie();
    }
    outcome
        .map(|Acknowledged(applied)| applied)
        .map_err(|fault| fault.unwrap_or_else(|| TransactionError::Lost(held.touched())))
}

/// Waits for the answer to a transaction that was sent.
async fn answer<T>(turn: &Arc<Turn>, request: BoxFuture<'static, LinkAnswer<T>>) -> LinkAnswer<T> {
    // The stop margin does not count here: a holder that winds down still works.
    let over = pin!(turn.clone().lost(Duration::ZERO));
    // If the answer is there, it counts, whether or not the guard is lost.
    match select(request, over).await {
        Either::Left((answer, _)) => answer,
        // The notification of the deletion arrives before the answer, on the same connection. The answer follows a
        // moment later.
        Either::Right((LostReason::NodeDeleted, request)) => {
            let session = turn.held.session();
            let lapse = pin!(session.sleep(session.lease.remaining()));
            match select(request, lapse).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => LinkAnswer::Lost,
            }
        }
        // The client may have sent the transaction, or may still send it.
        Either::Right(_) => LinkAnswer::Lost,
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("lock", &self.turn.held.path)
            .field("operations", &self.operations)
            .finish_non_exhaustive()
    }
}
