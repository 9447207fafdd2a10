//! Why a member of the family was not acquired, a leader's value not announced, a run not named.

use std::time::Duration;

use zklock_recipe::{ForeignClient, OtherKind, PathKind, Refusal, Stock, Wish};

use crate::text::{LONGEST, harmless};
use crate::wire::ConnectError;
use crate::zk::Over;

/// Why a lock was not acquired. The acquisition leaves no node behind, unless the variant says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// An ACL forbids the acquisition: creating the lock's directory; creating, listing or deleting children in it; or
    /// reading the predecessor's node (a server reports the deletion of a node only to sessions that may read the
    /// node). If the ACL forbids the deletion, the contender's node stays in the queue until its session ends.
    #[error(
        "an ACL does not allow this session to queue at {path}; authenticate the session as an identity that the ACLs \
         name, or change the ACLs so that they grant READ, CREATE and DELETE on the directory (or CREATE on the nearest \
         ancestor, if the directory does not exist), and READ on the node of every contender"
    )]
    NotAuthorized {
        /// The lock's path.
        path: String,
    },
    /// An ancestor, or the path itself, is an ephemeral node, which can have no children. If the ephemeral node is the
    /// announcement of a leader, a lock at its path gets [`OtherKind`](Self::OtherKind) instead.
    #[error(
        "{path} is an ephemeral node or below one, and such a node cannot have children; use another path"
    )]
    EphemeralParent {
        /// The lock's path.
        path: String,
    },
    /// The lock's path is that of an [ask](crate::Session::ask)'s node, which can have no children: somebody asks the holder of
    /// the path above to let go. The node goes once the holder has let go, or when the asker's time is over. If the asker
    /// does not wait for the answer, the node goes once it drops the ask, or with its session.
    #[error(
        "{path} is the node of an ask by {who}, who waits for up to {within:?} until the holder of the path above lets go; try \
         again after that, or use another path"
    )]
    Asked {
        /// The lock's path.
        path: String,
        /// Who asks.
        who: String,
        /// How long after the ask was made the holder is to have let go. The asker takes the ask back then, if it waits for
        /// the answer.
        within: Duration,
    },
    /// The server cannot reach a quorum, and serves only reads.
    #[error("the server is read-only, so nobody can queue at {path}; bring the quorum back and try again")]
    ReadOnly {
        /// The lock's path.
        path: String,
    },
    /// The server does not accept the ACL in the lock's options.
    #[error("the server does not accept the ACL for {path}; `creator_only` needs an authenticated session")]
    InvalidAcl {
        /// The lock's path.
        path: String,
    },
    /// The sequence numbers of the lock's directory are close to the largest one. Beyond that number ZooKeeper no
    /// longer keeps the order.
    #[error(
        "the sequence numbers at {path} are near their end (last: {sequence}); stop the contenders until the queue is \
         empty, delete the directory, and try again (if zklock created the directory, ZooKeeper deletes it within \
         about a minute)"
    )]
    SequenceExhausted {
        /// The lock's path.
        path: String,
        /// The number that the server gave this contender.
        sequence: i32,
    },
    /// The lock's directory has a contender of another client, or a node with a contender's name that somebody made by
    /// hand. Other clients may ignore zklock's nodes, so both could hold the lock. A contender that is not ephemeral,
    /// as kazoo's `acquire(ephemeral=False)` makes it, stays until somebody deletes it.
    #[error(
        "{node} is a contender of {client}, and zklock shares no queue with it; use zklock for all \
         contenders at {path}, or use another path, or wait until that node is gone (if the node is not ephemeral and \
         nobody needs it, delete it)",
        node = harmless(node, LONGEST)
    )]
    ForeignContender {
        /// The lock's path.
        path: String,
        /// The path of the foreign contender's node.
        node: String,
        /// The client that the node's name points to.
        client: ForeignClient,
        /// The id of the session that owns the node; `None` if this session may not read the node, or if the node is
        /// not ephemeral.
        session: Option<i64>,
    },
    /// The path is used for something else. A lock, an election, a semaphore and slots at one path would not see each
    /// other's contenders, so none of them would keep the others out.
    #[error(
        "{path} cannot be used as {expected}, because {at} is already used as {found}; use another path; only if nobody \
         uses {at} any more, delete the nodes that {found} left there"
    )]
    OtherKind {
        /// The path that the caller gave.
        path: String,
        /// What the caller wants it for.
        expected: PathKind,
        /// The path that is used for something else: the caller's path, or a path right above or below it that belongs
        /// to the same election or pool.
        at: String,
        /// What that path is used for.
        found: PathKind,
    },
    /// The connect string's chroot was there when the session was opened, and is gone. Somebody deleted it, or the ensemble
    /// has other data.
    #[error(
        "the chroot of this session does not exist any more, so nothing can be acquired at {path}; create the chroot again, \
         or build the session with `create_chroot`"
    )]
    NoChroot {
        /// The lock's path.
        path: String,
    },
    /// Somebody else deleted this contender's node, or the whole directory.
    #[error(
        "somebody deleted this contender's node at {path}, so the contender has lost its place in the queue; try again"
    )]
    NodeDeleted {
        /// The lock's path.
        path: String,
    },
    /// The session is closed.
    #[error("the session was closed, so it cannot queue at {path}; connect a new session")]
    SessionClosed {
        /// The lock's path.
        path: String,
    },
    /// The servers reject the session's credentials.
    #[error(
        "the servers reject the session's credentials, so the session cannot queue at {path}; check the credentials \
         and connect a new session"
    )]
    AuthFailed {
        /// The lock's path.
        path: String,
    },
    /// ZooKeeper did not answer in time, or its answers did not prove the lease yet. The calls that begin with `try_` return
    /// this error, and so do
    /// [`Semaphore::set_capacity`](crate::Semaphore::set_capacity) and [`Slots::set_count`](crate::Slots::set_count): then
    /// the number may have changed.
    #[error(
        "ZooKeeper did not confirm the state of {path} within {waited:?}; check the servers, and try again"
    )]
    Unanswered {
        /// The lock's path.
        path: String,
        /// How long zklock waited: half a session timeout.
        waited: Duration,
    },
    /// The ZooKeeper session has ended, and the servers refuse to open another one like it, or the session's runtime has shut down.
    #[error("the session has failed, so it cannot queue at {path}: {cause}")]
    SessionFailed {
        /// The lock's path.
        path: String,
        /// Why it has failed, and what to do.
        cause: Box<ConnectError>,
    },
    /// The session has so many nodes that the servers may be unable to end it: the paths of its guards' and waiters'
    /// nodes, with the chroot, would have more than 900 KiB together. ZooKeeper ends a session with one transaction,
    /// which has the paths of all nodes of the session. No server reads a transaction of more than 2 MiB
    /// (`jute.maxbuffer`), so the whole ensemble would stop working
    /// ([ZOOKEEPER-4306](https://issues.apache.org/jira/browse/ZOOKEEPER-4306)).
    #[error(
        "the session has too many nodes, so it cannot queue at {path}; release some of its locks, connect a second \
         session, or use shorter paths"
    )]
    SessionFull {
        /// The lock's path.
        path: String,
    },
    /// The key of [`Locks`](crate::Locks) is too long for a path.
    #[error(
        "a key below {path} has {length} bytes, but {longest} are allowed; use a shorter key, such as a hash"
    )]
    KeyTooLong {
        /// The path of the root.
        path: String,
        /// The length of the key, in bytes.
        length: usize,
        /// The longest key, in bytes.
        longest: usize,
    },
    /// The server refused for another reason.
    #[error("the server refused a request for {path}: {cause}; remove the cause, and try again")]
    Refused {
        /// The lock's path.
        path: String,
        /// The server's error, as zookeeper-client words it.
        cause: String,
    },
    /// The semaphore has another capacity than this process states. The very first acquisition sets the capacity, and
    /// [`Semaphore::set_capacity`](crate::Semaphore::set_capacity) changes it.
    #[error(
        "the semaphore at {path} has a capacity of {found}, but this process states {stated}; state the same capacity \
         in all processes, or change it with `set_capacity`"
    )]
    Capacity {
        /// The semaphore's path.
        path: String,
        /// The capacity that this process states.
        stated: u32,
        /// The capacity that the semaphore has.
        found: u32,
    },
    /// The path has another number of slots than this process states. The very first acquisition sets the number, and
    /// [`Slots::set_count`](crate::Slots::set_count) changes it.
    #[error(
        "{path} has {found} slot{}, but this process states {stated}; state the same number in all processes, or change \
         it with `set_count`",
        plural(*found)
    )]
    Count {
        /// The path of the slots.
        path: String,
        /// The number of slots that this process states.
        stated: u32,
        /// The number of slots that the path has.
        found: u32,
    },
    /// The weight is zero, or larger than the capacity of the semaphore. Such a permit would never be granted.
    #[error(
        "no permit of {path} can have the weight {weight}, because the capacity is {capacity}; ask for a weight from 1 \
         to {capacity}"
    )]
    Weight {
        /// The semaphore's path.
        path: String,
        /// The weight that the caller asked for.
        weight: u32,
        /// The capacity of the semaphore.
        capacity: u32,
    },
    /// The preferred index does not exist.
    #[error("{path} has no slot {index}, because it has {count} slot{}; prefer an index below {count}", plural(*count))]
    Index {
        /// The path of the slots.
        path: String,
        /// The index that the caller preferred.
        index: u32,
        /// The number of slots.
        count: u32,
    },
    /// A semaphore cannot have this capacity, or slots cannot have this number.
    #[error(
        "{path} cannot have a capacity, or a number of slots, of {asked}; state a number from 1 to {largest}"
    )]
    Number {
        /// The path of the semaphore or the slots.
        path: String,
        /// The number that the caller asked for.
        asked: u32,
        /// The largest number.
        largest: u32,
    },
    /// The directory of permits has data that this version of zklock does not know.
    #[error(
        "{directory} has data that this version of zklock does not know; use another path, or delete that node while \
         nobody holds a permit"
    )]
    UnknownData {
        /// The path of the directory.
        directory: String,
    },
    /// The directory has permits and slots at the same time: somebody has changed its data by hand.
    #[error(
        "{directory} has permits and slots at the same time, because somebody changed its data by hand; change the \
         data back, or wait until all holders of the other kind have released"
    )]
    Mixed {
        /// The path of the directory.
        directory: String,
    },
    /// The value of an election cannot be announced. If the candidate already had the lock, it has released it.
    #[error(transparent)]
    Announce(#[from] AnnounceError),
    /// No run can have this name, or no period has this length.
    #[error("the name {name:?} cannot be used: {problem}")]
    InvalidName {
        /// The name or the period that the caller gave.
        name: String,
        /// What is wrong with it.
        problem: NameProblem,
    },
    /// The run has no record, and its name is in a range of names whose records were dropped. So nobody knows whether
    /// the run has been done.
    #[error(
        "the run {name:?} of {path} is refused: it may have been done before, because the records from {first:?} to \
         {last:?} were dropped; give each run a name that sorts after all earlier ones, or keep more records"
    )]
    Forgotten {
        /// The lock's path.
        path: String,
        /// The run that the caller gave.
        name: String,
        /// The first name of the range. Its record was dropped.
        first: String,
        /// The last name of the range. Its record was dropped.
        last: String,
    },
    /// The data of a record's node is not a record, or a later version of zklock wrote it. So nobody knows whether the
    /// run has been done.
    #[error(
        "this version of zklock cannot read the data of {path}; look at the data. If the node of a run is not a \
         record, you may delete that node. Do not delete the directory of the records: then all runs may begin again"
    )]
    NotARecord {
        /// The path of the node.
        path: String,
    },
    /// An ACL forbids reading or writing a record.
    #[error(
        "an ACL does not allow this session to keep records in {path}; authenticate the session, or change the ACLs so \
         that they grant CREATE on the parent of that directory, and READ, WRITE, CREATE and DELETE on the directory"
    )]
    RecordNotAuthorized {
        /// The path of the records' directory.
        path: String,
    },
    /// Several tries to write the record failed: the servers did not answer, or somebody else changed the records each
    /// time. Or the lock was lost when the run began, and could not be acquired again before the timeout, or the
    /// session is over. The record may say that the run has begun, although nothing ran.
    #[error(
        "ZooKeeper did not confirm the record {path}: the servers did not answer, or somebody else keeps changing the \
         records; look at the record, and try again"
    )]
    Unconfirmed {
        /// The path of the record.
        path: String,
    },
}

