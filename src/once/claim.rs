//! Claims of slots: what the records say of a slot, and the transaction by which its run begins.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use tracing::warn;
use zklock_recipe::Refusal;

use super::ask::{Unread, ask};
use super::error::ClaimError;
use super::forgotten::Forgotten;
use super::record::{Record, RecordData, RecordState};
use super::slot::Slot;
use super::turn::Turn;
use crate::fence::FencingToken;
use crate::guard::Guard;
use crate::guard::lost::Lost;
use crate::guard::operation::NodeOptions;
use crate::guard::transaction_error::{ConditionProblem, TransactionError};
use crate::lock::acquire::Passage;
use crate::lock::error::AcquireError;
use crate::requests::{self, Kept, Page};
use crate::settings::Settings;

/// How often the begin of a run is written, if nobody answers or somebody else changes the records.
const TRIES: u32 = 8;

/// How many records one transaction drops at most. If the number of records to keep was made much smaller, several claims
/// drop the rest.
const MOST_DROPPED: usize = 100;

/// The result of a claim.
#[derive(Debug)]
#[must_use = "a turn that is dropped has begun its slot without an end"]
pub enum Claim {
    /// The caller runs the slot now.
    Turn(Turn),
    /// The slot must not run: it has succeeded; or it has failed or was never ended, and is not to be retried. The lock is
    /// released again.
    Done(Record),
}

/// The records beside a lock, and what claims make of them.
pub(super) struct Ledger {
    pub(super) lock: Arc<Settings>,
    pub(super) directory: String,
    /// How many records are kept.
    pub(super) keep: usize,
    /// Whether a slot runs again that has not succeeded.
    pub(super) retry: bool,
}

/// Why a run was not begun.
pub(super) enum NotBegun {
    /// The guard was lost. If a record with its token says that the slot has begun, nothing has run all the same.
    Lost,
    /// For good.
    For(ClaimError),
}

impl From<Lost> for NotBegun {
    fn from(_: Lost) -> Self {
        Self::Lost
    }
}

impl From<ClaimError> for NotBegun {
    fn from(error: ClaimError) -> Self {
        Self::For(error)
    }
}

/// What the records say of a slot.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It must not run.
    Done(Record),
    /// This very guard has begun it, as this attempt.
    Ours { attempt: u32 },
    /// It runs now, as this attempt.
    Runs { attempt: u32 },
    /// Nobody knows whether it has run.
    Forgotten,
}

impl Ledger {
    /// Claims a slot under this guard: begins its run if it may run, or releases the lock.
    pub(super) async fn claim(
        self: Arc<Self>,
        guard: Guard,
        slot: Slot,
        begins: Begins,
    ) -> Result<Passage<Result<Claim, ClaimError>>, AcquireError> {
        Ok(match self.begin_or_find(guard, &slot, &begins).await {
            Ok(claim) => Passage::Passed(Ok(claim)),
            Err(NotBegun::For(error)) => Passage::Passed(Err(error)),
            Err(NotBegun::Lost) => {
                let (path, slot) = (self.lock.path.as_str(), slot.as_str());
                warn!(path, slot, "the lock was lost before a run began");
                Passage::Displaced
            }
        })
    }

