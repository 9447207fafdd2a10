//! Performs what the [claim](recipe::ClaimMachine) of a run asks for: reads the records, and writes its begin.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tracing::{debug, warn};
use zklock_recipe::claim::{self as recipe, ClaimCommand, ClaimEvent, ClaimOutcome, ClaimTarget};
use zklock_recipe::{Refusal, Tries};

use super::ending::Running;
use super::error::ClaimError;
use super::forgotten::Forgotten;
use super::name::RunName;
use super::record::{Record, RecordData, RecordState};
use super::requests::{self, Kept, RecordsPage};
use super::run::Run;
use crate::acquire::acquirer::Passage;
use crate::contender::{Course, Performed, Procedure};
use crate::error::AcquireError;
use crate::fence::FencingToken;
use crate::guard::Guard;
use crate::guard::lost::Lost;
use crate::guard::operation::{Node, NodeOptions};
use crate::guard::transaction::Transaction;
use crate::guard::transaction_error::{ConditionProblem, TransactionError};
use crate::mutex::Mutex;
use crate::node::encode;
use crate::path::child_of;
use crate::settings::Settings;
use crate::telemetry::{Acquired, FamilyMember};
use crate::wire::Wire;

/// How many records one transaction drops at most. If the number of records to keep was made much smaller, several claims
/// drop the rest.
const MOST_DROPPED: usize = 100;

/// The result of a claim.
#[derive(Debug)]
#[must_use = "a run that is dropped has begun and has no end"]
pub enum Claim {
    /// The caller does the work now.
    Run(Run),
    /// The run must not begin: it has succeeded; or it has failed or was never ended, and is not to be retried. The lock is
    /// released again.
    Recorded(Record),
}

impl Acquired for Claim {
    fn granted(&self, member: FamilyMember, waited: Duration) {
        if let Self::Run(run) = self {
            run.guard().granted(member, waited);
        }
    }

    fn fail_stop(&self) {
        if let Self::Run(run) = self {
            run.guard().fail_stop();
        }
    }
}

/// The records beside a lock, and what claims make of them.
pub(super) struct Ledger {
    pub(super) lock: Arc<Settings>,
    pub(super) directory: String,
    /// How many records are kept.
    pub(super) keep: usize,
    /// Whether a run that has not succeeded may begin again.
    pub(super) retry: bool,
}

/// What one claim may have begun, under one guard after the other.
pub(super) type SharedBegins = Arc<Mutex<recipe::Begins>>;

impl Ledger {
    /// Claims a run under this guard: begins it if it may begin, or releases the lock.
    pub(super) async fn claim(
        self: Arc<Self>,
        guard: Guard,
        name: RunName,
        begins: SharedBegins,
    ) -> Result<Passage<Result<Claim, ClaimError>>, AcquireError> {
        let machine = recipe::ClaimMachine::new(guard.token().zxid(), self.retry);
        let session = guard.session().clone();
        let claiming = Claiming {
            machine,
            begins,
            ledger: self.clone(),
            name: name.clone(),
            guard: Some(guard),
            tries: Tries::default(),
        };
        let mut course = Course::begin(session, claiming, ClaimEvent::Begin);
        let passage = course.outcome().await.unwrap_or(Passage::Displaced);
        if let Passage::Displaced = passage {
            warn!(
                path = self.lock.queue.path.as_str(),
                name = name.as_str(),
                "the lock was lost before a run began"
            );
        }
        Ok(passage)
    }

    pub(super) fn record_path(&self, name: &str) -> String {
        child_of(&self.directory, name)
    }

    fn read_page(&self, page: RecordsPage, name: &str) -> Result<recipe::Page<Rest>, ClaimError> {
        let forgotten = Forgotten::decode(&page.data)
            .map_err(|_| ClaimError::NotARecord { path: self.directory.clone() })?;
        let record = page.record.as_ref().map(|kept| self.decode(kept)).transpose()?;
        let seen = record.as_ref().zip(page.record.as_ref()).map(|(record, kept)| record.seen(kept));
        let may_be_forgotten = forgotten.range_of(name).is_some();
        let rest = Rest { page, forgotten, record, dropped: Vec::new() };
        Ok(recipe::Page { record: seen, may_be_forgotten, rest })
    }

