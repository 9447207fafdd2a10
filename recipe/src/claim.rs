//! The claim of a run that happens once: whether it begins, its begin, and what becomes of a begin that nobody takes.
//!
//! A claim holds the lock. It looks at the run's record, and begins the run by one transaction that takes effect only while the
//! lock is held, and only if the record is as it was seen.
//!
//! ```text
//!            Create <---+  there are no records
//!              |        |
//!   Begin ---> Look ----+---> Release ---> Tell(Done); Tell(Forgotten)
//!              ^        |
//!   Verify ----+        v                  written
//!     ^        |     Prepare ---> Write ------------> Tell(Runs)
//!     |        +------------------- | somebody else has changed the records
//!     +-- nobody answers, to any of these
//!
//!   the guard is lost:                       Tell(Displaced)
//!   the caller goes, or is told of a failure, after a begin was sent:  Verify ---> Look ---> Restore
//! ```
//!
//! # Invariants
//!
//! 1. The caller is told to do the run only under a guard with whose token the record says that the run has begun.
//! 2. A claim that comes back under another guard knows the tokens under which it has sent a begin. Nothing ran under them, so a
//!    record that has one of them is a begin of its own that came late, and no run.
//! 3. A begin that may have been written, and whose caller is told anything else or has gone, is taken back while a guard lives,
//!    unless the servers refuse that, or answer none of 16 tries: the record of before is written again, or there is none again.
//! 4. A look after a write without an answer comes after a quorum's answer, so that write has taken effect by then, or never does.
//!    What an earlier guard has sent takes effect before its node is gone, so before the present guard.

use alloc::vec;
use alloc::vec::Vec;

use crate::transaction::Operation;

/// How often the records are looked at, if nobody answers or somebody else changes them: for a begin, and once more to take one
/// back.
const TRIES: u32 = 16;

/// How far a run has come, by its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has begun, and perhaps ended without a word.
    Begun,
    /// It has ended.
    Ended(RunEnd),
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The run has succeeded. The run never happens again.
    Succeeded,
    /// The run has failed. If the caller asks for that, it begins again (`OnceOptions::retry`).
    Failed,
}

/// A run's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRecord {
    /// How far the last run has come.
    pub progress: Progress,
    /// The token of the guard under which it began.
    pub token: i64,
    /// How many runs have begun, that one included.
    pub attempt: u32,
    /// The version of the record's node.
    pub version: i32,
    /// The node's data.
    pub data: Vec<u8>,
}

/// What a look at the records shows. `P` is what else is needed of it to write: it is passed on as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<P> {
    /// The run's record, if there is one.
    pub record: Option<SeenRecord>,
    /// Whether a record of the run may have been dropped.
    pub may_be_forgotten: bool,
    /// The rest.
    pub rest: P,
}

/// What one claim remembers from one guard to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begins {
    /// The tokens of the guards under which it has sent a begin. Under none of them anything ran.
    unstarted: Vec<i64>,
    /// The data of the record of an earlier attempt, whose place the begins take.
    before: Option<Vec<u8>>,
}

/// A claim under one guard. `P` is as in [`Page`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimMachine<P> {
    /// The guard's token.
    token: i64,
    retry: bool,
    state: ClaimState<P>,
    looks: u32,
    /// Whether a caller waits to be told the outcome.
    awaited: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ClaimState<P> {
    Idle,
    /// `Look` is out.
    Looking,
    /// `Create` is out.
    Creating,
    /// `Verify` is out, because a request was not answered.
    Verifying,
    /// `Prepare` is out, for this attempt in place of this record.
    Preparing(u32, Option<SeenRecord>),
    /// `Write` is out, for this attempt.
    Writing(u32),
    /// `Release` is out, because this page says that the run must not happen.
    Releasing(Page<P>),
    /// A begin is being taken back: `Verify` is out.
    TakingBack,
    /// As that: `Look` is out.
    LookingBack,
    /// As that: `Restore` is out.
    Restoring,
    Ended,
}

/// One input of a claim. `E` is an error that no repetition mends. A reply belongs to the last request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimEvent<P, E> {
    /// The lock is held.
    Begin,
    /// Reply to `Look`; nothing if there are no records at all.
    Looked(Option<Page<P>>),
    /// Reply to `Create`.
    Created,
    /// Reply to `Prepare`: what is to be written beside the begin.
    Prepared(P),
    /// Reply to `Write` or `Restore`: it took effect.
    Written,
    /// Reply to `Write` or `Restore`: it had no effect, because the records are not as they were seen.
    Contested,
    /// Reply to `Verify`: a quorum has answered, and the lock is held.
    Verified,
    /// Reply to `Release`, or there will be none.
    Released,
    /// The last request failed for good. It had no effect.
    Failed(E),
    /// The last request was not answered. It may have taken effect.
    Unanswered,
    /// The guard is lost.
    Lost,
    /// The caller has gone.
    GiveUp,
}