    async fn begin_or_find(
        self: &Arc<Self>,
        guard: Guard,
        slot: &Slot,
        begins: &Begins,
    ) -> Result<Claim, NotBegun> {
        let token = guard.token();
        // From here on a record may say that the slot has begun, though nothing runs.
        begins.lock().unstarted.push(token);
        let mut untaken = None;
        for _ in 0..TRIES {
            let Some(page) = self.page(&guard, slot).await? else {
                self.create_directory(&guard).await?;
                continue;
            };
            let mut forgotten = Forgotten::decode(&page.data)
                .map_err(|_| ClaimError::NotARecord { path: self.directory.clone() })?;
            let record = page.record.as_ref().map(|kept| self.decode(kept)).transpose()?;
            let range = forgotten.range_of(slot.as_str());
            let data = page.record.as_ref().map(|kept| kept.data.as_slice());
            let attempt = match begins.judge(record, data, range.is_some(), self.retry, token) {
                Verdict::Runs { attempt } => attempt,
                Verdict::Ours { attempt } => {
                    let version = page.record.map_or(0, |kept| kept.stat.version);
                    let begun = self.begun(token, attempt);
                    untaken.iter_mut().for_each(Untaken::taken);
                    return Ok(Claim::Turn(Turn::new(guard, &self.directory, slot.as_str(), begun, version)));
                }
                Verdict::Done(record) => {
                    // If the release is not confirmed, it goes on in the background. The record counts all the same.
                    let _released = guard.release().await;
                    return Ok(Claim::Done(record));
                }
                Verdict::Forgotten => {
                    let (path, slot) = (self.lock.path.to_string(), slot.as_str().to_owned());
                    let (first, last) = range.cloned().unwrap_or_default();
                    return Err(ClaimError::SlotForgotten { path, slot, first, last }.into());
                }
            };
            let dropped = self.surplus(&guard, slot, &page).await?;
            let remaining = remaining(&page, &dropped);
            dropped.iter().for_each(|kept| forgotten.add(&kept.name, slot.as_str(), &remaining));
            let begun = self.begun(token, attempt);
            let untaken = untaken.get_or_insert_with(|| {
                let (ledger, slot, begins) = (self.clone(), slot.clone(), begins.clone());
                Untaken { ledger, slot, begins, guard: Some(guard.share()) }
            });
            match self.begin(&guard, slot, &page, &forgotten, dropped, &begun).await {
                // The record is a new node, whose version is zero.
                Ok(()) => {
                    untaken.taken();
                    return Ok(Claim::Turn(Turn::new(guard, &self.directory, slot.as_str(), begun, 0)));
                }
                Err(TransactionError::Lost(_)) => return Err(NotBegun::Lost),
                // The next look shows what became of it. It must come after a quorum's answer.
                Err(TransactionError::Unknown { .. } | TransactionError::Throttled { .. }) => {
                    guard.verify().await?;
                }
                Err(TransactionError::Condition { problem: ConditionProblem::NotAuthorized, .. }) => {
                    return Err(ClaimError::NotAuthorized { path: self.directory.clone() }.into());
                }
                // Somebody else has changed the records since the look, or an earlier transaction of ours has.
                Err(TransactionError::Condition {
                    problem:
                        ConditionProblem::NoNode
                        | ConditionProblem::NodeExists
                        | ConditionProblem::BadVersion
                        | ConditionProblem::NotEmpty,
                    ..
                }) => {}
                Err(error) => return Err(ClaimError::refused(&self.directory, error).into()),
            }
        }
        Err(ClaimError::Unconfirmed { path: self.path(slot.as_str()) }.into())
    }

    /// Writes in one transaction that the run has begun, and drops these records. A record of an earlier attempt is
    /// deleted and created again, so that its `ctime` is the begin of this one.
    async fn begin(
        &self,
        guard: &Guard,
        slot: &Slot,
        page: &Page,
        forgotten: &Forgotten,
        dropped: Vec<Kept>,
        begun: &RecordData,
    ) -> Result<(), TransactionError> {
        let version = Some(page.version);
        let mut transaction = match dropped.is_empty() {
            true => guard.transaction().check(&self.directory, version),
            false => guard.transaction().set(&self.directory, forgotten.encode(), version),
        };
        for kept in dropped.iter().chain(&page.record) {
            transaction = transaction.delete(self.path(&kept.name), Some(kept.stat.version));
        }
        let options = NodeOptions::new().acl(self.lock.acl.clone());
        transaction.create_with(self.path(slot.as_str()), begun.encode(), options).commit().await.map(drop)
    }

    fn begun(&self, token: FencingToken, attempt: u32) -> RecordData {
        let owner = self.lock.owner.clone();
        RecordData { state: RecordState::Begun, owner, token: token.zxid(), attempt }
    }

    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    fn decode(&self, kept: &Kept) -> Result<Record, ClaimError> {
        let record = Record::decode(&self.directory, kept);
        record.ok_or_else(|| ClaimError::NotARecord { path: self.path(&kept.name) })
    }

    /// The records that are too many once this slot has one: those of the runs that began first. It reads them only if they
    /// may be too many.
    async fn surplus(&self, guard: &Guard, slot: &Slot, page: &Page) -> Result<Vec<Kept>, NotBegun> {
        let others = page.names.iter().filter(|name| *name != slot.as_str()).cloned().collect::<Vec<_>>();
        if others.len() < self.keep {
            return Ok(Vec::new());
        }
        let found = ask(guard, || {
            let (directory, names) = (self.directory.clone(), others.clone());
            |wire| requests::records(wire.client, directory, names)
        });
        let found = found.await.map_err(|unread| self.unread(unread))?;
        // A node that is no record stays, and so does one with children, which cannot be deleted.
        let is_record =
            |kept: &Kept| kept.stat.num_children == 0 && Record::decode(&self.directory, kept).is_some();
        let mut records = found.into_iter().filter(is_record).collect::<Vec<_>>();
        // By age, and not by name: so slots that a wrong clock ran do not take the place of present ones.
        records.sort_unstable_by_key(|kept| kept.stat.czxid);
        records.truncate((records.len() + 1).saturating_sub(self.keep).min(MOST_DROPPED));
        Ok(records)
    }