/// The end of the noun behind this number.
fn plural(number: u32) -> &'static str {
    if number == 1 { "" } else { "s" }
}

impl AcquireError {
    pub(crate) fn other_stock(path: String, found: Stock, stated: Stock) -> Self {
        match (found, stated) {
            (Stock::Permits(found), Stock::Permits(stated)) => Self::Capacity { path, stated, found },
            (Stock::Slots(found), Stock::Slots(stated)) => Self::Count { path, stated, found },
            (Stock::Permits(_), Stock::Slots(_)) | (Stock::Slots(_), Stock::Permits(_)) => {
                let other = OtherKind { found: found.into(), at: path.clone() };
                Self::other_kind(path, stated.into(), other)
            }
        }
    }

    /// A wish is for more than the pool has.
    pub(crate) fn too_large(path: String, wish: Wish, found: Stock) -> Self {
        let (Stock::Permits(stock) | Stock::Slots(stock)) = found;
        match wish {
            Wish::Permit(weight) => Self::Weight { path, weight, capacity: stock },
            Wish::Slot(index) => Self::Index { path, index: index.unwrap_or_default(), count: stock },
        }
    }

    pub(crate) fn refused(path: String, refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotAuthorized => Self::NotAuthorized { path },
            Refusal::EphemeralParent => Self::EphemeralParent { path },
            Refusal::Asked(who, within) => Self::Asked { path, who, within },
            Refusal::ReadOnly => Self::ReadOnly { path },
            Refusal::InvalidAcl => Self::InvalidAcl { path },
            Refusal::NoChroot => Self::NoChroot { path },
            Refusal::SessionFull => Self::SessionFull { path },
            Refusal::Other(cause) => Self::Refused { path, cause },
        }
    }

    pub(crate) fn over(path: String, over: Over) -> Self {
        match over {
            Over::Closed => Self::SessionClosed { path },
            Over::AuthFailed => Self::AuthFailed { path },
            Over::Failed(cause) => Self::SessionFailed { path, cause: Box::new(cause) },
        }
    }

    pub(crate) fn other_kind(path: String, expected: PathKind, other: OtherKind) -> Self {
        let OtherKind { found, at } = other;
        Self::OtherKind { path, expected, at, found }
    }

    /// Returns true if the same call may succeed later with nothing changed by hand. This is the case if the node was
    /// deleted, if ZooKeeper did not answer or did not confirm the record of a run, if the server is read-only, if
    /// another client's contender is in the directory, if an ask stands at the path, and if the session is full.
    ///
    /// Returns false if somebody must act first: on the session, the permissions, the path or the directory. It is also
    /// false for [`SequenceExhausted`](Self::SequenceExhausted): somebody must stop the contenders until the queue is
    /// empty, so that ZooKeeper removes the directory.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::NodeDeleted { .. }
                | Self::Asked { .. }
                | Self::Unanswered { .. }
                | Self::ReadOnly { .. }
                | Self::ForeignContender { .. }
                | Self::SessionFull { .. }
                | Self::Unconfirmed { .. }
        )
    }

    /// Returns true if only a new session can help, because this one is over.
    pub fn needs_new_session(&self) -> bool {
        matches!(self, Self::SessionClosed { .. } | Self::AuthFailed { .. } | Self::SessionFailed { .. })
    }
}

