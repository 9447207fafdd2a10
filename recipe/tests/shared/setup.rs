//! What a model consists of, what may go wrong, and what is broken on purpose.

use zklock_recipe::Patience;

/// A contender, by its index: zklock's first, then the other client's. Its session has the same one.
pub(crate) type Party = usize;

/// What a model consists of, and what is broken on purpose.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// zklock's contenders.
    pub(crate) contenders: Vec<Patience>,
    /// How many the other client has.
    pub(crate) foreigners: usize,
    /// Whether zklock may write to the directory, and so its releases leave a trace.
    pub(crate) traced: bool,
    /// What may go wrong, each as often as it is named.
    pub(crate) faults: Vec<Fault>,
    pub(crate) mutant: Option<Mutant>,
}

/// What may go wrong once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A session of the other client's expires. Its contender goes on believing that it holds the lock.
    Vanishing,
    /// A session of zklock's expires. The lease ends before.
    Expiry,
    /// A caller of zklock's gives up before it has the lock.
    Departure,
    /// A connection of zklock's breaks. The request that was under way was carried out, or was not.
    Break,
    /// The empty directory, a container, is removed.
    Reap,
    /// An operator deletes the node of a zklock contender that waits.
    Eviction,
    /// A client writes to the node of a zklock contender that waits, and so asks it to leave.
    Revocation,
}

/// A rule that is broken: in the place of zklock's machine, of what performs its commands, or of the other client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Takes over as in zklock's own queue: a newcomer does not delay.
    DelaysAsInItsOwnQueue,
    /// Never delays.
    TakesOverAtOnce,
    /// Takes the queue for free whatever number its own node gets.
    ForgetsTheNumber,
    /// Takes a directory that never had a child for one that shows a release.
    TrustsANewDirectory,
    /// Takes the queue for free though its node is in another directory than the one at which it looked before.
    TrustsAnotherDirectory,
    /// Takes each listing for one after a release.
    TakesEachListingForOneAfterARelease,
    /// Takes each end of a node of the other client's for a release of ours.
    TakesForeignEndsForReleases,
    /// Takes each end of a node of ours for a release.
    TakesEachEndOfOursForARelease,
    /// Takes each deletion of the last child for a release that left a trace.
    TrustsWithoutATrace,
    /// Leaves a trace if it gives up as a waiter.
    GivesUpByATracedRelease,
    /// Has a guard that is valid for longer than its session.
    OutlivesItsSession,
    /// Has a delay that ends before the other client's contenders know.
    DelaysTooShort,
    /// Takes a release for its grant without asking for its own node.
    TrustsItsNode,
    /// Passes over what somebody has written to its node.
    KeepsAWrittenNode,
    /// Leaves its node in the queue when it gives up.
    LeavesItsNode,
    /// Waits on when its connection, and so its watch, is lost.
    ForgetsThatItsWatchIsLost,
    /// The other client does not count contenders of ours.
    PassesOursOver,
}

/// What has happened in some state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Witness {
    /// One of ours is granted after one of the other client's has held the lock.
    OursAfterTheirs,
    /// One of theirs holds after one of ours has.
    TheirsAfterOurs,
    /// Granted without a delay, because the queue was free.
    NewcomerAtOnce,
    /// About to be granted without a delay, because the predecessor released.
    WaiterAtOnce,
    /// About to be granted without a delay, because a listing shows the release.
    ListerAtOnce,
    /// A delay outlasted a contender that believed that it held the lock.
    DelayOutlasted,
    Delayed,
    GaveUp,
    Expired,
    NodeFound,
    NodeNotFound,
    RemovalFoundDone,
    DirectoryMadeAgain,
    FoundBusy,
    /// Left because somebody had written to its node.
    Displaced,
    /// Ended because somebody had deleted its node.
    Evicted,
}
