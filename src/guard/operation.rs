//! The operations of a transaction.

use zklock_recipe::Kind;
use zklock_recipe::transaction as recipe;

use crate::acl::Acl;
use crate::path::check_node;
use crate::settings::Settings;

/// Options of a node that a [`Transaction`](crate::Transaction) creates.
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

/// The result of one operation of a committed [`Transaction`](crate::Transaction).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Applied {
    /// The operation created a node.
    Created {
        /// The node's path, relative to the chroot. The path of a sequential node includes its number.
        path: String,
    },
    /// The operation set a node's data.
    Set {
        /// The node's new version.
        version: i32,
    },
    /// The operation deleted a node.
    Deleted,
    /// The operation checked a node, and the node passed.
    Checked,
}

/// One operation that the caller asked for.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) path: String,
    pub(crate) task: Task,
}

/// What an operation does to the node at its path.
#[derive(Debug)]
pub(crate) enum Task {
    Create { data: Vec<u8>, options: NodeOptions },
    Set { data: Vec<u8>, version: Option<i32> },
    Delete { version: Option<i32> },
    Check { version: Option<i32> },
}

impl NodeOptions {
    /// Makes the options of a persistent node with an open ACL.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the node's ACL. The default is [`Acl::open`].
    pub fn acl(mut self, acl: Acl) -> Self {
        self.acl = acl;
        self
    }

    /// Makes the node ephemeral: ZooKeeper deletes it with the guard's session (not with the guard).
    pub fn ephemeral(mut self) -> Self {
        self.ephemeral = true;
        self
    }

    /// Makes the node sequential: the server appends a number of ten digits to the path. The path may then end with
    /// `/`.
    pub fn sequential(mut self) -> Self {
        self.sequential = true;
        self
    }
}

impl Operation {
    /// An operation of the recipe on the node at a path. It writes these data, and creates a node with these options.
    pub(crate) fn of(operation: recipe::Operation<(String, Vec<u8>)>, options: &NodeOptions) -> Self {
        let (path, task) = match operation {
            recipe::Operation::Check((path, _), version) => (path, Task::Check { version }),
            recipe::Operation::Create((path, data)) => {
                (path, Task::Create { data, options: options.clone() })
            }
            recipe::Operation::Set((path, data), version) => (path, Task::Set { data, version }),
            recipe::Operation::Delete((path, _), version) => (path, Task::Delete { version }),
        };
        Self { path, task }
    }

    /// Checks the operation of a holder of this lock; `Err` says what is wrong with it.
    pub(super) fn validate(&self, settings: &Settings) -> Result<(), String> {
        let lock = &settings.path;
        let is_sequential = matches!(&self.task, Task::Create { options, .. } if options.sequential);
        let path = match self.path.strip_suffix('/') {
            // The server's number becomes the node's name.
            Some(parent) if is_sequential && !parent.is_empty() => parent,
            _ => &self.path,
        };
        check_node(path).map_err(|problem| problem.to_string())?;
        let is_check = matches!(self.task, Task::Check { .. });
        let is_contender = |name: &str| Kind::STEMS.iter().any(|stem| name.starts_with(stem));
        if !is_check && lock.child(&self.path).is_some_and(is_contender) {
            return Err(
                "it is a contender of the lock itself, and changing it would break the queue; release the guard instead"
                    .into(),
            );
        }
        if let Some((off_limits, instead)) = &settings.off_limits
            && !is_check
            && !is_sequential
            && off_limits == path
        {
            return Err((*instead).to_owned());
        }
        match self.task {
            Task::Create { ref options, .. }
                if options.ephemeral
                    && options.sequential
                    && lock.child(&self.path).is_some() =>
            {
                Err("an ephemeral node with a number, in the lock's directory, looks like another client's contender; \
                     use another directory"
                    .into())
            }
            Task::Set { .. } if path == lock.as_str() => {
                Err("it is the lock's directory, and zklock overwrites its data; use a node of your own".into())
            }
            // With a chroot, a sequential node at "/" would end up beside the chroot.
            Task::Delete { .. } | Task::Create { .. } if path == "/" => {
                Err("it is the root, which always exists; name a node below it".into())
            }
            // On the wire, -1 stands for any version.
            Task::Set { version: Some(-1), .. }
            | Task::Delete { version: Some(-1) }
            | Task::Check { version: Some(-1) } => {
                Err("no node has the version -1; use `None` for any version".into())
            }
            _ => Ok(()),
        }
    }
}