    async fn page(&self, guard: &Guard, slot: &Slot) -> Result<Option<Page>, NotBegun> {
        let page = ask(guard, || {
            let (directory, name) = (self.directory.clone(), slot.as_str().to_owned());
            |wire| requests::page(wire.client, directory, name)
        });
        page.await.map_err(|unread| self.unread(unread))
    }

    /// Creates the directory of the records. Its parent exists, because the lock's directory is in it.
    async fn create_directory(&self, guard: &Guard) -> Result<(), NotBegun> {
        let created = ask(guard, || {
            let (lock, directory) = (self.lock.clone(), self.directory.clone());
            |wire| requests::create_records(wire.client, lock, directory)
        });
        created.await.map(drop).map_err(|unread| self.unread(unread))
    }

    fn unread(&self, unread: Unread) -> NotBegun {
        match unread {
            Unread::Lost(_) => NotBegun::Lost,
            Unread::Refused(refusal) => self.refusal(refusal).into(),
            Unread::Unanswered => ClaimError::Unconfirmed { path: self.directory.clone() }.into(),
        }
    }

    /// The error for a server's refusal of a request about the records.
    pub(super) fn refusal(&self, refusal: Refusal) -> ClaimError {
        match refusal {
            Refusal::NotAuthorized => ClaimError::NotAuthorized { path: self.directory.clone() },
            Refusal::Other(cause) => ClaimError::refused(&self.directory, cause),
            // The rest keeps the lock from being acquired, too.
            refusal => AcquireError::refused(self.lock.path.to_string(), refusal).into(),
        }
    }
}

/// What one claim may have begun, under one guard after the other.
#[derive(Clone, Default)]
pub(super) struct Begins(Arc<Mutex<Begun>>);

#[derive(Default)]
struct Begun {
    /// The tokens of the guards that this claim has had. Under none of them anything ran.
    unstarted: Vec<FencingToken>,
    /// The data of the record of an earlier attempt, whose place the begins take.
    before: Option<Vec<u8>>,
}

impl Begins {
    /// Whether a record may say that the slot has begun.
    pub(super) fn is_any(&self) -> bool {
        !self.lock().unstarted.is_empty()
    }

    /// Decides whether the slot runs. If it does, remembers the record that is to be replaced, unless that is a begin of this
    /// claim.
    fn judge(
        &self,
        record: Option<Record>,
        data: Option<&[u8]>,
        may_be_forgotten: bool,
        retry: bool,
        token: FencingToken,
    ) -> Verdict {
        let mut begun = self.lock();
        let is_own = record.as_ref().is_some_and(|record| begun.unstarted.contains(&record.token));
        let verdict = verdict(record, may_be_forgotten, retry, token, &begun.unstarted);
        if matches!(verdict, Verdict::Runs { .. }) && !is_own {
            begun.before = data.map(<[u8]>::to_vec);
        }
        verdict
    }

    fn lock(&self) -> MutexGuard<'_, Begun> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The begin of a run that was sent, while nobody has the turn. Dropped, it is taken back in the background: the caller has
/// gone, or did not poll, so nothing runs. The lock is released after that.
struct Untaken {
    ledger: Arc<Ledger>,
    slot: Slot,
    begins: Begins,
    /// `None` once the caller has the turn.
    guard: Option<Guard>,
}

impl Untaken {
    fn taken(&mut self) {
        self.guard = None;
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            let (ledger, slot, before) =
                (self.ledger.clone(), self.slot.clone(), self.begins.lock().before.clone());
            let session = guard.hold().session().clone();
            session.finish_write(async move { ledger.take_back(guard, slot, before).await }.boxed());
        }
    }
}

impl Ledger {
    /// Takes the begin of a run back, if this guard has written it.
    async fn take_back(&self, guard: Guard, slot: Slot, before: Option<Vec<u8>>) {
        for _ in 0..TRIES {
            // After a quorum's answer the begin is written, or is never written.
            let page = match guard.verify().await {
                Ok(()) => self.page(&guard, &slot).await,
                Err(_) => return,
            };
            let Ok(Some(Page { record: Some(kept), .. })) = page else { return };
            let record = Record::decode(&self.directory, &kept);
            let is_ours =
                |record: Record| record.state == RecordState::Begun && record.token == guard.token();
            if !record.is_some_and(is_ours) {
                return;
            }
            let (path, version) = (self.path(slot.as_str()), Some(kept.stat.version));
            let transaction = match &before {
                Some(data) => guard.transaction().set(&path, data.clone(), version),
                None => guard.transaction().delete(&path, version),
            };
            match transaction.commit().await {
                Err(TransactionError::Unknown { .. } | TransactionError::Throttled { .. }) => {}
                Ok(_) => return,
                Err(error) => {
                    warn!(path, %error, "a slot has begun by its record, and nobody runs it");
                    return;
                }
            }
        }
    }
}

