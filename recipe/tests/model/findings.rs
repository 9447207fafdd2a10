//! What a step can show: that a rule had occasion to be broken.

/// What has happened in some state of a model: so that a rule which holds also had occasion to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Witness {
    GrantByRelease,
    GrantByListing,
    GrantByCount,
    GrantAfterLapse,
    Busy,
    DirectoryCreated,
    DirectoryReset,
    RecoveryFindsNode,
    RecoveryFindsNone,
    RemovalFoundDone,
    RemovalFoundUndone,
    GiveUpWhileEntering,
    GiveUpWhileWaiting,
    GiveUpOnceGranted,
    PredecessorVanishedWhileDisconnected,
    StrayCreate,
    GuardLost,
    HolderTold,
    /// A release was forged while a guard was valid.
    ReleaseForged,
    /// A holder found that a contender blocks it.
    ForgeryFound,
    ToldByMissingNode,
    TakeoverDelayed,
    GiveUpWhileDelayed,
    /// A read was answered by a follower that was behind.
    AnswerFromThePast,
    /// A session that the leader had ended went on at a follower.
    ServedAfterItsEnd,
    MovedToFollower,
    MovedToLeader,
    LeaseExtended,
    /// A predecessor went when one of the two watches on it was set.
    GoneBetweenItsWatches,
    /// A waiter's predecessor had been written to before its node was deleted.
    DeletedAfterAWrite,
    /// A request to resume a session was heard of after the client had given it up.
    ResumedLate,
    /// A contender ended because it saw one of another client.
    ForeignerMet,
    /// A contender of another client held the lock when a guard had been there before it.
    ForeignerHeldNext,
    /// A contender counted an ask among the children of its directory.
    AskCounted,
    /// The limit of a guard was reached while its lease lasted.
    LimitReached,
    /// An acquisition that nobody polled gave its place up.
    Evicted,
    /// A caller polled again before that.
    PolledAgain,
    /// A contender looked for its node in what another one's search had found.
    SearchShared,
    ReaderGrantedByRelease,
    /// A guard was granted beside one that was valid.
    GrantBesideAnother,
    /// A member of a group was first in its queue, and watched its own node while another one waited.
    FirstAmongWaiting,
    /// A release found a node gone.
    ReleaseFindsNone,
    /// A guard vanished in front of somebody who waited.
    GuardVanished,
    /// A contender that was unsure of its nodes looked at them, and one was not there, or was another's.
    LookFindsNone,
    /// A member of a group was told that its own node was gone while another one waited.
    ToldBeforeTheGrant,
    /// A contender asked a quorum for its nodes before its grant, because it had not seen them on its connection.
    NodesAsked,
    /// A create took effect after its contender had looked for its node, and the session deleted that node.
    LateCreateSwept,
}
