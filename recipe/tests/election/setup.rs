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
    pub(crate) faults: Faults,
    pub(crate) mutant: Option<Mutant>,
}

/// How often each may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Connections of candidates that break.
    pub(crate) breaks: u8,
    /// Connections or sessions of the observer that end.
    pub(crate) outages: u8,
    /// New connections of the observer to a server that is further behind, whose reads are answered before it has caught up.
    pub(crate) rewinds: u8,
    /// Leases that lapse. Their sessions may expire from then on.
    pub(crate) lapses: u8,
    /// Values that a leader proclaims after the first one.
    pub(crate) proclamations: u8,
    /// Candidates that an operator deletes from the queue.
    pub(crate) evictions: u8,
    /// Nodes of holders that an operator writes to.
    pub(crate) touches: u8,
    /// Announcements that an operator deletes.
    pub(crate) deletions: u8,
    /// Announcements that an operator writes to.
    pub(crate) writes: u8,
    /// Announcements that an operator makes.
    pub(crate) forgeries: u8,
    /// Announcements and looks that a server refuses, as an ACL says at that moment.
    pub(crate) refusals: u8,
    /// Changes that a server withholds from a candidate, because the session may not read the announcement at that moment.
    pub(crate) silences: u8,
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
    AnnouncementRefusedByTheCheck,
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
}
