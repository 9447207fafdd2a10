//! ACLs: who may do what to the nodes that a lock creates.

use std::ops::BitOr;

use zookeeper_client as zk;

/// The permissions of an [`Acl`] entry, as ZooKeeper defines them.
///
/// Source: [ZooKeeper Programmer's Guide, ACL Permissions](https://zookeeper.apache.org/doc/current/zookeeperProgrammers.html#sc_ACLPermissions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Permissions(zk::Permission);

impl Permissions {
    /// Read a node's data and list its children.
    pub const READ: Self = Self(zk::Permission::READ);
    /// Write a node's data.
    pub const WRITE: Self = Self(zk::Permission::WRITE);
    /// Create children.
    pub const CREATE: Self = Self(zk::Permission::CREATE);
    /// Delete children.
    pub const DELETE: Self = Self(zk::Permission::DELETE);
    /// Change the ACL.
    pub const ADMIN: Self = Self(zk::Permission::ADMIN);
    /// All permissions.
    pub const ALL: Self = Self(zk::Permission::ALL);
}

impl BitOr for Permissions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A list of permissions for a node.
///
/// A contender needs `READ`, `CREATE` and `DELETE` on the lock's directory, `READ` and `WRITE` on its own node, and
/// `READ` on the nodes of all other contenders: a server reports a node's end only to sessions that may read the node.
/// If the contender also has `WRITE` on the directory, it enters the queue with one request instead of two.
///
/// ```
/// use zklock::{Acl, Permissions};
///
/// let acl = Acl::creator_only().and("ip", "10.0.0.0/8", Permissions::READ);
/// assert_ne!(acl, Acl::open());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<zk::Acl>);

impl Acl {
    /// Makes an ACL by which everybody may do everything: `world:anyone`. This is the default.
    pub fn open() -> Self {
        Self(Vec::new()).and("world", "anyone", Permissions::ALL)
    }

    /// Makes an ACL by which only the identities that the session has authenticated may do anything, and they may do
    /// everything: `auth`.
    pub fn creator_only() -> Self {
        Self(Vec::new()).and("auth", "", Permissions::ALL)
    }

    /// Adds an entry: `permissions` for the identity `id` of the authentication `scheme`.
    pub fn and(mut self, scheme: impl Into<String>, id: impl Into<String>, permissions: Permissions) -> Self {
        self.0.push(zk::Acl::new(permissions.0, zk::AuthId::new(&scheme.into(), &id.into())));
        self
    }

    /// How many bytes the ACL takes in a request.
    pub(crate) fn encoded_length(&self) -> usize {
        // A number for the entries; and for each, its permissions and two lengths.
        4 + self.0.iter().map(|entry| 12 + entry.scheme().len() + entry.id().len()).sum::<usize>()
    }

    /// The options of a node in this mode with this ACL.
    pub(crate) fn on(&self, mode: zk::CreateMode) -> zk::CreateOptions<'_> {
        mode.with_acls(zk::Acls::new(&self.0))
    }
}

impl Default for Acl {
    fn default() -> Self {
        Self::open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_all_that_it_was_given() {
        let acl = Acl::open().and("ip", "::1", Permissions::READ | Permissions::DELETE);
        let permissions = zk::Permission::READ | zk::Permission::DELETE;
        assert_eq!(acl.0[1], zk::Acl::new(permissions, zk::AuthId::new("ip", "::1")));
    }
}
