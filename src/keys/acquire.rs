//! How a task acquires the lock of a key: it waits in line, or tries beside the line.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use zklock_recipe::{Arrival, Ticket, Turned};

use super::background::LineBackground;
use super::line::Line;
use crate::acquire::acquirer::Wait;
use crate::error::AcquireError;
use crate::guard::Guard;

/// See [`Locks::try_acquire`](super::Locks::try_acquire).
pub(super) async fn try_acquire(line: Arc<Line>) -> Result<Option<Guard>, AcquireError> {
    if !line.is_free() {
        return Ok(None);
    }
    let Some((guard, _)) = line.lock.acquirer.contend(Wait::Never, Arrival::New).await? else {
        return Ok(None);
    };
    guard.turn.limit(line.max_hold);
    if line.keep_tried(&guard) {
        LineBackground::start(&line, Some(guard.turn.clone()));
    }
    Ok(Some(guard))
}

/// A task in line. Its first poll takes the place.
pub(super) struct Waiting {
    line: Arc<Line>,
    ticket: Option<Ticket>,
    /// How the task is woken. The line has this, too, and must not drop it: a waker is foreign code, and may come back here.
    waker: Option<Arc<Waker>>,
}

impl Waiting {
    pub(super) fn new(line: Arc<Line>) -> Self {
        Self { line, ticket: None, waker: None }
    }
}

impl Future for Waiting {
    type Output = Result<Guard, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let last = self.waker.take();
        let waker = match &last {
            Some(last) if last.will_wake(cx.waker()) => last.clone(),
            _ => Arc::new(cx.waker().clone()),
        };
        self.waker = Some(waker.clone());
        let line = self.line.clone();
        loop {
            match line.poll(&mut self.ticket, waker.clone()) {
                Turned::Yours(guard) if guard.is_held() => {
                    self.ticket = None;
                    guard.turn.limit(line.max_hold);
                    return Poll::Ready(Ok(guard));
                }
                // It goes back to its place.
                Turned::Yours(lost) => drop(lost),
                Turned::Failed(error) => {
                    self.ticket = None;
                    return Poll::Ready(Err(error));
                }
                Turned::Waits => return Poll::Pending,
                // If the session's runtime is gone, the line has failed by now. Nobody may await a timer of that runtime.
                Turned::Contend => LineBackground::start(&line, None),
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.line.leave(ticket);
        }
    }
}
