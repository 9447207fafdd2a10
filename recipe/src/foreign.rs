//! Contenders of other clients: which children of a lock's directory may be one, and which client they seem to belong
//! to.
//!
//! Other recipes create ephemeral sequential nodes, too, under names of their own. Some clients wait for every lower
//! number, and some wait only for names like theirs. So neither zklock nor they can rely on the other's nodes.

use alloc::string::String;
use core::fmt;

use crate::contender::QueuePlace;

/// The client that a foreign contender seems to belong to, by its node's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForeignClient {
    /// Apache Curator, or a client that uses its names.
    Curator,
    /// Apache Curator's `InterProcessReadWriteLock`.
    CuratorReadWrite,
    /// A Go client: go-zookeeper, or one made from it.
    Go,
    /// kazoo, for Python.
    Kazoo,
    /// `WriteLock`, of ZooKeeper's own recipes.
    WriteLock,
    /// A client that names its nodes as zklock does but writes other data to them; or a node that somebody made by
    /// hand, or restored.
    Lookalike,
    /// zklock, in another layout.
    Zklock,
    /// Any other client.
    Unknown,
}

impl ForeignClient {
    /// Whether a node of this client, whose stat has this `ephemeralOwner`, is a contender.
    ///
    /// A contender need not be ephemeral: kazoo makes one that is persistent (`acquire(ephemeral=False)`), and honours it. No
    /// client makes one that is a container or has a TTL. An unknown name may be that of any sequential node.
    pub fn contends(self, ephemeral_owner: i64) -> bool {
        session(ephemeral_owner).is_some() || ephemeral_owner == 0 && self != Self::Unknown
    }
}

/// A contender of another client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Foreign {
    /// The name of the contender's node in the lock's directory.
    pub name: String,
    /// The client that the contender seems to belong to.
    pub client: ForeignClient,
    /// The id of the session that owns the node; `None` if our session may not read the node, or if the node is not
    /// ephemeral.
    pub session: Option<i64>,
}

/// The kind of a child of a lock's directory, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// A contender, if its data is zklock's.
    Contender(QueuePlace),
    /// A contender of another client, unless its node is not ephemeral and nobody knows the client
    /// ([`contends`](ForeignClient::contends)).
    Suspect(ForeignClient),
    /// No contender: the server numbers the nodes of every recipe, and this name has no number.
    Other,
}

impl Child {
    /// Returns the kind of the child with this name.
    pub fn of(name: &str) -> Self {
        match (QueuePlace::parse(name), stem(name)) {
            (Some(place), _) => Self::Contender(place),
            (None, Some(stem)) => Self::Suspect(client(stem)),
            (None, None) => Self::Other,
        }
    }
}

/// Returns the session that owns a node, from the `ephemeralOwner` of its stat; `None` if the node is not ephemeral.
///
/// The owner of a container is `i64::MIN`. The owner of a node with a TTL is `0xff0000` and the TTL in 40 bits
/// (`EphemeralType` of the server).
pub fn session(ephemeral_owner: i64) -> Option<i64> {
    let persistent = ephemeral_owner == 0 || ephemeral_owner == i64::MIN;
    let has_ttl = ephemeral_owner.cast_unsigned() >> 40 == 0xff_0000;
    (!persistent && !has_ttl).then_some(ephemeral_owner)
}

/// Returns the name without the number that the server appended (`%010d`, of an `i32`), if the name ends with one.
fn stem(name: &str) -> Option<&str> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    match name.len().checked_sub(10)? {
        end if digits >= 10 => name.get(..end),
        // Servers older than 3.6 go on with negative numbers at the end.
        end if digits == 9 && name.as_bytes().get(end) == Some(&b'-') => name.get(..end),
        _ => None,
    }
}

/// What stands in the names of our contenders in another client's queue, in place of its random id. That id tells a client its own
/// node after a lost reply. Ours are told by their data, so each has a name that its place gives.
pub(crate) const CURATOR_ID: &str = "7a6b6c6f-636b-4000-8000-000000000000";
pub(crate) const KAZOO_ID: &str = "7a6b6c6f636b40008000000000000000";

/// Whether the beginning of a name is that of a node of ours in a layout that is shared.
fn is_zklocks(stem: &str) -> bool {
    let of_curator = stem.strip_prefix("_c_").and_then(|stem| stem.strip_prefix(CURATOR_ID));
    match (of_curator, stem.strip_prefix(KAZOO_ID)) {
        (Some(kind), _) => kind == "-lock-",
        (None, Some(kind)) => kind == "__lock__",
        (None, None) => false,
    }
}

