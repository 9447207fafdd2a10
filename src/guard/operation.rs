//! The operations of a transaction.

use zklock_recipe::Kind;
use zklock_recipe::transaction as recipe;
use zookeeper_client::CreateMode;

use crate::acl::Acl;
use crate::path::check_node;
use crate::requests::Operand;
use crate::settings::Settings;

/// Options of a node that a [`Transaction`](crate::guard::Transaction) creates.
///
/// ```
/// use zklock::{Acl, guard::NodeOptions};
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

/// The result of one operation of a committed [`Transaction`](crate::guard::Transaction).
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
pub(crate) type NodeOperation = recipe::Operation<Node>;

/// A node that the caller names: what is written to it, and how it is created, if the operation does that.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) path: String,
    pub(crate) data: Vec<u8>,
    pub(crate) options: NodeOptions,
}

impl Node {
    /// A node at this path, to which these data are written. If it is created, it is persistent with an open ACL.
    pub(crate) fn new(path: impl Into<String>, data: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), data: data.into(), options: NodeOptions::new() }
    }

    /// The node as ZooKeeper's.
    pub(super) fn operand(&self) -> Operand<'_> {
        let mode = match (self.options.ephemeral, self.options.sequential) {
            (false, false) => CreateMode::Persistent,
            (false, true) => CreateMode::PersistentSequential,
            (true, false) => CreateMode::Ephemeral,
            (true, true) => CreateMode::EphemeralSequential,
        };
        Operand { path: self.path.as_str().into(), data: &self.data, options: self.options.acl.on(mode) }
    }
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

    /// Makes the node ephemeral: ZooKeeper deletes it with the guard's ZooKeeper session (not with the guard). zklock does not close a
    /// session for being idle once it may own such a node. Keep the paths of all such nodes of a session below 500 KB together:
    /// [`AcquireError::SessionFull`](crate::AcquireError::SessionFull) does not count them ([why there is a
    /// limit](https://issues.apache.org/jira/browse/ZOOKEEPER-4306)).
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

/// Checks the operation of a holder of this lock; `Err` says what is wrong with it.
pub(super) fn validate(operation: &NodeOperation, settings: &Settings) -> Result<(), String> {
    let lock = &settings.queue.path;
    let Node { path: named, options, .. } = operation.node();
    let path = match named.strip_suffix('/') {
        // The server's number becomes the node's name.
        Some(parent) if options.sequential && !parent.is_empty() => parent,
        _ => named,
    };
    check_node(path).map_err(|problem| problem.to_string())?;
    let is_check = matches!(operation, NodeOperation::Check(..));
    let prefixes = Kind::ALL.map(|kind| lock.layout().prefix(kind));
    let stems = Kind::STEMS.into_iter().chain(prefixes.iter().map(String::as_str)).collect::<Vec<_>>();
    let is_contender = |name: &str| stems.iter().any(|stem| name.starts_with(stem));
    if !is_check && lock.child(named).is_some_and(is_contender) {
        return Err(
            "it is a contender of the lock itself, and changing it would break the queue; release the guard instead"
                .into(),
        );
    }
    if !is_check && !options.sequential && settings.queue.is_off_limits(path) {
        return Err("it is the leader's announcement; call `proclaim` to replace its value, or `resign` to take it back".into());
    }
    match operation {
        NodeOperation::Create(_) if options.ephemeral && options.sequential && lock.child(named).is_some() => {
            Err("an ephemeral sequential node in the lock's directory looks like a contender of another client; use \
                 another directory"
                .into())
        }
        NodeOperation::Set(..) if path == lock.as_str() => {
            Err("it is the lock's directory, and zklock overwrites its data; use a node of your own".into())
        }
        // With a chroot, a sequential node at "/" would end up beside the chroot.
        NodeOperation::Delete(..) | NodeOperation::Create(_) if path == "/" => {
            Err("it is the root, which always exists; name a node below it".into())
        }
        // On the wire, -1 stands for any version.
        NodeOperation::Set(_, Some(-1)) | NodeOperation::Delete(_, Some(-1)) | NodeOperation::Check(_, Some(-1)) => {
            Err("no node has the version -1; use `None` for any version".into())
        }
        _ => Ok(()),
    }
}