    fn decode(&self, kept: &Kept) -> Result<Record, ClaimError> {
        let record = Record::decode(&self.directory, kept);
        record.ok_or_else(|| ClaimError::NotARecord { path: self.record_path(&kept.name) })
    }

    /// Finds the records that are too many once this run has one: those of the runs that began first. It reads them only if they
    /// may be too many.
    async fn find_dropped(&self, guard: &Guard, name: &str, rest: Rest) -> ClaimHeard {
        let others = rest.page.names.iter().filter(|other| *other != name).cloned().collect::<Vec<_>>();
        if others.len() < self.keep {
            return ClaimEvent::Prepared(rest);
        }
        let directory = self.directory.clone();
        let found = guard.request(|wire: Wire| requests::read_records(wire.client, directory, others)).await;
        self.take_answer(found, |found| {
            // A node that is no record stays, and so does one with children, which cannot be deleted.
            let is_record =
                |kept: &Kept| kept.stat.num_children == 0 && Record::decode(&self.directory, kept).is_some();
            let mut dropped = found.into_iter().filter(is_record).collect::<Vec<_>>();
            // By age, and not by name: so runs that a wrong clock ran do not take the place of present ones.
            dropped.sort_unstable_by_key(|kept| kept.stat.czxid);
            dropped.truncate((dropped.len() + 1).saturating_sub(self.keep).min(MOST_DROPPED));
            ClaimEvent::Prepared(Rest { dropped, ..rest })
        })
    }

    /// What came of a question under a guard.
    fn take_answer<T>(
        &self,
        asked: Result<Option<Result<T, zklock_recipe::Event>>, Lost>,
        then: impl FnOnce(T) -> ClaimHeard,
    ) -> ClaimHeard {
        match asked {
            Ok(Some(Ok(answer))) => then(answer),
            Ok(Some(Err(zklock_recipe::Event::Refused(refusal)))) => {
                ClaimEvent::Failed(self.refusal(refusal))
            }
            Ok(Some(Err(_)) | None) => ClaimEvent::Unanswered,
            Err(_) => ClaimEvent::Lost,
        }
    }

    /// The error for a server's refusal of a request about the records.
    pub(super) fn refusal(&self, refusal: Refusal) -> ClaimError {
        match refusal {
            Refusal::NotAuthorized => ClaimError::RecordNotAuthorized { path: self.directory.clone() },
            Refusal::Other(_) => AcquireError::refused(self.directory.clone(), refusal).into(),
            // The rest keeps the lock from being acquired, too.
            refusal => AcquireError::refused(self.lock.queue.path.to_string(), refusal).into(),
        }
    }

    /// Writes in one transaction that the run has begun, and drops records.
    async fn write_begin(&self, guard: &Guard, name: &str, attempt: u32, rest: Rest) -> ClaimHeard {
        let Rest { page, mut forgotten, dropped, .. } = rest;
        let remaining = remaining(&page, &dropped);
        dropped.iter().for_each(|kept| forgotten.add(&kept.name, name, &remaining));
        let begun = self.begun(guard.token(), attempt);
        let replaced = page.record.as_ref().map(|kept| kept.stat.version);
        let begin =
            recipe::begin(page.version, dropped.iter().map(|kept| (&kept.name, kept.stat.version)), replaced);
        let options = NodeOptions::new().acl(self.lock.options.acl.clone());
        let node = |target: ClaimTarget<&String>| match target {
            ClaimTarget::Records => Node::new(self.directory.clone(), encode(&forgotten)),
            ClaimTarget::Dropped(name) => Node::new(self.record_path(name), []),
            ClaimTarget::Record => {
                Node { options: options.clone(), ..Node::new(self.record_path(name), encode(&begun)) }
            }
        };
        let begin = begin.into_iter().map(|operation| operation.map(node));
        let transaction = begin.fold(guard.transaction(), Transaction::apply);
        match transaction.commit().await {
            Ok(_) => ClaimEvent::Written,
            Err(TransactionError::Lost(_)) => ClaimEvent::Lost,
            Err(TransactionError::Unknown { .. } | TransactionError::Throttled { .. }) => {
                ClaimEvent::Unanswered
            }
            Err(TransactionError::Condition { problem: ConditionProblem::NotAuthorized, .. }) => {
                ClaimEvent::Failed(self.refusal(Refusal::NotAuthorized))
            }
            // Somebody else has changed the records since the look, or an earlier transaction of ours has.
            Err(TransactionError::Condition {
                problem:
                    ConditionProblem::NoNode
                    | ConditionProblem::NodeExists
                    | ConditionProblem::BadVersion
                    | ConditionProblem::NotEmpty,
                ..
            }) => ClaimEvent::Contested,
            Err(TransactionError::Refused { cause, .. }) => {
                ClaimEvent::Failed(self.refusal(Refusal::Other(cause)))
            }
            Err(error) => ClaimEvent::Failed(self.refusal(Refusal::Other(error.to_string()))),
        }
    }

