//! One look, and the watch that it leaves.

use std::future::{poll_fn, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::channel::mpsc;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use zklock_recipe::{Event, Sent, SessionEnd};

use crate::requests::{Evidence, Found, Sighting, Watching};
use crate::wire::{LinkAnswer, Revocable};
use crate::zk::SessionView;

/// What a look shows.
pub(crate) struct WatchedSight<T> {
    pub(crate) found: Result<Found<T>, Event>,
    pub(crate) watch: Option<StandingWatch>,
    /// What was heard from the leader before the look was sent.
    pub(super) before: Sent,
}

impl<T> Evidence for WatchedSight<T> {
    fn session_end(&self) -> Option<SessionEnd> {
        self.found.as_ref().err().and_then(Evidence::session_end)
    }
}

pub(crate) struct StandingWatch {
    pub(super) connection: u64,
    /// It passes the changes on when it is polled. It resolves once the connection is lost.
    kept: Revocable<()>,
    changes: mpsc::UnboundedReceiver<Option<i64>>,
    /// A change that was received, and not taken in yet.
    next: Option<Option<i64>>,
}

impl StandingWatch {
    /// Returns whether the watch stands and has reported no change that was not taken in yet.
    pub(super) fn is_quiet(&mut self, cx: &mut Context<'_>) -> bool {
        let lost = self.kept.poll_unpin(cx).is_ready();
        if self.next.is_none() {
            self.next = self.changes.try_recv().ok();
        }
        self.next.is_none() && !lost
    }

    /// Resolves at the next change, with the zxid of its transaction, if the server has named it. Resolves to `None` once
    /// the connection is lost.
    pub(crate) async fn changed(&mut self) -> Option<Option<i64>> {
        poll_fn(|cx| if self.is_quiet(cx) { Poll::Pending } else { Poll::Ready(self.next.take()) }).await
    }
}

/// How many session timeouts without news lead to another look.
const STALE: u32 = 10;

/// How long to wait for news before another look. Those that heard the last news together are spread.
pub(crate) fn stale_after(session_timeout: Duration) -> Duration {
    session_timeout * STALE + session_timeout.mul_f64(2.0 * fastrand::f64())
}

/// Sends a look, on the present connection or the next one. It is sent at its first poll.
pub(crate) fn send_look<T, F>(
    session: &SessionView,
    look: impl FnOnce(Watching) -> F + Send + 'static,
) -> BoxFuture<'static, LinkAnswer<WatchedSight<T>>>
where
    T: Send + 'static,
    F: Future<Output = Result<Sighting<T>, Event>> + Send + 'static,
{
    let heard = session.lease.heard();
    session.requester.request(move |wire| {
        let before = *heard.borrow();
        let look = look(wire.watching());
        async move {
            let (found, changes) = match look.await {
                Ok(Sighting { found, changes }) => (found, changes),
                Err(event) => (Err(event), None),
            };
            let watch = changes.map(|changes| {
                let (sender, receiver) = mpsc::unbounded();
                let forward = changes.for_each(move |change| {
                    drop(sender.unbounded_send(change));
                    ready(())
                });
                let kept = wire.keep(forward.boxed());
                StandingWatch { connection: wire.number, kept, changes: receiver, next: None }
            });
            WatchedSight { found, watch, before }
        }
    })
}
