//! Transactions: the servers carry out every operation, or none.
//!
//! What a transaction checks and writes decides whether a protocol is safe. So it is a value: zklock sends it to ZooKeeper, and the
//! models' ensemble carries out the same one.

/// The version of a node to which nobody has written since it was created. Only a contender's create and its release write its data.
/// If a node has another version, somebody else wrote to it, and that takes the lock from its holder.
pub const UNTOUCHED: i32 = 0;

/// One operation. `N` names its node. A version is that which the node must have; without one, any will do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation<N> {
    /// The node exists.
    Check(N, Option<i32>),
    /// Create the node, which does not exist.
    Create(N),
    /// Write the node's data.
    Set(N, Option<i32>),
    /// Delete the node, which has no children.
    Delete(N, Option<i32>),
}

/// Why an operation failed, and so its transaction had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// The node, or the parent of a new one, does not exist.
    NoNode,
    /// The new node exists already.
    NodeExists,
    /// The node has another version.
    BadVersion,
    /// The node has children.
    NotEmpty,
}

impl<N> Operation<N> {
    /// The same operation, on what `name` makes of its node.
    pub fn map<M>(self, name: impl FnOnce(N) -> M) -> Operation<M> {
        match self {
            Self::Check(node, version) => Operation::Check(name(node), version),
            Self::Create(node) => Operation::Create(name(node)),
            Self::Set(node, version) => Operation::Set(name(node), version),
            Self::Delete(node, version) => Operation::Delete(name(node), version),
        }
    }

    /// Its node.
    pub fn node(&self) -> &N {
        let (Self::Check(node, _) | Self::Create(node) | Self::Set(node, _) | Self::Delete(node, _)) = self;
        node
    }
}
