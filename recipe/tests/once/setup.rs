//! Who takes part in a model, what may go wrong, and what is broken on purpose.

/// A process, by its index in the world. Its session has the same one.
pub(crate) type Party = usize;

/// The token of a guard: the transaction that created its node in the queue.
pub(crate) type Token = i64;

/// What a model consists of, and what is broken on purpose.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Whether each process does a run again that has not succeeded.
    pub(crate) retries: &'static [bool],
    /// How many times each process claims the run, one after the other.
    pub(crate) claims: u8,
    /// What may go wrong, each as often as it is named.
    pub(crate) faults: Vec<Fault>,
    pub(crate) mutant: Option<Mutant>,
}

/// What may go wrong once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A connection breaks while its process waits for an answer.
    Break,
    /// A caller goes, or does not poll, before it knows what became of its claim.
    Departure,
    /// A guard is lost while its session lives on for a while.
    Loss,
    /// An operator deletes the node of a holder.
    Eviction,
    /// A process dies.
    Crash,
    /// A busy server does not carry a write out.
    Refusal,
    /// An operator writes to the record of a run that goes on.
    Meddling,
}

/// A rule that a claim breaks: in the machine's place, or in that of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Its begin takes effect though the lock is no longer held.
    BeginsWithoutTheLock,
    /// Takes a begin whose outcome is unknown for one that is written.
    TakesUnknownForBegun,
    /// Takes a begin whose outcome is unknown for one that failed for good, and does not take it back.
    TakesUnknownForFailed,
    /// Forgets under which tokens it has sent a begin.
    ForgetsItsTokens,
    /// Goes with its caller, and does not take its begin back.
    LeavesItsBegin,
    /// Looks for its begin without a quorum's answer.
    LooksTooEarly,
    /// Takes its begin back by deleting it, whatever was there before.
    ForgetsWhatItReplaced,
    /// Takes a success for a failure.
    RetriesASuccess,
    /// Does a run again that has begun, though it is not to.
    RetriesUnasked,
    /// Waits for an answer that nobody gives.
    StopsAtSilence,
    /// Takes an end whose outcome is unknown for one that is written.
    TakesUnknownForEnded,
    /// Says that an end is not written, though it may be.
    DeniesTheUnknown,
    /// Says that an end is not written because somebody else has changed the record, though both may have happened.
    DeniesTheReplaced,
    /// Looks for its end without a quorum's answer.
    SettlesTooEarly,
    /// Takes another's record for its own.
    TakesAnothersRecord,
    /// Takes a record to which somebody has written for the one with which the run began.
    TakesTouchedForBegun,
    /// Writes its end over whatever is there.
    OverwritesAnothersRecord,
    /// Takes a write that had no effect for somebody else's change, without a look.
    BlamesOthersAtOnce,
    /// Takes a write that had no effect for one whose outcome is unknown.
    TakesRefusedForUnknown,
    /// Does not write its end again.
    GivesUpTheUnwritten,
    /// Takes a record of a begin for one of the end.
    TakesBegunForEnded,
    /// Waits for an answer to its end that nobody gives.
    StopsAtSilenceInTheEnd,
}

/// What has happened in some state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Witness {
    Ran,
    RanAgain,
    ToldDone,
    Adopted,
    BeganAgain,
    TakenBack,
    PutBack,
    StrayApplied,
    Displaced,
    LeftByTheDead,
    Unconfirmed,
    EndTold,
    EndSeen,
    EndWrittenAgain,
    EndUnconfirmed,
    EndReplaced,
    EndUnwritten,
    EndChanged,
}
