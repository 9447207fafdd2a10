//! Who takes part in a model, what may go wrong, and what is broken on purpose.

/// A candidate, by its index in the world. Its session has the same one.
pub(crate) type Party = usize;

/// What a model consists of, and what is broken on purpose.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) candidates: usize,
    /// Whether an observer is there.
    pub(crate) observed: bool,
    /// Whether candidates hear an answer at once. Their connections do not break then.
    pub(crate) prompt: bool,
    /// Whether events name their transactions, as from ZooKeeper 3.9 on.
    pub(crate) named: bool,
    /// What may go wrong, each as often as it is named.
    pub(crate) faults: Vec<Fault>,
    pub(crate) mutant: Option<Mutant>,
}

/// What may go wrong once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// The connection of a candidate breaks.
    Break,
    /// A connection or a session of the observer ends.
    Outage,
    /// The new connection of the observer leads to a server that is further behind, whose reads are answered before it has caught up.
    Rewind,
    /// A lease lapses. Its session may expire from then on.
    Lapse,
    /// A leader proclaims another value after the first one.
    Proclamation,
    /// An operator deletes a candidate from the queue.
    Eviction,
    /// An operator writes to the node of a holder.
    Touch,
    /// An operator deletes an announcement.
    Deletion,
    /// An operator writes to an announcement.
    Write,
    /// An operator makes an announcement.
    Forgery,
    /// A server refuses an announcement or a look, as an ACL says at that moment.
    Refusal,
    /// A server withholds a change from a candidate, because the session may not read the announcement at that moment.
    Silence,
}

/// A rule that a candidate or the observer breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Announces itself without a check of its own node.
    AnnouncesWithoutTheCheck,
    /// Leaves its announcement behind when it resigns.
    LeavesItsAnnouncement,
    /// Takes an announcement that is there for a reason not to announce itself.
    IsStoppedByALeftover,
    /// Makes its announcement again once, and then no more.
    GivesUpAfterTheFirstDisturbance,
    /// Announces nothing more once a server has refused it.
    GivesUpWhenRefused,
    /// Waits for a reply that nobody gives.
    StopsAtSilence,
    /// Takes an announcement that was not answered for one that is made.
    TakesUnknownForAnnounced,
    /// Takes the reply to a proclamation for that to a later one.
    TakesTheReplyToAnOlderProclamation,
    /// Forgets what was proclaimed while it waited for a reply.
    ForgetsAProclamation,
    /// Does not watch its announcement again on the next connection.
    ForgetsThatItsOwnWatchIsLost,
    /// Does not look again after a long silence.
    TrustsALongSilence,
    /// Does not look after its announcement.
    IgnoresItsAnnouncement,
    /// Does not take its announcement back when its own node was deleted.
    ForgetsItsAnnouncement,
    /// Does not look for its announcement when it finds its node gone after a release whose reply was lost.
    TakesAMissingNodeForAResignation,
    /// Waits with its end until its announcement can go along.
    StaysWithItsAnnouncement,
    /// Takes back any announcement that it finds.
    TakesBackWhatIsNotIts,
    /// Does not take its announcement back if somebody has written to it.
    LeavesWhatWasWrittenTo,
    /// Takes its announcement back by one try.
    TakesBackOnce,
    /// Takes the announcement along when it gives up, though it is another's.
    TakesAnothersAnnouncement,
    /// An observer that reads before it watches.
    ReadsBeforeItWatches,
    /// An observer that takes a lower token after a higher one.
    TakesALowerToken,
    /// An observer that takes a lower token for a loss of data before the server has caught up.
    BelievesAServerThatIsBehind,
    /// An observer that takes a change during a look for one that the look shows.
    IgnoresChangesDuringALook,
    /// An observer that does not watch again on the next connection.
    ForgetsThatItsWatchIsLost,
    /// An observer that takes whatever is there for an announcement.
    TakesAnythingForAnAnnouncement,
}

/// What has happened in some state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Witness {
    Announced,
    Proclaimed,
    LeftoverReplaced,
    AnnouncedAgain,
    ResignedWithAnnouncement,
    ResignedBare,
    Retracted,
    /// A candidate took back what another one had announced by then, and that one announced itself again.
    RetractedAnothers,
    StrayApplied,
    Refused,
    Hidden,
    Withheld,
    ReleaseUnanswered,
    Touched,
    ReleaseFoundDone,
    Expired,
    ToldSomebody,
    ToldNobody,
    ToldTheNext,
    /// Two events of one transaction led to one look.
    Coalesced,
    LookedAgain,
    ReadFromThePast,
    EventOvertookTheAnswer,
    ServerBehindWasAsked,
    LookedBehindASync,
}
