//! Performs what the [end](recipe::Ending) of a run asks for: writes it to the run's record, and has that confirmed.

use futures::FutureExt;
use zklock_recipe::claim::RunEnd;
use zklock_recipe::ending::{self as recipe, EndingCommand, EndingEvent, EndingOutcome};
use zklock_recipe::{Event as Reply, Refusal, Tries};

use super::error::RecordError;
use super::record::{Record, RecordData};
use super::requests;
use crate::contender::{Course, Performed, Procedure};
use crate::guard::Guard;
use crate::guard::lost::Lost;
use crate::guard::operation::Node;
use crate::guard::transaction_error::{ConditionProblem, TransactionError};
use crate::node::encode;
use crate::path::child_of;

/// A run that has begun, and its record.
#[derive(Clone)]
pub(super) struct Running {
    pub(super) directory: String,
    pub(super) name: String,
    /// What the record says while the run goes on.
    pub(super) begun: RecordData,
    /// The version of the record's node.
    pub(super) version: i32,
}

type EndingHeard = EndingEvent<RecordError>;

impl Running {
    /// Writes the end of the run, and returns once that is confirmed.
    pub(super) async fn end(&self, guard: &Guard, end: RunEnd) -> Result<(), RecordError> {
        let ending = EndingRun {
            machine: recipe::Ending::new(end, self.begun.token, self.version),
            run: self.clone(),
            // What is under way does not count as a guard.
            guard: guard.uncounted(),
            tries: Tries::default(),
        };
        let told = Course::begin(guard.session().clone(), ending, EndingEvent::Begin).outcome().await;
        told.unwrap_or_else(|| Err(RecordError::Unconfirmed { path: self.path() }))
    }

    fn path(&self) -> String {
        child_of(&self.directory, &self.name)
    }

    async fn write_end(self, guard: Guard, end: RunEnd, version: i32) -> EndingHeard {
        let path = self.path();
        let data = encode(&self.begun.ended(end));
        let write = recipe::write(version).map(|()| Node::new(path.clone(), data));
        event_of_write(guard.transaction().apply(write).commit().await, path)
    }

    async fn look_at_record(self, guard: Guard) -> EndingHeard {
        let path = self.path();
        let directory = self.directory.clone();
        let name = self.name;
        match guard.request(|wire| requests::read_record(wire.client, directory, name)).await {
            Ok(Some(Ok(found))) => {
                let seen = |kept| Record::decode(&self.directory, kept).map(|record| record.seen(kept));
                EndingEvent::Looked(found.as_ref().and_then(seen))
            }
            Ok(Some(Err(Reply::Refused(Refusal::NotAuthorized)))) => {
                EndingEvent::Failed(RecordError::NotAuthorized { path })
            }
            Ok(Some(Err(Reply::Refused(refusal)))) => {
                EndingEvent::Failed(RecordError::Refused { path, cause: refusal.to_string() })
            }
            Ok(Some(Err(_)) | None) => EndingEvent::Unanswered,
            Err(lost) => EndingEvent::Failed(RecordError::Lost { path, lost }),
        }
    }

    async fn verify(self, guard: Guard) -> EndingHeard {
        let lost = |lost: Lost| EndingEvent::Failed(RecordError::Lost { path: self.path(), lost });
        guard.verify().await.map_or_else(lost, |()| EndingEvent::Verified)
    }
}

/// The end of a run on its way.
struct EndingRun {
    machine: recipe::Ending,
    run: Running,
    guard: Guard,
    tries: Tries,
}

impl Procedure for EndingRun {
    type Heard = EndingHeard;
    type Command = EndingCommand<RecordError>;
    type Outcome = Result<(), RecordError>;

    const OUTLASTS_THE_SESSION: bool = true;
    /// The end is written all the same.
    const GONE: Option<EndingHeard> = None;

    fn handle(&mut self, heard: EndingHeard) -> Vec<Self::Command> {
        match &heard {
            EndingEvent::Unanswered => self.tries.failed(),
            EndingEvent::Verified => {}
            _ => self.tries.answered(),
        }
        self.machine.handle(heard).into_iter().collect()
    }

    fn perform(&mut self, command: Self::Command) -> Performed<EndingHeard, Self::Outcome> {
        let run = self.run.clone();
        let guard = self.guard.uncounted();
        Performed::Request(match command {
            EndingCommand::Write(end, version) => run.write_end(guard, end, version).boxed(),
            EndingCommand::Verify => run.verify(guard).boxed(),
            EndingCommand::Look => {
                guard.session().pause_after(self.tries).then(|_| run.look_at_record(guard)).boxed()
            }
            EndingCommand::Tell(outcome) => return Performed::Told(end_outcome(outcome, run.path())),
        })
    }

    fn is_ended(&self) -> bool {
        self.machine.is_ended()
    }
}

/// What came of the write of an end.
fn event_of_write<T>(committed: Result<T, TransactionError>, path: String) -> EndingHeard {
    match committed {
        Ok(_) => EndingEvent::Written,
        Err(TransactionError::Lost(lost)) => EndingEvent::Failed(RecordError::Lost { path, lost }),
        Err(TransactionError::Unknown { .. }) => EndingEvent::Unanswered,
        Err(
            TransactionError::Throttled { .. }
            | TransactionError::Condition {
                problem: ConditionProblem::NoNode | ConditionProblem::BadVersion,
                ..
            },
        ) => EndingEvent::Rejected,
        Err(TransactionError::Condition { problem: ConditionProblem::NotAuthorized, .. }) => {
            EndingEvent::Failed(RecordError::NotAuthorized { path })
        }
        Err(error) => EndingEvent::Failed(RecordError::Refused { path, cause: error.to_string() }),
    }
}

fn end_outcome(outcome: EndingOutcome<RecordError>, path: String) -> Result<(), RecordError> {
    match outcome {
        EndingOutcome::Written => Ok(()),
        EndingOutcome::Changed => Err(RecordError::Changed { path }),
        EndingOutcome::Unconfirmed => Err(RecordError::Unconfirmed { path }),
        EndingOutcome::Failed(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_write_without_an_answer_may_have_taken_effect() {
        let path = || "/jobs/a".to_owned();
        let heard = |error| event_of_write::<()>(Err(error), path());
        let condition = |problem| heard(TransactionError::Condition { operation: 0, path: path(), problem });
        assert_eq!(event_of_write(Ok(()), path()), EndingEvent::Written);
        assert_eq!(heard(TransactionError::Unknown { path: path() }), EndingEvent::Unanswered);
        assert_eq!(heard(TransactionError::Throttled { path: path() }), EndingEvent::Rejected);
        assert_eq!(condition(ConditionProblem::NoNode), EndingEvent::Rejected);
        assert_eq!(condition(ConditionProblem::BadVersion), EndingEvent::Rejected);
        let forbidden = EndingEvent::Failed(RecordError::NotAuthorized { path: path() });
        assert_eq!(condition(ConditionProblem::NotAuthorized), forbidden);
        let refused = heard(TransactionError::Refused { path: path(), cause: String::new() });
        assert!(matches!(refused, EndingEvent::Failed(RecordError::Refused { .. })));
    }
}