/// One output of a claim. All but `Tell` are requests, and one event answers each. A new request takes the place of the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimCommand<P, E> {
    /// Read the records.
    Look,
    /// Create the directory of the records.
    Create,
    /// Find out what is to be written beside the begin: which records are too many.
    Prepare(P),
    /// Write that this attempt has begun, in place of this record.
    Write(u32, Option<SeenRecord>, P),
    /// Ask a quorum whether the lock is held.
    Verify,
    /// Release the lock.
    Release,
    /// In place of our begin, which is this record, write the data of before, or delete it if there are none.
    Restore(SeenRecord, Option<Vec<u8>>),
    /// Tell the caller.
    Tell(ClaimOutcome<P, E>),
}

/// What becomes of a claim, for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome<P, E> {
    /// The caller does the run: this attempt. Its record has this version.
    Runs(u32, i32),
    /// The run must not happen, as this record says. The lock is released.
    Done(Page<P>),
    /// Nobody knows whether the run has happened.
    Forgotten(P),
    /// Nobody knows what the records say.
    Unconfirmed,
    /// The guard was lost before a run began.
    Displaced,
    /// A request failed for good.
    Failed(E),
}

/// What the records say of a run.
enum Verdict {
    /// It must not run.
    Done,
    /// This very guard has begun it: this attempt.
    Ours(u32),
    /// It runs now, as this attempt.
    Runs(u32),
    /// Nobody knows whether it has run.
    Forgotten,
}

/// A node of the transaction that begins a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimTarget<R> {
    /// The directory of the records, which remembers those that were dropped.
    Records,
    /// A record that is dropped.
    Dropped(R),
    /// The run's record.
    Record,
}

/// The transaction that begins a run, behind a check that the lock is held: over these versions of the directory, of the records that
/// are dropped, and of the run's own. A record of an earlier attempt is deleted and created again, so that its `ctime` is the begin
/// of this one.
pub fn begin<R>(
    records: i32,
    dropped: impl IntoIterator<Item = (R, i32)>,
    record: Option<i32>,
) -> Vec<Operation<ClaimTarget<R>>> {
    let delete = |(record, version)| Operation::Delete(ClaimTarget::Dropped(record), Some(version));
    let mut operations = dropped.into_iter().map(delete).collect::<Vec<_>>();
    let directory = if operations.is_empty() {
        Operation::Check(ClaimTarget::Records, Some(records))
    } else {
        Operation::Set(ClaimTarget::Records, Some(records))
    };
    operations.insert(0, directory);
    operations.extend(record.map(|version| Operation::Delete(ClaimTarget::Record, Some(version))));
    operations.push(Operation::Create(ClaimTarget::Record));
    operations
}

/// The transaction that takes a begin back, behind the same check: on the record with this version, for which there are data of before
/// or not.
pub fn restore(version: i32, is_any_before: bool) -> Operation<()> {
    if is_any_before { Operation::Set((), Some(version)) } else { Operation::Delete((), Some(version)) }
}

impl Begins {
    /// Whether a record may say that the run has begun.
    pub fn is_any(&self) -> bool {
        !self.unstarted.is_empty()
    }

    /// Decides whether the run begins, under the lock. So a run that has begun under another guard belongs to nobody alive.
    fn judge<P>(&self, page: &Page<P>, retry: bool, token: i64) -> Verdict {
        let Some(record) = &page.record else {
            return if page.may_be_forgotten { Verdict::Forgotten } else { Verdict::Runs(1) };
        };
        match record.progress {
            Progress::Begun if record.token == token => Verdict::Ours(record.attempt),
            // This claim has written it, and was told so too late. It is still the same attempt.
            Progress::Begun if self.unstarted.contains(&record.token) => Verdict::Runs(record.attempt),
            Progress::Begun | Progress::Ended(RunEnd::Failed) if retry => {
                Verdict::Runs(record.attempt.saturating_add(1))
            }
            Progress::Begun | Progress::Ended(_) => Verdict::Done,
        }
    }

    /// A begin is about to take the place of this record. If that is a begin of this claim, what it replaced counts.
    fn replace(&mut self, record: Option<&SeenRecord>) {
        if record.is_none_or(|record| !self.unstarted.contains(&record.token)) {
            self.before = record.map(|record| record.data.clone());
        }
    }
}

impl<P> ClaimMachine<P> {
    /// Makes a claim under the guard with this token. A run that has not succeeded runs again, if it is to `retry`.
    pub fn new(token: i64, retry: bool) -> Self {
        Self { token, retry, state: ClaimState::Idle, looks: 0, awaited: true }
    }

