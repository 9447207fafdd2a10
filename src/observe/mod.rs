//! Observers: who leads, or who holds a lock, and each change of that.

mod follow;
pub(crate) mod news;
pub(crate) mod sight;
mod went_back;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt, stream};
use tokio::sync::watch;
use zklock_recipe::{Event, Footing};

use follow::{Observed, View};
pub use went_back::WentBack;

use crate::clock;
use crate::requests::{Sighting, Watching};
use crate::zk::{Bystander, SessionEvent, SessionState, Succession};

/// Observes who leads, from [`Election::observe`](crate::Election::observe), or who holds a lock, from
/// [`Lock::holders`](crate::Lock::holders). Call [`next`](Self::next) for each change, or use this as a [`Stream`].
/// [`latest`](Self::latest) answers at once.
///
/// # What it promises
///
/// * The first answer is the present state. After that, the observer reports each change. A reader that is slower than
///   the changes sees only the latest state.
/// * Tokens never go back in silence: before the observer reports a holder with a lower token than one of before, it returns
///   the error [`WentBack`]. That happens after ZooKeeper's data was lost or restored. A server that is only behind does not
///   cause it.
/// * After a crash, an observer of an election reports "nobody" once the leader's session has ended, and then the next
///   leader. An observer of a lock reports the next contender at once if one waits, also while that one waits for its takeover
///   delay.
/// * It survives the loss of its connection and the end of its ZooKeeper session. In between it reports nothing, and
///   `latest` says how old the last answer is.
///
/// An observer is always a little behind. So it says where to send a request, and never that a guard is valid. Only
/// a [`Guard`](crate::Guard) says that.
///
/// # What it costs
///
/// An observer costs one watch, and one request for each change, or two for each change of a lock's holder. It costs nothing while
/// nothing changes. While the session may not read the holder's node, the observer of a lock reports a
/// [`Contender`](crate::inspect::Contender) without `owner` and `token`, and each contender that comes or goes costs three requests.
/// An observer that gets no event for ten session timeouts looks once more: a server withholds events from a session that may no
/// longer read the node. So for that long, `latest` may be wrong about a node that was hidden.
///
/// While it is observed, a ZooKeeper session is not closed as [idle](crate::SessionState::Idle). An observer does not keep its
/// `Session` open. It ends after a final state of the session, or once you have dropped every
/// `Session`, lock, election and guard of the session.
#[must_use = "an observer tells nothing unless it is asked"]
pub struct Observer<T> {
    told: Pin<Box<dyn Stream<Item = Result<Option<T>, WentBack>> + Send + Sync>>,
    view: watch::Receiver<View<T>>,
    news: watch::Receiver<SessionEvent>,
}

/// The last state that an [`Observer`] knows, from [`Observer::latest`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latest<T> {
    /// Who leads or holds; `None` if nobody does, or if `age` is `None`.
    pub who: Option<T>,
    /// How old the answer is at most: at some instant within the last `age`, the answer was true. `None` if there is no
    /// answer yet.
    ///
    /// While nothing changes, `age` falls back at each [heartbeat](crate::Session::heartbeat) of the session. It counts from
    /// the sending of the last request that only ZooKeeper's leader answers. A leader that is partitioned from its ensemble
    /// goes on answering such requests until it notices, after `syncLimit` ticks (10 s by default). So for that long, the
    /// answer may be that much older.
    ///
    /// If the session is connected to the leader itself, the answer may also be older by the time that the leader takes
    /// to apply what it has committed. That is usually milliseconds, but nothing bounds it.
    pub age: Option<Duration>,
    /// Whether the session is connected, as far as this process knows. If it is not, `who` may be outdated, and `age` grows.
    pub connected: bool,
    /// Why the server refused the last look, if it did. Usually an ACL forbids this session to read. zklock looks again
    /// at the next change, on the next connection, and after ten session timeouts.
    pub refusal: Option<String>,
}

impl<T> Observer<T> {
    /// Begins to observe what is at this path. `look` looks at it, and watches it.
    pub(crate) fn start<L, F>(succession: &Arc<Succession>, path: String, look: L) -> Self
    where
        T: Clone + PartialEq + Send + Sync + 'static,
        L: Fn(Watching, Footing) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Sighting<T>, Event>> + Send + 'static,
    {
        // It has not looked yet.
        let (sender, view) = watch::channel(View::unseen());
        let look = Box::new(move |watching, footing| look(watching, footing).boxed());
        let observed = Arc::new(Observed { path, look, is_dated: true });
        succession.spawn(follow::follow(observed, Bystander::new(succession), sender));
        let told = stream::unfold((view.clone(), 0), |(mut view, last)| async move {
            let (news, told) = {
                let view = view.wait_for(|view| view.told > last).await.ok()?;
                match &view.went_back {
                    Some((number, went_back)) if *number > last => (Err(went_back.clone()), *number),
                    _ => (Ok(view.who.clone()), view.told),
                }
            };
            Some((news, (view, told)))
        });
        Self { told: Box::pin(told.fuse()), view, news: succession.news() }
    }

    /// Waits for the next answer: `Some(Ok(None))` if nobody leads or holds any more. The first answer is the present state.
    /// Returns `None` after a final state of the session, or once nobody uses the session any more.
    ///
    /// # Errors
    ///
    /// [`WentBack`]: ZooKeeper's data went back. The observer goes on, and the next answer is the present state.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    pub async fn next(&mut self) -> Option<Result<Option<T>, WentBack>> {
        self.told.next().await
    }

    /// Returns the last answer and its age. It sends nothing and never waits.
    pub fn latest(&self) -> Latest<T>
    where
        T: Clone,
    {
        let view = self.view.borrow().clone();
        Latest {
            who: view.who,
            age: view.as_of.map(|as_of| clock::now().most_since(as_of)),
            connected: self.news.borrow().state == SessionState::Connected,
            refusal: view.refusal.map(|refusal| refusal.to_string()),
        }
    }
}

impl<T> Stream for Observer<T> {
    type Item = Result<Option<T>, WentBack>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.told.poll_next_unpin(cx)
    }
}

impl<T: Clone + fmt::Debug> fmt::Debug for Observer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("latest", &self.latest()).finish_non_exhaustive()
    }
}