    fn begun(&self, token: FencingToken, attempt: u32) -> RecordData {
        let owner = self.lock.options.owner.clone();
        RecordData { state: RecordState::Begun, owner, token: token.zxid(), attempt }
    }

    /// Writes the data of before in place of the begin of a run that nobody has taken, or deletes it if there are none.
    async fn restore_record(
        &self,
        guard: &Guard,
        path: String,
        version: i32,
        before: Option<Vec<u8>>,
    ) -> ClaimHeard {
        let restore = recipe::restore(version, before.is_some());
        let restore = restore.map(|()| Node::new(path.clone(), before.unwrap_or_default()));
        match guard.transaction().apply(restore).commit().await {
            Ok(_) => ClaimEvent::Written,
            Err(TransactionError::Lost(_)) => ClaimEvent::Lost,
            Err(TransactionError::Unknown { .. } | TransactionError::Throttled { .. }) => {
                ClaimEvent::Unanswered
            }
            Err(error) => {
                warn!(path, %error, "the record says that the run has begun, but nobody executes the run");
                ClaimEvent::Contested
            }
        }
    }
}

/// What a look at the records shows beside the run's own one, and what is to be dropped.
struct Rest {
    page: RecordsPage,
    forgotten: Forgotten,
    record: Option<Record>,
    dropped: Vec<Kept>,
}

/// A claim under one guard.
struct Claiming {
    machine: recipe::ClaimMachine<Rest>,
    begins: SharedBegins,
    ledger: Arc<Ledger>,
    name: RunName,
    /// `None` once the caller has it, or it is released.
    guard: Option<Guard>,
    tries: Tries,
}

type ClaimHeard = ClaimEvent<Rest, ClaimError>;

/// What a claim's caller is told.
type Told = Passage<Result<Claim, ClaimError>>;

impl Procedure for Claiming {
    type Heard = ClaimHeard;
    type Command = ClaimCommand<Rest, ClaimError>;
    type Outcome = Told;

    const OUTLASTS_THE_SESSION: bool = true;
    const GONE: Option<ClaimHeard> = Some(ClaimEvent::GiveUp);

    fn handle(&mut self, heard: ClaimHeard) -> Vec<Self::Command> {
        match &heard {
            ClaimEvent::Unanswered => {
                debug!("a request of a claim was not answered");
                self.tries.failed();
            }
            ClaimEvent::Verified => {}
            _ => self.tries.answered(),
        }
        let failure = if let ClaimEvent::Failed(error) = &heard { Some(error.to_string()) } else { None };
        let commands = self.machine.handle(&mut self.begins.lock(), heard);
        if let Some(error) = failure.filter(|_| self.machine.is_ended() && commands.is_empty()) {
            let path = self.ledger.record_path(self.name.as_str());
            warn!(path, error, "the record may say that the run has begun, but nobody executes the run");
        }
        commands
    }

