//! One contender of an acquisition: its request, its watch and its node.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock_recipe::acquisition::Input;
use zklock_recipe::{Event, Own, Report};

use crate::requests::{KnownNode, Searches, SharedCompanion};
use crate::settings::QueueEntry;
use crate::wire::{LinkAnswer, Revocable};
use crate::zk::SETTLING;

/// Something that is awaited.
pub(super) type Pending = BoxFuture<'static, MemberNews>;

/// The answer to a request, the end of a delay, or a change that a watch shows.
pub(super) struct MemberNews {
    pub(super) input: Input,
    /// The watch that the request has set, and the member whose it is.
    pub(super) watch: Option<(usize, Revocable<Event>)>,
}

impl From<Input> for MemberNews {
    fn from(input: Input) -> Self {
        Self { input, watch: None }
    }
}

/// Awaits the answer to a request: of this member, or else for all. `given` makes the news of a server's reply, and of the number of
/// its connection.
pub(super) fn await_answer<T, N: Into<MemberNews>>(
    member: Option<usize>,
    answer: impl Future<Output = LinkAnswer<T>> + Send + 'static,
    given: impl FnOnce(T, u64) -> N + Send + 'static,
) -> Pending {
    let news = move |answer| match answer {
        LinkAnswer::Given(reply, sent) => given(reply, sent.connection).into(),
        LinkAnswer::Lost => Input::Lost(member).into(),
        LinkAnswer::Over(end) => Input::from(Event::SessionOver(end)).into(),
    };
    answer.map(news).boxed()
}

/// One contender of an acquisition.
pub(super) struct Member {
    pub(super) entry: QueueEntry,
    /// What the contender waits for.
    pub(super) pending: Option<Pending>,
    /// The change that the contender waits for. It resolves to `None` if the connection is lost before the change. A reply
    /// without a watch keeps the earlier watch: the one on our own node, while we release.
    pub(super) watch: Option<Revocable<Event>>,
    /// Whether the watch is in doubt, because nothing was heard of the change for a long time.
    doubted: bool,
    /// Our node, once it is known: since when, and for the searches of this session.
    node: Option<(Instant, KnownNode)>,
    /// The node that goes with our node, once the holder may have made one.
    pub(super) companion: Option<Arc<SharedCompanion>>,
}

impl Member {
    pub(super) fn new(entry: QueueEntry) -> Self {
        Self { entry, pending: None, watch: None, doubted: false, node: None, companion: None }
    }

    /// Takes in its node, unless it has one already.
    pub(super) fn know(&mut self, searches: &Arc<Searches>, own: impl FnOnce() -> Option<Own>) {
        if self.node.is_none() {
            self.node = own().map(|own| (Instant::now(), searches.know(&self.entry.lock, own)));
        }
    }

    /// Returns true once the node is so old that somebody may have deleted it.
    pub(super) fn is_aged(&self) -> bool {
        self.node.as_ref().is_none_or(|(since, _)| since.elapsed() >= SETTLING)
    }

    /// Makes the next poll look again at the node that the contender watches, as if the watch were lost.
    pub(super) fn doubt(&mut self) {
        self.doubted = self.watch.is_some() && self.pending.is_none();
    }

    /// Resolves to what the contender, which has this index, hears next.
    pub(super) fn poll(&mut self, index: usize, cx: &mut Context<'_>) -> Poll<MemberNews> {
        if let Some(pending) = &mut self.pending
            && let Poll::Ready(news) = pending.poll_unpin(cx)
        {
            self.pending = None;
            return Poll::Ready(news);
        }
        let Some(watch) = &mut self.watch else { return Poll::Pending };
        let shown = match watch.poll_unpin(cx) {
            Poll::Ready(change) => {
                (self.watch, self.doubted) = (None, false);
                change.unwrap_or(Event::WatchLost)
            }
            // The watch stays until another one takes its place.
            Poll::Pending if std::mem::take(&mut self.doubted) => Event::WatchLost,
            Poll::Pending => return Poll::Pending,
        };
        Poll::Ready(Input::Heard(Report::One(index, shown)).into())
    }
}
