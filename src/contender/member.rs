//! One contender of an acquisition: its requests, its watch, and what it has seen of its node.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock_recipe::{Event, Own, SessionEnd, Sight};

use crate::backoff::Tries;
use crate::requests::{Companion, Known};
use crate::settings::Entry;
use crate::zk::{Revocable, SETTLING, Sent, ZkSession};

/// One contender of an acquisition.
pub(super) struct Member {
    pub(super) entry: Entry,
    /// The reply that the contender waits for.
    pub(super) pending: Option<BoxFuture<'static, Heard>>,
    /// The change that the contender waits for. It resolves to `None` if the connection is lost before the change.
    pub(super) watch: Option<Revocable<Event>>,
    /// The connection on which our node was last seen.
    pub(super) seen: Option<u64>,
    /// The instant at which our node became known.
    pub(super) entered: Option<Instant>,
    /// The transaction that created our node, once that is known.
    pub(super) token: Option<i64>,
    /// Our node, for the searches of this session.
    known: Option<Known>,
    /// The node that goes with our node, once the holder may have made one.
    pub(super) companion: Option<Arc<Companion>>,
    pub(super) tries: Tries,
    /// Whether the watch is in doubt, because nothing was heard of the change for a long time.
    doubted: bool,
    /// Whether the last request was lost with its connection.
    pub(super) lost: bool,
    /// Whether the contender is looking for its node, which may exist.
    pub(super) recovering: bool,
    /// Whether the last create may still take effect, though its node was not found.
    pub(super) may_come_late: bool,
    /// Whether a predecessor may have vanished since the contender came: it had one, or was without an answer.
    pub(super) waited: bool,
}

/// The result of a contender's last request.
pub(super) enum Heard {
    /// A reply, with the watch that the connection keeps, if any.
    Reply { event: Event, watch: Option<Revocable<Event>>, sent: Sent },
    /// The connection was lost before the reply.
    Nothing,
    /// The takeover delay is over.
    Delayed,
    /// The session is over.
    Over(SessionEnd),
}

/// Counts an event that answers a request, or says that none did.
pub(super) fn count(tries: &mut Tries, event: &Event) {
    match event {
        Event::Unanswered => tries.failed(),
        // Whether or not our node was found, a request was lost. If the next one is lost, too, something is wrong.
        Event::Recovered(_) | Event::GiveUp => {}
        _ => tries.answered(),
    }
}

impl Member {
    pub(super) fn new(entry: Entry) -> Self {
        Self {
            entry,
            pending: None,
            watch: None,
            seen: None,
            entered: None,
            token: None,
            known: None,
            companion: None,
            tries: Tries::default(),
            doubted: false,
            lost: false,
            recovering: false,
            may_come_late: false,
            waited: false,
        }
    }

    /// Takes in the node that another transaction has created.
    pub(super) fn admitted(&mut self, session: &ZkSession, own: Own, connection: Option<u64>) {
        (self.entered, self.token, self.seen) = (Some(Instant::now()), Some(own.czxid), connection);
        self.know(session, own);
    }

    /// Returns true once the node is old enough for its holder to watch it.
    pub(super) fn is_settled(&self) -> bool {
        self.entered.is_none_or(|entered| entered.elapsed() >= SETTLING)
    }

    /// Tells the searches of the session that this node is ours.
    pub(super) fn know(&mut self, session: &ZkSession, own: Own) {
        self.known.get_or_insert_with(|| session.searches().know(&self.entry.lock, own));
    }

    /// Makes the next poll look again at the node that the contender watches, as if the watch were lost.
    pub(super) fn doubt(&mut self) {
        self.doubted = self.watch.is_some() && self.pending.is_none();
    }

    /// Resolves to the contender's next event.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Poll::Ready(event) = self.poll_pending(cx) {
            return Poll::Ready(event);
        }
        let Some(watch) = &mut self.watch else { return Poll::Pending };
        match watch.poll_unpin(cx) {
            Poll::Ready(change) => {
                (self.watch, self.doubted) = (None, false);
                Poll::Ready(change.unwrap_or(Event::WatchLost))
            }
            // The watch stays until another one takes its place.
            Poll::Pending if std::mem::take(&mut self.doubted) => Poll::Ready(Event::WatchLost),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let Some(request) = &mut self.pending else { return Poll::Pending };
        let heard = std::task::ready!(request.poll_unpin(cx));
        self.pending = None;
        self.lost = false;
        Poll::Ready(match heard {
            Heard::Reply { event, watch, sent } => {
                // A reply without a watch keeps the earlier watch: the one on our own node, while we release.
                if watch.is_some() {
                    self.watch = watch;
                }
                if event == Event::OwnWatched(true) {
                    self.seen = Some(sent.connection);
                }
                event
            }
            Heard::Nothing => {
                self.lost = true;
                Event::Unanswered
            }
            Heard::Delayed => Event::Delayed,
            Heard::Over(end) => Event::SessionOver(end),
        })
    }

    /// Takes in what an event shows of the queue and of our node.
    pub(super) fn observe(&mut self, event: &Event) {
        count(&mut self.tries, event);
        self.waited |= matches!(
            event,
            Event::PredecessorWatched(_) | Event::Recovered(_) | Event::Unanswered | Event::WatchLost
        );
        let hints = &self.entry.lock.hints;
        match event {
            Event::Entered { own, sight } => {
                (self.entered, self.token) = (Some(Instant::now()), Some(own.czxid));
                match sight {
                    Sight::Children(children) => hints.saw_queue(children.len()),
                    Sight::Count(count) => hints.saw_queue(*count),
                    Sight::Foreign(_) | Sight::Nothing => {}
                }
            }
            Event::Recovered(Some(own)) => {
                (self.entered, self.token) = (Some(Instant::now()), Some(own.czxid));
            }
            // A waiter does not watch its own node. If an operator has deleted that node meanwhile, the same release
            // also grants the lock to the waiter's successor. So a waiter with a takeover delay asks a quorum for its
            // node.
            Event::PredecessorReleased if !self.entry.lock.takeover_delay.is_zero() => self.seen = None,
            Event::OwnTouched => self.seen = None,
            Event::Listed(children) => hints.saw_queue(children.len()),
            _ => {}
        }
    }
}