/// The names of the records that stay, in order.
fn remaining<'a>(page: &'a Page, dropped: &[Kept]) -> Vec<&'a str> {
    let names = page.names.iter().map(String::as_str);
    let mut remaining =
        names.filter(|name| dropped.iter().all(|kept| kept.name != *name)).collect::<Vec<_>>();
    remaining.sort_unstable();
    remaining
}

/// Decides whether a slot runs, under the lock. So a run that has begun under another guard belongs to nobody alive.
fn verdict(
    record: Option<Record>,
    may_be_forgotten: bool,
    retry: bool,
    token: FencingToken,
    unstarted: &[FencingToken],
) -> Verdict {
    let Some(record) = record else {
        return if may_be_forgotten { Verdict::Forgotten } else { Verdict::Runs { attempt: 1 } };
    };
    match record.state {
        RecordState::Begun if record.token == token => Verdict::Ours { attempt: record.attempt },
        // This claim has written it, and was told so too late. It is still the same attempt.
        RecordState::Begun if unstarted.contains(&record.token) => Verdict::Runs { attempt: record.attempt },
        RecordState::Begun | RecordState::Failed if retry => {
            Verdict::Runs { attempt: record.attempt.saturating_add(1) }
        }
        RecordState::Begun | RecordState::Failed | RecordState::Succeeded => Verdict::Done(record),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const OURS: i64 = 9;
    const LOST: i64 = 8;

    fn record(state: RecordState, token: i64) -> Record {
        Record {
            slot: "s".to_owned(),
            path: "/lock/a.once/s".to_owned(),
            state,
            owner: String::new(),
            token: FencingToken::new(token),
            attempt: 2,
            begun: UNIX_EPOCH,
            ended: None,
        }
    }

    /// That names up to this one were dropped matters only without a record.
    fn verdict_on(state: RecordState, token: i64, retry: bool) -> Verdict {
        let (ours, lost) = (FencingToken::new(OURS), FencingToken::new(LOST));
        verdict(Some(record(state, token)), true, retry, ours, &[lost])
    }

    #[track_caller]
    fn assert_done(state: RecordState, token: i64, retry: bool) {
        assert_eq!(verdict_on(state, token, retry), Verdict::Done(record(state, token)));
    }

    #[test]
    fn a_success_is_final() {
        for token in [7, LOST, OURS] {
            for retry in [false, true] {
                assert_done(RecordState::Succeeded, token, retry);
            }
        }
    }

    #[test]
    fn a_failed_or_abandoned_run_runs_again_only_if_asked_to() {
        for state in [RecordState::Failed, RecordState::Begun] {
            assert_done(state, 7, false);
            assert_eq!(verdict_on(state, 7, true), Verdict::Runs { attempt: 3 });
        }
    }

    #[test]
    fn an_own_begin_is_recognised_with_and_without_retry() {
        for retry in [false, true] {
            assert_eq!(verdict_on(RecordState::Begun, OURS, retry), Verdict::Ours { attempt: 2 });
            assert_eq!(verdict_on(RecordState::Begun, LOST, retry), Verdict::Runs { attempt: 2 });
        }
    }

    /// A claim that loses the lock behind its begin, and begins again, still knows whose record it has replaced.
    #[test]
    fn a_begin_that_replaces_an_own_begin_takes_the_place_of_the_record_before_that() {
        let begins = Begins::default();
        begins.lock().unstarted = vec![FencingToken::new(LOST), FencingToken::new(OURS)];
        let judge = |found: Option<(RecordState, i64, &[u8])>| {
            let (data, record) = (found.map(|it| it.2), found.map(|(state, token, _)| record(state, token)));
            let verdict = begins.judge(record, data, false, true, FencingToken::new(OURS));
            assert!(matches!(verdict, Verdict::Runs { .. }), "{verdict:?}");
            begins.lock().before.clone()
        };
        let failed = Some(b"failed".to_vec());
        assert_eq!(judge(Some((RecordState::Failed, 7, b"failed"))), failed);
        assert_eq!(judge(Some((RecordState::Begun, LOST, b"begun"))), failed);
        assert_eq!(judge(None), None, "an operator has deleted it");
    }

    #[test]
    fn without_a_record_a_slot_runs_unless_it_may_be_forgotten() {
        let ours = FencingToken::new(OURS);
        for retry in [false, true] {
            assert_eq!(verdict(None, false, retry, ours, &[]), Verdict::Runs { attempt: 1 });
            assert_eq!(verdict(None, true, retry, ours, &[]), Verdict::Forgotten);
        }
    }
}
