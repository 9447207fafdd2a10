//! The processes that claim one slot, its lock and its record.

use zklock_recipe::claim::{Begins, Claim, Progress, Record};

/// A process, by its index in the world.
pub(crate) type Party = usize;

/// The token of a guard: the number of its node in the queue.
pub(crate) type Token = i64;

/// What a model consists of, and what is broken on purpose.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Whether each process runs a slot again that has not succeeded.
    pub(crate) retries: &'static [bool],
    /// How many times each process claims the slot, one after the other.
    pub(crate) claims: u8,
    pub(crate) faults: Faults,
    pub(crate) mutant: Option<Mutant>,
}

/// How often each may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Connections that break while a process waits for an answer.
    pub(crate) breaks: u8,
    /// Callers that go, or do not poll, before they know what became of their claim.
    pub(crate) departures: u8,
    /// Guards that are lost while their session lives on for a while.
    pub(crate) losses: u8,
    /// Nodes of holders that an operator deletes.
    pub(crate) evictions: u8,
    /// Processes that die.
    pub(crate) crashes: u8,
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
    /// Runs a slot again that has begun, though it is not to.
    RetriesUnasked,
    /// Waits for an answer that nobody gives.
    StopsAtSilence,
}

/// What no step may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Breach {
    /// The slot ran again for one that does not retry.
    Twice,
    /// The slot ran again after a success.
    AfterSuccess,
    /// Its run began by the record while another one was under way whose guard was valid.
    Beside,
    /// It ran, and no record says so.
    Unrecorded,
    /// Somebody was told that a run has begun that nobody ran, though its claim has ended in peace.
    Invented,
}

/// What has happened in some state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Witness {
    Ran,
    RanAgain,
    ToldDone,
    Adopted,
    BeganAgain,
    TakenBack,
    PutBack,
    StrayApplied,
    StrayRefused,
    Displaced,
    LeftByTheDead,
    Unconfirmed,
}

impl From<Witness> for u8 {
    fn from(witness: Witness) -> Self {
        witness as Self
    }
}

/// The record's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) progress: Progress,
    pub(crate) token: Token,
    pub(crate) attempt: u8,
    pub(crate) version: u8,
}

impl Node {
    /// What a look shows.
    pub(crate) fn record(self) -> Record {
        let progress = match self.progress {
            Progress::Begun => 0,
            Progress::Succeeded => 1,
            Progress::Failed => 2,
        };
        Record {
            progress: self.progress,
            token: self.token,
            attempt: self.attempt.into(),
            version: self.version.into(),
            data: vec![progress, self.token as u8, self.attempt],
        }
    }

    /// The node with this data, written over one with this version.
    pub(crate) fn of(data: &[u8], version: u8) -> Self {
        let progress = [Progress::Begun, Progress::Succeeded, Progress::Failed][usize::from(data[0])];
        Self { progress, token: data[1].into(), attempt: data[2], version }
    }
}

/// A write, which takes effect only while its guard's node is there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    /// The begin of this attempt, in place of a record with this version.
    Begin(u8, Option<u8>),
    /// In place of the record with this version: that data, or nothing.
    Restore(u8, Option<Vec<u8>>),
    /// The end of the run, whose record has this version.
    End(Progress, u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Written,
    Contested,
    Lost,
}

/// What the machine has asked for last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pending {
    Nothing,
    Look,
    Verify,
    Write(Write),
    Answered(Reply),
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// It is about to claim, if it has claims left.
    Idle,
    Queued,
    /// It holds the lock, and its machine works.
    Claiming,
    /// It runs the slot. Its record has this version.
    Running {
        version: u8,
        valid: bool,
    },
    /// It has gone. Its machine goes on in the background.
    Gone,
    /// Its process is dead. Its session may not be over yet.
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claimer {
    pub(crate) caller: Caller,
    pub(crate) claims: u8,
    pub(crate) machine: Option<Claim<()>>,
    pub(crate) begins: Begins,
    pub(crate) pending: Pending,
    pub(crate) token: Token,
    /// The guard is lost, and its node is there for a while.
    pub(crate) lost: bool,
    /// The tokens that this claim has had.
    pub(crate) tokens: Vec<Token>,
    /// Writes of lost connections that may still be carried out.
    pub(crate) strays: Vec<(Token, Write)>,
}

impl Claimer {
    /// Nobody waits any more for the answer to the write that is on its way.
    pub(crate) fn stray(&mut self) {
        if let Pending::Write(write) = &self.pending {
            self.strays.push((self.token, write.clone()));
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// The lock's queue, the holder first.
    pub(crate) queue: Vec<(Party, Token)>,
    pub(crate) next: Token,
    pub(crate) node: Option<Node>,
    pub(crate) claimers: Vec<Claimer>,
    /// The tokens under which the slot ran.
    pub(crate) ran: Vec<Token>,
    /// The tokens of guards that were lost, so that their begins may stay.
    pub(crate) excused: Vec<Token>,
    /// Whether a run has succeeded.
    pub(crate) succeeded: bool,
    pub(crate) faults: Faults,
    pub(crate) breach: Option<Breach>,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let claimer = Claimer {
            caller: Caller::Idle,
            claims: setup.claims,
            machine: None,
            begins: Begins::default(),
            pending: Pending::Nothing,
            token: 0,
            lost: false,
            tokens: Vec::new(),
            strays: Vec::new(),
        };
        Self {
            queue: Vec::new(),
            next: 1,
            node: None,
            claimers: vec![claimer; setup.retries.len()],
            ran: Vec::new(),
            excused: Vec::new(),
            succeeded: false,
            faults: setup.faults,
            breach: None,
        }
    }

    /// Whether the node of the process's guard is there.
    pub(crate) fn holds(&self, party: Party) -> bool {
        self.queue.first() == Some(&(party, self.claimers[party].token))
    }

    pub(crate) fn leave(&mut self, party: Party) {
        self.queue.retain(|(owner, _)| *owner != party);
        // The leader refuses what needs the node.
        self.claimers[party].strays.clear();
    }

    pub(crate) fn breach(&mut self, breach: Breach) {
        self.breach = self.breach.or(Some(breach));
    }
}
