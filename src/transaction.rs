//! Transactions that are committed only while a lock is held.

use std::pin::pin;

use futures::future::{Either, select};

use crate::acl::Acl;
use crate::error::TransactionError;
use crate::guard::{Guard, LostReason};
use crate::path::check_node;
use crate::recipe::PREFIX;
use crate::session::Answer;
use crate::session::fenced::{self, Verdict};
use crate::session::wire::Certainty;

/// A ZooKeeper transaction under a lock: it begins with a check of the holder's own node, and ZooKeeper commits it whole
/// or not at all. So it takes effect only while the lock is held, however long this process was paused before; the one
/// kind of write that needs no fencing token.
///
/// Made by [`Guard::transaction`]. Paths are absolute, from the connect string's chroot, as a lock's are. ZooKeeper takes
/// about 1 MiB in all, unless the servers' `jute.maxbuffer` says otherwise; upon more it ends the connection, and the
/// transaction with [`TransactionError::Unknown`].
///
/// An operator who deletes the lock's whole directory makes its numbers start over. Then the holder's name may become
/// another contender's, which the check, by name, would take for the holder. A guard whose node was not seen on the
/// present connection therefore looks at it first ([`Guard::verify`], which costs a round trip more), and is told of a
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
#[derive(Debug)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction<'guard> {
    guard: &'guard Guard,
    operations: Vec<Operation>,
}

/// Options of a node that a [`Transaction`] creates.
///
/// ```
/// use zklock::{Acl, NodeOptions};
///
/// let options = NodeOptions::new().acl(Acl::creator_only()).sequential();
/// # drop(options);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "options do nothing until they are given to `Transaction::create_with`"]
pub struct NodeOptions {
    pub(crate) acl: Acl,
    pub(crate) ephemeral: bool,
    pub(crate) sequential: bool,
}

/// What one operation of a committed [`Transaction`] did.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Applied {
    /// It created a node.
    Created {
        /// The node's path, from the chroot, with the number of a sequential one.
        path: String,
    },
    /// It set a node's data.
    Set {
        /// The node's version since.
        version: i32,
    },
    /// It deleted a node.
    Deleted,
    /// It found a node as it was to be.
    Checked,
}

/// One operation, as the caller asked for it.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) path: String,
    pub(crate) task: Task,
}

/// What is to be done to its path.
#[derive(Debug)]
pub(crate) enum Task {
    Create { data: Vec<u8>, options: NodeOptions },
    Set { data: Vec<u8>, version: Option<i32> },
    Delete { version: Option<i32> },
    Check { version: Option<i32> },
}

impl NodeOptions {
    /// A persistent node with an open ACL.
    pub fn new() -> Self {
        Self::default()
    }

    /// The node's ACL. The default is [`Acl::open`].
    pub fn acl(mut self, acl: Acl) -> Self {
        self.acl = acl;
        self
    }

    /// Makes the node go with the guard's session (not with the guard).
    pub fn ephemeral(mut self) -> Self {
        self.ephemeral = true;
        self
    }

    /// Has the server append a number of ten digits to the path. The path may then end with `/`.
    pub fn sequential(mut self) -> Self {
        self.sequential = true;
        self
    }
}

impl<'guard> Transaction<'guard> {
    pub(crate) fn new(guard: &'guard Guard) -> Self {
        Self { guard, operations: Vec::new() }
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
    /// Returns at the latest when the guard's lease is over. Do not put it into [`Guard::run`], whose
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
        let Self { guard, operations } = self;
        for (index, operation) in operations.iter().enumerate() {
            operation.validate(guard).map_err(|cause| TransactionError::Invalid {
                operation: index,
                path: operation.path.clone(),
                cause,
            })?;
        }
        // The connection may break again meanwhile; each round takes a quorum's answer, and the lease ends some time.
        let connection = loop {
            match guard.certainty() {
                Certainty::Seen(connection) => break connection,
                Certainty::Unsure => guard.verify().await.map_err(TransactionError::Lost)?,
            }
        };
        guard.check().map_err(TransactionError::Lost)?;
        let paths = operations.iter().map(|operation| operation.path.clone()).collect::<Vec<_>>();
        let (lock, node) = (guard.lock_path().to_string(), guard.node());
        // On no later connection: until that is there the node may go, and its name to another contender.
        let request =
            guard.generation().request_on(connection, |wire| fenced::commit(wire.client, node, operations));
        // The answer counts if it is there, lost or not.
        let answer = match select(request, pin!(guard.over())).await {
            Either::Left((answer, _)) => answer,
            // The word of a deletion arrives before the answer, on the same connection: a moment later that is there, too.
            Either::Right((LostReason::NodeDeleted, request)) => {
                let generation = guard.generation();
                let lapse = pin!(generation.sleep(generation.vitals().remaining()));
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
                guard.generation().vitals().confirmed(sent);
                Ok(applied)
            }
            Answer::Given(Verdict::NotHeld, _) => Err(TransactionError::Lost(guard.touched())),
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

impl Operation {
    /// What is wrong with it, if anything is.
    fn validate(&self, guard: &Guard) -> Result<(), String> {
        let is_sequential = matches!(&self.task, Task::Create { options, .. } if options.sequential);
        let path = match self.path.strip_suffix('/') {
            // The number becomes the name.
            Some(parent) if is_sequential && !parent.is_empty() => parent,
            _ => &self.path,
        };
        check_node(path).map_err(|problem| problem.to_string())?;
        let is_check = matches!(self.task, Task::Check { .. });
        if !is_check && guard.lock_path().child(&self.path).is_some_and(|name| name.starts_with(PREFIX)) {
            return Err(
                "it is a contender of the lock itself, and would break its queue; release the guard instead"
                    .into(),
            );
        }
        match self.task {
            Task::Create { ref options, .. }
                if options.ephemeral
                    && options.sequential
                    && guard.lock_path().child(&self.path).is_some() =>
            {
                Err("an ephemeral node with a number, in the lock's directory, looks like another client's contender; \
                     use another directory"
                    .into())
            }
            Task::Set { .. } if path == guard.lock_path().as_str() => {
                Err("it is the lock's directory, whose data zklock overwrites; use a node of your own".into())
            }
            // With a chroot, a sequential one would end up beside it.
            Task::Delete { .. } | Task::Create { .. } if path == "/" => {
                Err("it is the root, which always is there; name a node below it".into())
            }
            // On the wire it would mean any version.
            Task::Set { version: Some(-1), .. }
            | Task::Delete { version: Some(-1) }
            | Task::Check { version: Some(-1) } => {
                Err("no node has the version -1; say `None` if any will do".into())
            }
            _ => Ok(()),
        }
    }
}
