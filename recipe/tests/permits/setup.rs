//! What a model consists of, what may go wrong, what must not, and what is broken on purpose.

use zklock_recipe::{Patience, Stock, Takeover, Wish};

/// A contender, by its index in the world. Its session has the same one.
pub(crate) type Party = usize;

/// What a model consists of, and what is broken on purpose.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// What each contender asks for.
    pub(crate) wishes: Vec<(Wish, Patience)>,
    pub(crate) stock: Stock,
    pub(crate) takeover: Takeover,
    /// Those whose server is the follower.
    pub(crate) following: Vec<Party>,
    pub(crate) faults: Faults,
    pub(crate) mutant: Option<Mutant>,
}

/// How often each may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Connections that break while a contender waits for a reply, or for a change.
    pub(crate) breaks: u8,
    /// Transactions that are carried out after their contender has looked for them.
    pub(crate) late: u8,
    /// Sessions that end. The lease of a holder ends before.
    pub(crate) expiries: u8,
    /// Callers that go, or do not poll, before they have their permit.
    pub(crate) departures: u8,
    /// Permits that an operator deletes.
    pub(crate) evictions: u8,
    /// Nodes in the turnstile that an operator deletes.
    pub(crate) displacements: u8,
    /// Nodes in the turnstile that an operator writes to.
    pub(crate) touches: u8,
    /// Changes of the stock, to each of the neighbouring numbers.
    pub(crate) changes: u8,
}

/// A rule that a contender breaks: in the machine's place, or in that of the servers' client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Its transaction does not check the version of the pool.
    IgnoresTheVersion,
    /// Counts itself among the permits that are held.
    CountsItself,
    /// Its transaction does not check its node in the turnstile.
    IgnoresTheTurnstile,
    /// Takes an unknown outcome for a failure, and queues again.
    TakesUnknownForFailed,
    /// Takes its permit before its turn if there is room.
    PassesTheLarge,
    /// Counts permits, and not their weights.
    SumsCounts,
    /// Lists the permits before it reads the version.
    ListsBeforeItReads,
    /// Lists its session's permits first, and then asks a quorum and reads the turnstile.
    SettlesInTheWrongOrder,
    /// Goes with its caller while its transaction is under way.
    DropsItsAttempt,
    /// Does not look again at what it sees when it sets its watch.
    TrustsItsFirstLook,
    /// Watches the permits, and not the capacity.
    WatchesPermitsOnly,
    /// Waits on when its connection, and so its watch, is lost.
    ForgetsThatItsWatchIsLost,
    /// Takes an unknown outcome for a failure, and tries again at once, whether or not it still has the turnstile. Its transaction
    /// does not check that either.
    TriesAgain,
    /// Has a lease that lasts longer than its session.
    OutlivesItsSession,
    /// Leaves the turnstile and forgets that an earlier transaction may still be carried out.
    ForgetsItsDoubt,
    /// Waits for an answer that nobody gives when it asks what became of its transaction.
    StopsAtSilence,
    /// Goes on as if its caller had not gone while its transaction was under way.
    ForgetsThatItsCallerHasGone,
    /// Takes a node in the turnstile that is gone for the end of its attempts, without looking for the permit.
    TakesGoneForFailed,
    /// Stops looking for its permit when nobody answers, once its caller has gone.
    GivesItsDoubtUp,
    /// Takes a node in the turnstile that somebody wrote to for one that is gone.
    TakesTouchedForGone,
    /// Waits for room though it only tries.
    WaitsThoughItTries,
    /// Does not delay after it has waited in the turnstile.
    ForgetsTheTurnstile,
    /// Does not delay after it has waited for room.
    ForgetsThatItWaited,
    /// Does not delay after an attempt in vain.
    ForgetsItsAttempt,
    /// Is admitted by what it sees after its delay.
    LooksAfterItsDelay,
}

/// What has happened in some state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Witness {
    Waited,
    HeldTogether,
    LargeHeld,
    FoundRoomAtTheWatch,
    SentInVain,
    Adopted,
    NotCommitted,
    QueuedAgain,
    StrayApplied,
    StrayRefused,
    LateApplied,
    GivenBack,
    Expired,
    Told,
    Refused,
    Delayed,
    VanishedInTheDelay,
    AttemptedAtOnce,
    AnsweredFromThePast,
    FoundBusy,
    FoundTouched,
    TookAnotherSlot,
}
