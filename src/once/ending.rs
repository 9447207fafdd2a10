//! Performs what the [end](recipe::Ending) of a run asks for: writes it to the run's record, and has that confirmed.

use futures::FutureExt;
use zklock_recipe::claim::RunEnd;
use zklock_recipe::ending::{self as recipe, Command, Event, Outcome};
use zklock_recipe::{Event as Reply, Refusal, Tries};

use super::error::RecordError;
use super::record::{Record, RecordData};
use crate::contender::{Course, Performed, Procedure};
use crate::guard::Guard;
use crate::guard::lost::Lost;
use crate::guard::operation::Node;
use crate::guard::transaction_error::{ConditionProblem, TransactionError};
use crate::node::encode;
use crate::requests;

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

type Heard = Event<RecordError>;

impl Running {
    /// Writes the end of the run, and returns once that is confirmed.
    pub(super) async fn end(&self, guard: &Guard, end: RunEnd) -> Result<(), RecordError> {
        let ending = Ending {
            machine: recipe::Ending::new(end, self.begun.token, self.version),
            run: self.clone(),
            // What is under way does not count as a guard.
            guard: guard.uncounted(),
            tries: Tries::default(),
        };
        let told = Course::begin(guard.session().clone(), ending, Event::Begin).outcome().await;
        told.unwrap_or_else(|| Err(RecordError::Unconfirmed { path: self.path() }))
    }

    fn path(&self) -> String {
        format!("{}/{}", self.directory, self.name)
    }

    async fn write(self, guard: Guard, end: RunEnd, version: i32) -> Heard {
        let path = self.path();
        let data = encode(&self.begun.ended(end));
        let write = recipe::write(version).map(|()| Node::new(path.clone(), data));
        written(guard.transaction().apply(write).commit().await, path)
    }

    async fn look(self, guard: Guard) -> Heard {
        let (path, directory, name) = (self.path(), self.directory.clone(), self.name);
        match guard.ask(|wire| requests::record(wire.client, directory, name)).await {
            Ok(Some(Ok(found))) => {
                let seen = |kept| Record::decode(&self.directory, kept).map(|record| record.seen(kept));
                Event::Looked(found.as_ref().and_then(seen))
            }
            Ok(Some(Err(Reply::Refused(Refusal::NotAuthorized)))) => {
                Event::Failed(RecordError::NotAuthorized { path })
            }
            Ok(Some(Err(Reply::Refused(refusal)))) => {
                Event::Failed(RecordError::Refused { path, cause: refusal.to_string() })
            }
            Ok(Some(Err(_)) | None) => Event::Unanswered,
            Err(lost) => Event::Failed(RecordError::Lost { path, lost }),
        }
    }

    async fn verify(self, guard: Guard) -> Heard {
        let lost = |lost: Lost| Event::Failed(RecordError::Lost { path: self.path(), lost });
        guard.verify().await.map_or_else(lost, |()| Event::Verified)
    }
}

/// The end of a run on its way.
struct Ending {
    machine: recipe::Ending,
    run: Running,
    guard: Guard,
    tries: Tries,
}

impl Procedure for Ending {
    type Heard = Heard;
    type Command = Command<RecordError>;
    type Outcome = Result<(), RecordError>;

    const OUTLASTS_THE_SESSION: bool = true;
    /// The end is written all the same.
    const GONE: Option<Heard> = None;

    fn handle(&mut self, heard: Heard) -> Vec<Self::Command> {
        match &heard {
            Event::Unanswered => self.tries.failed(),
            Event::Verified => {}
            _ => self.tries.answered(),
        }
        self.machine.handle(heard).into_iter().collect()
    }

    fn perform(&mut self, command: Self::Command) -> Performed<Heard, Self::Outcome> {
        let (run, guard) = (self.run.clone(), self.guard.uncounted());
        Performed::Request(match command {
            Command::Write(end, version) => run.write(guard, end, version).boxed(),
            Command::Verify => run.verify(guard).boxed(),
            Command::Look => guard.session().pause_after(self.tries).then(|_| run.look(guard)).boxed(),
            Command::Tell(outcome) => return Performed::Told(told(outcome, run.path())),
        })
    }

    fn is_ended(&self) -> bool {
        self.machine.is_ended()
    }
}

/// What came of the write of an end.
fn written<T>(committed: Result<T, TransactionError>, path: String) -> Heard {
    match committed {
        Ok(_) => Event::Written,
        Err(TransactionError::Lost(lost)) => Event::Failed(RecordError::Lost { path, lost }),
        Err(TransactionError::Unknown { .. }) => Event::Unanswered,
        Err(
            TransactionError::Throttled { .. }
            | TransactionError::Condition {
                problem: ConditionProblem::NoNode | ConditionProblem::BadVersion,
                ..
            },
        ) => Event::Rejected,
        Err(TransactionError::Condition { problem: ConditionProblem::NotAuthorized, .. }) => {
            Event::Failed(RecordError::NotAuthorized { path })
        }
        Err(error) => Event::Failed(RecordError::Refused { path, cause: error.to_string() }),
    }
}

fn told(outcome: Outcome<RecordError>, path: String) -> Result<(), RecordError> {
    match outcome {
        Outcome::Written => Ok(()),
        Outcome::Changed => Err(RecordError::Changed { path }),
        Outcome::Unconfirmed => Err(RecordError::Unconfirmed { path }),
        Outcome::Failed(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_write_without_an_answer_may_have_taken_effect() {
        let path = || "/jobs/a".to_owned();
        let heard = |error| written::<()>(Err(error), path());
        let condition = |problem| heard(TransactionError::Condition { operation: 0, path: path(), problem });
        assert_eq!(written(Ok(()), path()), Event::Written);
        assert_eq!(heard(TransactionError::Unknown { path: path() }), Event::Unanswered);
        assert_eq!(heard(TransactionError::Throttled { path: path() }), Event::Rejected);
        assert_eq!(condition(ConditionProblem::NoNode), Event::Rejected);
        assert_eq!(condition(ConditionProblem::BadVersion), Event::Rejected);
        let forbidden = Event::Failed(RecordError::NotAuthorized { path: path() });
        assert_eq!(condition(ConditionProblem::NotAuthorized), forbidden);
        let refused = heard(TransactionError::Refused { path: path(), cause: String::new() });
        assert!(matches!(refused, Event::Failed(RecordError::Refused { .. })));
    }
}
