//! Questions to ZooKeeper. The caller waits half a session timeout at most for each answer.

use zklock_recipe::{Event, Refusal};

use crate::error::QueryError;
use crate::requests::Evidence;
use crate::wire::{LinkAnswer, Wire};
use crate::zk::Succession;

/// Asks ZooKeeper a question about this path. Returns the answer, or why none came.
pub(crate) async fn query<T, F>(
    succession: &Succession,
    path: &str,
    question: impl FnOnce(Wire) -> F + Send + 'static,
) -> Result<T, QueryError>
where
    T: Evidence + Send + 'static,
    F: Future<Output = Result<T, Event>> + Send + 'static,
{
    let path = path.to_owned();
    let asked = async { succession.opened().await.requester.request(question).await };
    Err(match succession.patiently(asked).await {
        Ok(LinkAnswer::Given(Ok(found), _)) => return Ok(found),
        Ok(LinkAnswer::Given(Err(Event::Refused(Refusal::NotAuthorized)), _)) => {
            QueryError::NotAuthorized { path }
        }
        Ok(LinkAnswer::Given(Err(Event::Refused(refusal)), _)) => {
            QueryError::Refused { path, cause: refusal.to_string() }
        }
        Ok(_) if succession.event().state.is_final() => QueryError::SessionOver { path },
        Ok(_) => QueryError::Disconnected { path },
        Err(waited) => QueryError::Unanswered { path, waited },
    })
}