fn client(stem: &str) -> ForeignClient {
    if is_zklocks(stem) {
        return ForeignClient::Zklock;
    }
    let is_hex =
        |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_uuid = |text: &str| text.len() == 36 && is_hex(&text.replace('-', ""), 32);
    if let Some(protected) = stem.strip_prefix("_c_") {
        return match (protected.get(..36), protected.get(36..), protected.split_once('-')) {
            (Some(id), Some("-__READ__" | "-__WRIT__"), _) if is_uuid(id) => ForeignClient::CuratorReadWrite,
            (Some(id), ..) if is_uuid(id) => ForeignClient::Curator,
            (_, _, Some((id, _))) if is_hex(id, 32) => ForeignClient::Go,
            _ => ForeignClient::Unknown,
        };
    }
    let kazoo = stem.strip_suffix("__lock__").or_else(|| stem.strip_suffix("__rlock__"));
    if kazoo.is_some_and(|id| is_hex(id, 32)) {
        return ForeignClient::Kazoo;
    }
    let session = stem.strip_prefix("x-").and_then(|rest| rest.strip_suffix('-'));
    if session.is_some_and(|session| session.parse::<i64>().is_ok()) {
        return ForeignClient::WriteLock;
    }
    ForeignClient::Unknown
}

impl fmt::Display for ForeignClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Curator => "Apache Curator, or a client with its names",
            Self::CuratorReadWrite => "Apache Curator's read-write lock",
            Self::Go => "a Go client (go-zookeeper)",
            Self::Kazoo => "kazoo (Python)",
            Self::WriteLock => "ZooKeeper's WriteLock (Java)",
            Self::Lookalike => "a client with names like zklock's",
            Self::Zklock => "zklock, with another layout",
            Self::Unknown => "an unknown client",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_is_ours_by_its_name() {
        assert_eq!(Child::of("lock-0000000042"), Child::Contender(QueuePlace::exclusive(42)));
        assert_eq!(Child::of("rlock-0000000042"), Child::Contender(QueuePlace::shared(42)));
    }

    #[test]
    fn suspects_have_a_number_and_seem_to_be_somebodys() {
        for (name, client) in [
            ("_c_1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10-lock-0000000001", ForeignClient::Curator),
            ("_c_1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10-latch-0000000001", ForeignClient::Curator),
            ("_c_1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10-lease-0000000001", ForeignClient::Curator),
            ("_c_1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10-__READ__0000000007", ForeignClient::CuratorReadWrite),
            ("_c_1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10-__WRIT__0000000008", ForeignClient::CuratorReadWrite),
            ("_c_1ef3b5a40e4f4cd59a397a9d3a6b7f10-lock-0000000001", ForeignClient::Go),
            ("1ef3b5a40e4f4cd59a397a9d3a6b7f10__lock__0000000003", ForeignClient::Kazoo),
            ("1ef3b5a40e4f4cd59a397a9d3a6b7f10__rlock__0000000003", ForeignClient::Kazoo),
            ("x-72057670035767296-0000000000", ForeignClient::WriteLock),
            ("x--72057670035767296-0000000000", ForeignClient::WriteLock),
            ("n_0000000000", ForeignClient::Unknown),
            ("0000000000", ForeignClient::Unknown),
            ("_c_\u{e9}-lock-0000000001", ForeignClient::Unknown),
            ("\u{8def}0000000001", ForeignClient::Unknown),
            // Ours, but not in the server's own spelling.
            ("lock-00000000001", ForeignClient::Unknown),
            // What a server from before 3.6 writes after 2,147,483,647.
            ("_c_1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10-lock--2147483648", ForeignClient::Curator),
            ("1ef3b5a40e4f4cd59a397a9d3a6b7f10__lock__-000000001", ForeignClient::Kazoo),
        ] {
            assert_eq!(Child::of(name), Child::Suspect(client), "{name}");
        }
    }

    #[test]
    fn what_has_no_number_is_no_contender() {
        for name in
            ["", "notes", "lock-", "lock-7", "lock-000000000x", "a000000001", "-00000001", "2026-11-22"]
        {
            assert_eq!(Child::of(name), Child::Other, "{name:?}");
        }
    }

    #[test]
    fn only_an_unknown_clients_contender_is_ephemeral() {
        for client in
            [ForeignClient::Curator, ForeignClient::Kazoo, ForeignClient::Go, ForeignClient::WriteLock]
        {
            assert!(client.contends(0) && client.contends(1) && !client.contends(i64::MIN), "{client}");
        }
        assert!(ForeignClient::Unknown.contends(1) && !ForeignClient::Unknown.contends(0));
    }

    #[test]
    fn containers_and_nodes_with_a_ttl_are_no_sessions() {
        for owner in
            [0, i64::MIN, 0xff00_0000_0000_0001_u64.cast_signed(), 0xff00_00ff_ffff_ffff_u64.cast_signed()]
        {
            assert_eq!(session(owner), None, "{owner:x}");
        }
        // Of the servers with number 1, 128 and 255.
        for owner in [0x0100_001c_4e6f_0000, 0x8000_001c_4e6f_0000_u64, 0xff19_a1b2_c3d4_0000] {
            assert_eq!(session(owner.cast_signed()), Some(owner.cast_signed()), "{owner:x}");
        }
    }
}
