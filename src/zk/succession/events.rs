//! The stream of a session's states.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt, stream};
use tokio::sync::watch;

use super::state::SessionEvent;

/// The states of a session, from [`Session::events`](crate::Session::events). Call [`next`](Self::next) for the next
/// one, or use this as a [`Stream`].
#[must_use = "a stream does nothing unless it is polled"]
pub struct SessionEvents(Pin<Box<dyn Stream<Item = SessionEvent> + Send + Sync>>);

impl SessionEvents {
    /// Makes a stream of the last event and each later one. It skips an event that a later one has overtaken, and ends with
    /// the final one.
    pub(crate) fn new(mut news: watch::Receiver<SessionEvent>) -> Self {
        news.mark_changed();
        let events = stream::unfold(Some(news), |news| async {
            let mut news = news?;
            news.changed().await.ok()?;
            let event = *news.borrow_and_update();
            Some((event, (!event.state.is_final()).then_some(news)))
        });
        Self(Box::pin(events.fuse()))
    }

    /// Waits for the next event. Returns `None` after a final state, or once every `Session`, lock and acquisition of
    /// the session is dropped.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        self.0.next().await
    }
}

impl Stream for SessionEvents {
    type Item = SessionEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SessionEvent>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for SessionEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionEvents").finish_non_exhaustive()
    }
}
