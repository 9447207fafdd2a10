//! ACLs: who may do what to the nodes that a lock creates.

use std::ops::BitOr;

use zookeeper_client as zk;

/// The permissions of an [`Acl`] entry, as ZooKeeper defines them.
///
/// Source: [ZooKeeper Programmer's Guide, ACL Permissions](https://zookeeper.apache.org/doc/current/zookeeperProgrammers.html#sc_ACLPermissions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Permissions(pub(crate) u8);

impl Permissions {
    /// Read a node's data and list its children.
    pub const READ: Self = Self(1);
    /// Write a node's data.
    pub const WRITE: Self = Self(2);
    /// Create children.
    pub const CREATE: Self = Self(4);
    /// Delete children.
    pub const DELETE: Self = Self(8);
    /// Change the ACL.
    pub const ADMIN: Self = Self(16);
    /// All permissions.
    pub const ALL: Self = Self(31);
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
pub struct Acl {
    pub(crate) entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) scheme: String,
    pub(crate) id: String,
    pub(crate) permissions: Permissions,
}

impl Acl {
    /// Makes an ACL by which everybody may do everything: `world:anyone`. This is the default.
    pub fn open() -> Self {
        Self { entries: Vec::new() }.and("world", "anyone", Permissions::ALL)
    }

    /// Makes an ACL by which only the identities that the session has authenticated may do anything, and they may do
    /// everything: `auth`.
    pub fn creator_only() -> Self {
        Self { entries: Vec::new() }.and("auth", "", Permissions::ALL)
    }

    /// Adds an entry: `permissions` for the identity `id` of the authentication `scheme`.
    pub fn and(mut self, scheme: impl Into<String>, id: impl Into<String>, permissions: Permissions) -> Self {
        self.entries.push(Entry { scheme: scheme.into(), id: id.into(), permissions });
        self
    }

    /// How many bytes the ACL takes in a request.
    pub(crate) fn encoded_length(&self) -> usize {
        // A number for the entries; and for each, its permissions and two lengths.
        4 + self.entries.iter().map(|entry| 12 + entry.scheme.len() + entry.id.len()).sum::<usize>()
    }

    /// Converts the ACL for zookeeper-client.
    pub(crate) fn to_client(&self) -> Vec<zk::Acl> {
        let all = [
            zk::Permission::READ,
            zk::Permission::WRITE,
            zk::Permission::CREATE,
            zk::Permission::DELETE,
            zk::Permission::ADMIN,
        ];
        let entry = |entry: &Entry| {
            let permission = all.iter().enumerate().fold(zk::Permission::NONE, |sum, (bit, permission)| {
                if entry.permissions.0 & (1 << bit) == 0 { sum } else { sum | *permission }
            });
            zk::Acl::new(permission, zk::AuthId::new(&entry.scheme, &entry.id))
        };
        self.entries.iter().map(entry).collect()
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
    fn permissions_keep_their_bits() {
        let acl = Acl::creator_only().and("ip", "::1", Permissions::READ | Permissions::DELETE);
        let acls = acl.to_client();
        assert_eq!(acls[0].permission(), zk::Permission::ALL);
        assert_eq!(acls[1].permission(), zk::Permission::READ | zk::Permission::DELETE);
        assert_eq!((acls[1].scheme(), acls[1].id()), ("ip", "::1"));
    }
}
