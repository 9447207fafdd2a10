//! Questions under a guard, repeated until a server answers.

use zklock_recipe::{Event, Refusal};

use crate::guard::Guard;
use crate::guard::lost::Lost;
use crate::zk::Wire;

/// How often a question is asked, if nobody answers.
const TRIES: u32 = 8;

/// Why a question has no answer.
pub(super) enum Unread {
    /// The guard is lost.
    Lost(Lost),
    /// The server refused.
    Refused(Refusal),
    /// Nobody answered, though a quorum did answer in between.
    Unanswered,
}

/// Asks a question in the session of this guard. `question` makes the request, once for each try.
pub(super) async fn ask<T, Q, F>(guard: &Guard, question: impl Fn() -> Q) -> Result<T, Unread>
where
    T: Send + 'static,
    Q: FnOnce(Wire) -> F + Send + 'static,
    F: Future<Output = Result<T, Event>> + Send + 'static,
{
    for _ in 0..TRIES {
        match guard.ask(question()).await.map_err(Unread::Lost)? {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(Event::Refused(refusal))) => return Err(Unread::Refused(refusal)),
            // A quorum answers before the next try, or the guard is lost.
            Some(Err(_)) | None => guard.verify().await.map_err(Unread::Lost)?,
        }
    }
    Err(Unread::Unanswered)
}