    /// Whether there is nothing more to do.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, ClaimState::Ended)
    }

    /// Takes in one event, and returns the commands that follow from it. `begins` is what the claim remembers of earlier guards.
    pub fn handle<E>(&mut self, begins: &mut Begins, event: ClaimEvent<P, E>) -> Vec<ClaimCommand<P, E>> {
        use ClaimState::{
            Creating, Idle, Looking, LookingBack, Preparing, Releasing, Restoring, TakingBack, Verifying,
            Writing,
        };
        match (core::mem::replace(&mut self.state, ClaimState::Ended), event) {
            (ClaimState::Ended, _) => vec![],
            (Idle, ClaimEvent::Begin) => self.look_at_records(begins),

            // What was begun stays so: without the guard nothing can be written.
            (TakingBack | LookingBack | Restoring, ClaimEvent::Lost) => vec![],
            (TakingBack, ClaimEvent::Verified) => self.request(LookingBack, ClaimCommand::Look),
            (LookingBack, ClaimEvent::Looked(Some(Page { record: Some(record), .. })))
                if record.progress == Progress::Begun && begins.unstarted.contains(&record.token) =>
            {
                self.request(Restoring, ClaimCommand::Restore(record, begins.before.clone()))
            }
            (LookingBack | Restoring, ClaimEvent::Unanswered) if self.looks < TRIES => {
                self.looks += 1;
                self.request(TakingBack, ClaimCommand::Verify)
            }
            (state @ (TakingBack | LookingBack | Restoring), ClaimEvent::GiveUp) => {
                self.state = state;
                vec![]
            }
            (LookingBack | Restoring, _) => vec![],

            // The record counts, also if the release is not confirmed.
            (Releasing(page), ClaimEvent::Released | ClaimEvent::Lost) => {
                self.tell_outcome(ClaimOutcome::Done(page))
            }
            (_, ClaimEvent::Lost) => self.tell_outcome(ClaimOutcome::Displaced),
            // The record is not this claim's. The lock is released in the background.
            (Releasing(_), ClaimEvent::GiveUp) => vec![],
            (_, ClaimEvent::GiveUp) => {
                self.awaited = false;
                self.take_back(begins)
            }

            (Looking, ClaimEvent::Looked(None)) => self.request(Creating, ClaimCommand::Create),
            (Looking, ClaimEvent::Looked(Some(page))) => self.weigh(begins, page),
            (Creating, ClaimEvent::Created)
            | (Writing(_), ClaimEvent::Contested)
            | (Verifying, ClaimEvent::Verified) => self.look_at_records(begins),
            (Preparing(attempt, record), ClaimEvent::Prepared(rest)) => {
                begins.replace(record.as_ref());
                // From here on a record may say that the run has begun, though nothing runs.
                if !begins.unstarted.contains(&self.token) {
                    begins.unstarted.push(self.token);
                }
                self.request(Writing(attempt), ClaimCommand::Write(attempt, record, rest))
            }
            // The record is a new node, whose version is zero.
            (Writing(attempt), ClaimEvent::Written) => self.tell_outcome(ClaimOutcome::Runs(attempt, 0)),
            // The next look must come after a quorum's answer.
            (Looking | Creating | Preparing(..) | Writing(_), ClaimEvent::Unanswered) => {
                self.request(Verifying, ClaimCommand::Verify)
            }
            (Looking | Creating | Preparing(..) | Writing(_), ClaimEvent::Failed(error)) => {
                self.fail(begins, ClaimOutcome::Failed(error))
            }

            // No reply to the last request.
            (state, _) => {
                self.state = state;
                vec![]
            }
        }
    }

    fn weigh<E>(&mut self, begins: &Begins, page: Page<P>) -> Vec<ClaimCommand<P, E>> {
        match begins.judge(&page, self.retry, self.token) {
            Verdict::Runs(attempt) => {
                self.request(ClaimState::Preparing(attempt, page.record), ClaimCommand::Prepare(page.rest))
            }
            Verdict::Ours(attempt) => {
                let version = page.record.map_or(0, |record| record.version);
                self.tell_outcome(ClaimOutcome::Runs(attempt, version))
            }
            Verdict::Done => self.request(ClaimState::Releasing(page), ClaimCommand::Release),
            Verdict::Forgotten => self.fail(begins, ClaimOutcome::Forgotten(page.rest)),
        }
    }

    fn request<E>(&mut self, state: ClaimState<P>, command: ClaimCommand<P, E>) -> Vec<ClaimCommand<P, E>> {
        self.state = state;
        vec![command]
    }

    fn look_at_records<E>(&mut self, begins: &Begins) -> Vec<ClaimCommand<P, E>> {
        if self.looks == TRIES {
            return self.fail(begins, ClaimOutcome::Unconfirmed);
        }
        self.looks += 1;
        self.request(ClaimState::Looking, ClaimCommand::Look)
    }

    fn fail<E>(&mut self, begins: &Begins, outcome: ClaimOutcome<P, E>) -> Vec<ClaimCommand<P, E>> {
        let mut commands = self.tell_outcome(outcome);
        commands.extend(self.take_back(begins));
        commands
    }

    /// Takes a begin back, if there may be one: of this guard, or of an earlier one.
    fn take_back<E>(&mut self, begins: &Begins) -> Vec<ClaimCommand<P, E>> {
        if !begins.is_any() {
            return vec![];
        }
        self.looks = 0;
        self.request(ClaimState::TakingBack, ClaimCommand::Verify)
    }

    fn tell_outcome<E>(&mut self, outcome: ClaimOutcome<P, E>) -> Vec<ClaimCommand<P, E>> {
        let awaited = core::mem::replace(&mut self.awaited, false);
        awaited.then_some(ClaimCommand::Tell(outcome)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
