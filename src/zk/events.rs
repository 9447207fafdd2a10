//! What a session has to tell, event by event.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt, stream};
use tokio::sync::watch;

use super::state::SessionEvent;

/// The states of a session, from [`Session::events`](crate::Session::events). Ask for the [`next`](Self::next) one, or use it as
/// a [`Stream`].
#[must_use = "nothing is told unless it is asked for"]
pub struct SessionEvents(Pin<Box<dyn Stream<Item = SessionEvent> + Send + Sync>>);

impl SessionEvents {
    pub(super) fn new(mut news: watch::Receiver<SessionEvent>) -> Self {
        news.mark_changed();
        let events = stream::unfold(Some(news), |news| async {
            let mut news = news?;
            news.changed().await.ok()?;
            let event = *news.borrow_and_update();
            Some((event, (!event.state.is_final()).then_some(news)))
        });
        Self(Box::pin(events.fuse()))
    }

    /// The next event; `None` after a final state, and once no `Session`, lock and acquisition of it is left.
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