    fn perform(&mut self, command: Self::Command) -> Performed<ClaimHeard, Told> {
        if let ClaimCommand::Tell(outcome) = command {
            return Performed::Told(self.claim_outcome(outcome));
        }
        // What is under way does not count as a guard: it may be dropped, and the hold goes on.
        let Some(guard) = self.guard.as_ref().map(Guard::uncounted) else { return Performed::Done };
        let ledger = self.ledger.clone();
        let name = self.name.as_str().to_owned();
        let request = match command {
            ClaimCommand::Look => {
                let pause = guard.session().pause_after(self.tries);
                async move {
                    pause.await;
                    look_at_records(ledger, guard, name).await
                }
                .boxed()
            }
            // Its parent exists, because the lock's directory is in it.
            ClaimCommand::Create => async move {
                let lock = ledger.lock.clone();
                let directory = ledger.directory.clone();
                let created =
                    guard.request(|wire| requests::create_records(wire.client, lock, directory)).await;
                ledger.take_answer(created, |_| ClaimEvent::Created)
            }
            .boxed(),
            ClaimCommand::Prepare(rest) => {
                async move { ledger.find_dropped(&guard, &name, rest).await }.boxed()
            }
            ClaimCommand::Write(attempt, _, rest) => {
                async move { ledger.write_begin(&guard, &name, attempt, rest).await }.boxed()
            }
            ClaimCommand::Verify => async move {
                debug!("a claim asks a quorum whether it still has the lock");
                guard.verify().await.map_or_else(|_| ClaimEvent::Lost, |()| ClaimEvent::Verified)
            }
            .boxed(),
            ClaimCommand::Release => {
                let guard = self.guard.take().unwrap_or(guard);
                // If the release is not confirmed, it goes on in the background.
                guard.release().map(|_| ClaimEvent::Released).boxed()
            }
            ClaimCommand::Restore(record, before) => {
                debug!("a run has begun that nobody executes, so its record is put back");
                let path = ledger.record_path(&name);
                async move { ledger.restore_record(&guard, path, record.version, before).await }.boxed()
            }
            ClaimCommand::Tell(_) => return Performed::Done,
        };
        Performed::Request(request)
    }

    fn is_ended(&self) -> bool {
        self.machine.is_ended()
    }
}

impl Claiming {
    fn claim_outcome(&mut self, outcome: ClaimOutcome<Rest, ClaimError>) -> Told {
        let ledger = &self.ledger;
        let unconfirmed = || ClaimError::Unconfirmed { path: ledger.record_path(self.name.as_str()) };
        Passage::Passed(match outcome {
            ClaimOutcome::Runs(attempt, version) => {
                let Some(guard) = self.guard.take() else { return Passage::Displaced };
                let directory = ledger.directory.clone();
                let name = self.name.as_str().to_owned();
                let run = Running { directory, name, begun: ledger.begun(guard.token(), attempt), version };
                Ok(Claim::Run(Run::new(guard, run)))
            }
            ClaimOutcome::Done(page) => page.rest.record.map(Claim::Recorded).ok_or_else(unconfirmed),
            ClaimOutcome::Forgotten(rest) => {
                let path = ledger.lock.queue.path.to_string();
                let name = self.name.as_str().to_owned();
                let (first, last) = rest.forgotten.range_of(&name).cloned().unwrap_or_default();
                Err(ClaimError::Forgotten { path, name, first, last })
            }
            ClaimOutcome::Unconfirmed => Err(unconfirmed()),
            ClaimOutcome::Displaced => return Passage::Displaced,
            ClaimOutcome::Failed(error) => Err(error),
        })
    }
}

/// The names of the records that stay, in order.
fn remaining<'a>(page: &'a RecordsPage, dropped: &[Kept]) -> Vec<&'a str> {
    let names = page.names.iter().map(String::as_str);
    let mut remaining =
        names.filter(|name| dropped.iter().all(|kept| kept.name != *name)).collect::<Vec<_>>();
    remaining.sort_unstable();
    remaining
}

async fn look_at_records(ledger: Arc<Ledger>, guard: Guard, name: String) -> ClaimHeard {
    let directory = ledger.directory.clone();
    let wanted = name.clone();
    let page = guard.request(|wire| requests::read_records_page(wire.client, directory, wanted)).await;
    ledger.take_answer(page, |page| match page.map(|page| ledger.read_page(page, &name)).transpose() {
        Ok(page) => ClaimEvent::Looked(page),
        Err(error) => ClaimEvent::Failed(error),
    })
}