/// Why a value cannot be announced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnnounceError {
    /// The value is too long. Nothing was sent.
    #[error("the value for {path} has {length} bytes; shorten it to {longest} at most")]
    TooLong {
        /// The announcement's path.
        path: String,
        /// The value's length, in bytes.
        length: usize,
        /// The longest that it may be, in bytes.
        longest: usize,
    },
    /// An ACL forbids the announcement. A leader tries again, at intervals that grow to 1 s. If it may not read the
    /// node either, it tries again when it may read the node.
    #[error(
        "an ACL does not allow the announcement {path}; change the ACL of the election's directory so that it grants \
         CREATE and DELETE"
    )]
    NotAuthorized {
        /// The announcement's path.
        path: String,
    },
    /// The server refused the announcement for another reason. Usually somebody else made a node there, and that node
    /// has children. A leader tries again, at intervals that grow to 1 s.
    #[error(
        "the server refused the announcement {path}: {cause}; if somebody else made a node there, delete it"
    )]
    Refused {
        /// The announcement's path.
        path: String,
        /// The server's error.
        cause: String,
    },
}

/// The longest name of a run, in characters.
pub(crate) const LONGEST_NAME: usize = 128;

/// Why a run cannot have a name, or why a period cannot have runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameProblem {
    /// The name is empty.
    #[error("it is empty; name the run, for example by a date such as 2026-11-22")]
    Empty,
    /// The name is too long.
    #[error("it has {0} characters; shorten it to {LONGEST_NAME} at most")]
    TooLong(usize),
    /// The name contains a character other than ASCII letters, digits, `.`, `_`, `:`, `+` and `-`.
    #[error("it contains {0:?}; use ASCII letters, digits and the characters . _ : + - only")]
    Character(char),
    /// The name is `.` or `..`.
    #[error("ZooKeeper does not allow a node of that name; use another name")]
    Dots,
    /// The name is a contender's name.
    #[error("it is the name of a contender; use another name")]
    Contender,
    /// The period is not a number of whole seconds, or is zero.
    #[error("it is not a valid period; use whole seconds, at least 1")]
    Period,
}
