//! The servers, as far as one slot is concerned: the queue of its lock, and its record.

use zklock_recipe::claim::{Progress, Record, RunEnd};

use crate::claimer::{Caller, Claimer, Fate};
use crate::setup::{Breach, Faults, Mutant, Setup, Witness};

/// A process, by its index in the world.
pub(crate) type Party = usize;

/// The token of a guard: the number of its node in the queue.
pub(crate) type Token = i64;

/// Stands in what an operator writes.
const OPERATOR: Token = 0;

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
            Progress::Ended(RunEnd::Succeeded) => 1,
            Progress::Ended(RunEnd::Failed) => 2,
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
        let ends = [Progress::Ended(RunEnd::Succeeded), Progress::Ended(RunEnd::Failed)];
        let progress = [Progress::Begun, ends[0], ends[1]][usize::from(data[0])];
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
    End(RunEnd, u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Written,
    Contested,
    Lost,
    /// The server had too much to do.
    Busy,
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
        Self {
            queue: Vec::new(),
            next: 1,
            node: None,
            claimers: vec![Claimer::new(setup.claims); setup.retries.len()],
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

    /// The transaction, as a server carries it out.
    pub(crate) fn apply(
        &mut self,
        party: Party,
        token: Token,
        write: &Write,
        mutant: Option<Mutant>,
        witness: &impl Fn(Witness),
    ) -> Reply {
        let unlocked = mutant == Some(Mutant::BeginsWithoutTheLock) && matches!(write, Write::Begin(..));
        if !unlocked && self.queue.first() != Some(&(party, token)) {
            return Reply::Lost;
        }
        let node = self.node;
        match write {
            Write::Begin(attempt, replaces) => {
                // A server compares no tokens.
                if node.map(|node| node.version) != *replaces {
                    return Reply::Contested;
                }
                let runs = |claimer: &Claimer| matches!(claimer.caller, Caller::Running { valid: true, .. });
                if self.claimers.iter().any(runs) {
                    self.breach(Breach::Beside);
                }
                let begun = Node { progress: Progress::Begun, token, attempt: *attempt, version: 0 };
                self.node = Some(begun);
            }
            Write::Restore(version, before) => {
                let Some(node) = node.filter(|node| node.version == *version) else {
                    return Reply::Contested;
                };
                witness(if before.is_some() { Witness::PutBack } else { Witness::TakenBack });
                self.node = before.as_ref().map(|data| Node::of(data, node.version + 1));
            }
            Write::End(end, version) => {
                let unchecked = mutant == Some(Mutant::OverwritesAnothersRecord);
                let Some(node) = node.filter(|node| node.version == *version || unchecked) else {
                    return Reply::Contested;
                };
                self.end(node, *end, token);
                match self.claimers[party].fate {
                    Fate::Denied => self.breach(Breach::DeniedEnd),
                    Fate::Open | Fate::Written => self.claimers[party].fate = Fate::Written,
                }
            }
        }
        Reply::Written
    }

    /// An operator writes to the record: the same again, or that the slot has succeeded.
    pub(crate) fn meddle(&mut self, end: Option<RunEnd>) {
        match (self.node, end) {
            (Some(node), Some(end)) => self.end(node, end, OPERATOR),
            (Some(node), None) => self.node = Some(Node { version: node.version + 1, ..node }),
            (None, _) => {}
        }
    }

    fn end(&mut self, node: Node, end: RunEnd, token: Token) {
        let (progress, version) = (Progress::Ended(end), node.version + 1);
        self.node = Some(Node { progress, token, version, ..node });
        self.succeeded |= end == RunEnd::Succeeded;
    }
}
