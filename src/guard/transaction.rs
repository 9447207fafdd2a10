//! Transactions that are committed only while a lock is held.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};

use super::fenced::{self, Verdict};
use super::held::Held;
use super::lost::LostReason;
use super::operation::{Applied, NodeOptions, Operation, Task};
use super::transaction_error::TransactionError;
use crate::requests::Certainty;
use crate::zk::Answer;

/// A ZooKeeper transaction under a lock: it begins with a check of the holder's own node, and ZooKeeper commits it whole
/// or not at all. So it takes effect only while the lock is held, however long this process was paused before; the one
/// kind of write that needs no fencing token.
///
/// Made by [`Guard::transaction`](crate::Guard::transaction). Paths are absolute, from the connect string's chroot, as a lock's are. ZooKeeper takes
/// about 1 MiB in all, unless the servers' `jute.maxbuffer` says otherwise; upon more it ends the connection, and the
/// transaction with [`TransactionError::Unknown`].
///
/// An operator who deletes the lock's whole directory makes its numbers start over. Then the holder's name may become
/// another contender's, which the check, by name, would take for the holder. A guard whose node was not seen on the
/// present connection therefore looks at it first ([`Guard::verify`](crate::Guard::verify), which costs a round trip more), and is told of a
/// deletion later on, though not in its first 40 ms. What remains is the time from that look, or until that word arrives, to
/// the commit; a connection that breaks just when the transaction is handed to it prolongs that until the next one is there.
///
/// ```no_run
/// # async fn example(guard: zklock::Guard) -> Result<(), zklock::TransactionError> {
/// use zklock::NodeOptions;
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
    held: &'guard Arc<Held>,
    operations: Vec<Operation>,
}

impl<'guard> Transaction<'guard> {
    pub(super) fn new(held: &'guard Arc<Held>) -> Self {
        Self { held, operations: Vec::new() }
    }

    /// Creates a persistent node with an open ACL. Its parent must exist, and it must not.
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
        self.and(path, Task::Create { data: data.into(), options })
    }

    /// Sets a node's data, if it has this version or if that is `None`.
    pub fn set(self, path: impl Into<String>, data: impl Into<Vec<u8>>, version: Option<i32>) -> Self {
        self.and(path, Task::Set { data: data.into(), version })
    }

    /// Deletes a node without children, if it has this version or if that is `None`.
    pub fn delete(self, path: impl Into<String>, version: Option<i32>) -> Self {
        self.and(path, Task::Delete { version })
    }

    /// Goes on only if a node exists, and has this version unless that is `None`. Needs permission to read it.
    pub fn check(self, path: impl Into<String>, version: Option<i32>) -> Self {
        self.and(path, Task::Check { version })
    }

    fn and(mut self, path: impl Into<String>, task: Task) -> Self {
        self.operations.push(Operation { path: path.into(), task });
        self
    }

    /// Sends the transaction, and returns once it is committed: what each operation did, in the order in which they were
    /// asked for. One round trip. Without operations it checks that the lock is held, and that is all.
    ///
    /// Returns at the latest when the guard's lease is over. Do not put it into [`Guard::run`](crate::Guard::run), whose
    /// [`Lost`](crate::Lost) would say nothing about the write.
    ///
    /// # Errors
    ///
    /// See [`TransactionError`]. After all but [`Unknown`](TransactionError::Unknown) nothing was written.
    ///
    /// # Cancel safety
    ///
    /// Not safe: once polled, whether it is committed is unknown, as with [`TransactionError::Unknown`]. The guard
    /// remains.
    pub async fn commit(self) -> Result<Vec<Applied>, TransactionError> {
        let Self { held, operations } = self;
        for (index, operation) in operations.iter().enumerate() {
            operation.validate(&held.path).map_err(|cause| TransactionError::Invalid {
                operation: index,
                path: operation.path.clone(),
                cause,
            })?;
        }
        // The connection may break again meanwhile; each round takes a quorum's answer, and the lease ends some time.
        let connection = loop {
            match held.certainty() {
                Certainty::Seen(connection) => break connection,
                Certainty::Unsure => held.verify().await.map_err(TransactionError::Lost)?,
            }
        };
        held.check().map_err(TransactionError::Lost)?;
        let paths = operations.iter().map(|operation| operation.path.clone()).collect::<Vec<_>>();
        let (lock, node) = (held.path.to_string(), held.node());
        // On no later connection: until that is there the node may go, and its name to another contender.
        let request = held
            .session()
            .requester()
            .request_on(connection, |wire| fenced::commit(wire.client, node, operations));
        // Not before the guard is lost, as a stop margin is: whoever winds down still works.
        let over = pin!(held.clone().lost(Duration::ZERO));
        // The answer counts if it is there, lost or not.
        let answer = match select(request, over).await {
            Either::Left((answer, _)) => answer,
            // The word of a deletion arrives before the answer, on the same connection: a moment later that is there, too.
            Either::Right((LostReason::NodeDeleted, request)) => {
                let session = held.session();
                let lapse = pin!(session.sleep(session.lease().remaining()));
                match select(request, lapse).await {
                    Either::Left((answer, _)) => answer,
                    Either::Right(_) => Answer::Lost,
                }
            }
            // The client may yet send it, or has.
            Either::Right(_) => Answer::Lost,
        };
        match answer {
            Answer::Given(Verdict::Committed(applied), sent) => {
                held.session().lease().confirmed(sent);
                Ok(applied)
            }
            Answer::Given(Verdict::NotHeld, _) => Err(TransactionError::Lost(held.touched())),
            Answer::Given(Verdict::Failed(operation, problem), _) => Err(TransactionError::Condition {
                operation,
                path: paths.into_iter().nth(operation).unwrap_or_default(),
                problem,
            }),
            Answer::Given(Verdict::Refused(cause), _) => Err(TransactionError::Refused { path: lock, cause }),
            Answer::Given(Verdict::Unknown, _) | Answer::Lost | Answer::Over(_) => {
                Err(TransactionError::Unknown { path: lock })
            }
        }
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("lock", &self.held.path.as_str())
            .field("operations", &self.operations)
            .finish_non_exhaustive()
    }
}
