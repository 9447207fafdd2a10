//! The place of a waiter in its queue, as far as its own requests show it.
//!
//! A caller asks for it by a scope around its acquisition, so no call has a twin for it. The driver is made inside the scope and
//! keeps its end. The caller's function is foreign code, so it runs in the scope, after the poll, and outside every mutex.

use std::pin::pin;
use std::sync::Arc;

use zklock_recipe::acquisition::Input;
use zklock_recipe::{Event, Kind, Own, QueuePlace as Node, Report, Sight};

use crate::mutex::Mutex;
use crate::settings::Settings;

tokio::task_local! {
    static SCOPE: Arc<Mutex<Vec<Place>>>;
}

/// How many contenders are in front of a waiter; see [`places`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Place {
    /// The path of the lock, of the election, of the semaphore or of the slots.
    pub path: String,
    /// How many contenders, as of the last listing, must go before it is this one's turn. For a reader these are the writers in front. A waiter for a
    /// permit or a slot with none in front is the next, and waits for room.
    pub ahead: usize,
    /// Whether the contenders were listed. If not, they were counted: then a reader counts readers, too, and something else in
    /// the lock's directory counts, so fewer may be ahead.
    pub is_listed: bool,
}

/// Runs `future`, and tells `heard` the place of each contender that waits in it: of any `acquire`, `campaign`, `claim` and their
/// like, in any queue. It sends no request, so a waiter hears only what the protocol shows it anyway:
///
/// * as it enters the queue, if somebody is in front;
/// * when its predecessor leaves without a release, or with one, if that was a reader and it is a writer;
/// * when it has become the next for a permit or a slot, and finds no room.
///
/// A waiter watches its predecessor only, and nobody tells it of those before. So while all others release in turn, it hears its
/// place once and then has the lock. For the place at any time, ask [`Lock::contenders`](crate::Lock::contenders).
/// A place is told only if it is another one than before. An acquisition that need not wait tells nothing.
///
/// The tasks that wait for one key of [`Locks`](crate::Locks) have one contender together, in a task of zklock's own, and hear
/// nothing. Nor does what `future` spawns.
///
/// # Cancel safety
///
/// As safe as `future` is.
///
/// ```no_run
/// # async fn example(lock: zklock::Lock) -> Result<(), zklock::AcquireError> {
/// let guard = zklock::inspect::places(lock.acquire(), |place| println!("{} in front of us", place.ahead)).await?;
/// # Ok(())
/// # }
/// ```
pub async fn places<F: Future>(future: F, mut heard: impl FnMut(Place)) -> F::Output {
    let news = Arc::<Mutex<Vec<Place>>>::default();
    let mut future = pin!(SCOPE.scope(news.clone(), future));
    std::future::poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        let told = std::mem::take(&mut *news.lock());
        told.into_iter().for_each(&mut heard);
        polled
    })
    .await
}

/// The scope of an acquisition that waits for room, until it was told there that nobody is ahead.
pub(crate) struct NextInLine(Option<Arc<Mutex<Vec<Place>>>>);

impl NextInLine {
    pub(crate) fn here() -> Self {
        Self(SCOPE.try_with(Clone::clone).ok())
    }

    pub(crate) fn tell(&mut self, lock: &Settings) {
        if let Some(scope) = self.0.take() {
            scope.lock().push(Place { path: lock.queue.subject().to_string(), ahead: 0, is_listed: true });
        }
    }
}

/// The scope of a driver, and what is known of each of its contenders' queues.
pub(super) struct Teller {
    scope: Arc<Mutex<Vec<Place>>>,
    members: Vec<Known>,
}

#[derive(Clone, Default)]
struct Known {
    /// What the last look at the queue showed.
    queue: QueueAhead,
    /// How many were ahead when this was told last.
    told: usize,
}

#[derive(Clone, Default)]
enum QueueAhead {
    #[default]
    Unknown,
    Counted(usize),
    Listed(Vec<Node>),
}

impl Teller {
    /// The teller of so many contenders; `None` outside a scope.
    pub(super) fn new(contenders: usize) -> Option<Self> {
        let scope = SCOPE.try_with(Clone::clone).ok()?;
        Some(Self { scope, members: vec![Known::default(); contenders] })
    }

    /// Remembers what an input shows of the queues.
    pub(super) fn see(&mut self, input: &Input) {
        let listed =
            |names: &[String]| QueueAhead::Listed(names.iter().filter_map(|it| Node::parse(it)).collect());
        match input {
            Input::Reply(Report::Entered(nodes), _) => {
                for (known, (_, sight)) in self.members.iter_mut().zip(nodes) {
                    known.queue = match sight {
                        Sight::Children(children) => listed(children),
                        Sight::Count(count) => QueueAhead::Counted(*count),
                        Sight::Free | Sight::Foreign(_) | Sight::Nothing => QueueAhead::Unknown,
                    };
                }
            }
            Input::Reply(
                Report::One(index, Event::Listed(children) | Event::ListedAfterRelease(children)),
                _,
            ) => {
                self.members[*index].queue = listed(children);
            }
            _ => {}
        }
    }

    /// Tells that our node waits for this predecessor. Numbers only grow, so nobody has come in front since the last look.
    pub(super) fn waits(&mut self, index: usize, lock: &Settings, predecessor: Node, own: Own) {
        let kind = own.place.kind;
        let waits_for = |it: &&Node| {
            it.sequence <= predecessor.sequence && (kind == Kind::Exclusive || it.kind == Kind::Exclusive)
        };
        match &self.members[index].queue {
            QueueAhead::Unknown => {}
            QueueAhead::Counted(count) => self.tell(index, lock, count.saturating_sub(1), false),
            QueueAhead::Listed(queue) => self.tell(index, lock, queue.iter().filter(waits_for).count(), true),
        }
    }

    fn tell(&mut self, index: usize, lock: &Settings, ahead: usize, is_listed: bool) {
        if std::mem::replace(&mut self.members[index].told, ahead) != ahead {
            // An election and a pool are known by their own paths, and their queues are below.
            let path = lock.queue.subject().to_string();
            self.scope.lock().push(Place { path, ahead, is_listed });
        }
    }
}
