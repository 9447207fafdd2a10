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
    /// What may go wrong, each as often as it is named.
    pub(crate) faults: Vec<Fault>,
    pub(crate) mutant: Option<Mutant>,
}

/// What may go wrong once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A connection breaks while its contender waits for a reply, or for a change.
    Break,
    /// A transaction is carried out after its contender has looked for it.
    Late,
    /// A session ends. The lease of a holder ends before.
    Expiry,
    /// A caller goes, or does not poll, before it has its permit.
    Departure,
    /// An operator deletes a permit.
    Eviction,
    /// An operator deletes a node in the turnstile.
    Displacement,
    /// An operator writes to a node in the turnstile.
    Touch,
    /// The stock changes, to one of the neighbouring numbers.
    Change,
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
