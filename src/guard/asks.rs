//! What a holder hears of those who ask it to let go.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use futures::future::{Either, pending, select, select_all};
use uuid::Uuid;

use super::Guard;
use super::hold::turn::Turn;
use crate::node::{ASK, AskData};
use crate::observe::news::News;
use crate::requests::ask_node::watch_ask;
use crate::requests::{OwnNode, path_of};

/// Somebody asks a holder to let go.
///
/// ZooKeeper does not authenticate it: each client that may create nodes at the lock's path can ask, under any name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ask {
    /// What is asked for: the path of the lock, of the election, of the semaphore or of the slots.
    pub path: String,
    /// Who asks: the owner text that the asker has given.
    pub who: String,
    /// Why.
    pub why: String,
    /// When it asked, by the clock of ZooKeeper's leader.
    pub since: SystemTime,
    /// How long after that the holder is to have let go.
    pub within: Duration,
    id: Uuid,
}

impl Ask {
    pub(crate) fn new(path: String, data: AskData, ctime: i64) -> Self {
        let since = UNIX_EPOCH + Duration::from_millis(u64::try_from(ctime).unwrap_or_default());
        let within = Duration::from_millis(data.within);
        Self { path, who: data.who, why: data.why, since, within, id: data.id }
    }

    /// Returns by when the holder is to have let go, by the clock of ZooKeeper's leader. It is [`since`](Self::since) if no clock
    /// reaches the end.
    pub fn by(&self) -> SystemTime {
        self.since.checked_add(self.within).unwrap_or(self.since)
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} asks to let go of {} within {:?}: {}", self.who, self.path, self.within, self.why)
    }
}

/// An ask, and the nodes of those who are asked, each by its name with the transaction that created it.
#[derive(PartialEq, Eq)]
struct HeardAsk {
    ask: Ask,
    of: HashMap<String, i64>,
}

impl HeardAsk {
    fn new(path: String, mut data: AskData, ctime: i64) -> Arc<Self> {
        let of = std::mem::take(&mut data.of).into_iter().collect();
        Arc::new(Self { ask: Ask::new(path, data, ctime), of })
    }
}

/// The asks at one path, and the holder's node there.
struct Listening {
    news: News<Arc<HeardAsk>>,
    node: String,
    czxid: i64,
}

impl Listening {
    /// Waits for the next ask that is for the holder's node; `None` once the session is over.
    async fn next(&mut self) -> Option<Ask> {
        loop {
            let heard = self.news.next().await?;
            if heard.of.get(&self.node) == Some(&self.czxid) {
                return Some(heard.ask.clone());
            }
        }
    }
}

impl<K> Guard<K> {
    /// Waits until somebody [asks](crate::Session::ask) this holder to let go, and returns who, why and by when. An ask that stands
    /// already is returned at once. Returns `None` once the guard is lost or released. What to do is up to the holder: nothing is
    /// taken from it. The future does not borrow the guard.
    ///
    /// To hear of further asks as well, use [`asks`](Self::asks).
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost. The next call returns an ask that still stands, also one that was returned before. Each call begins with
    /// two requests, so in a loop keep the future, or use [`asks`](Self::asks).
    ///
    /// ```no_run
    /// # async fn work() {}
    /// # async fn example(guard: zklock::Guard) -> Result<(), Box<dyn std::error::Error>> {
    /// // An ask drops this work where it awaits. The guide shows work that comes to its end instead.
    /// tokio::select! {
    ///     done = guard.run(work()) => done?,
    ///     Some(ask) = guard.asked() => println!("{} wants the lock: {}", ask.who, ask.why),
    /// }
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn asked(&self) -> impl Future<Output = Option<Ask>> + Send + Sync + 'static + use<K> {
        let mut asks = self.asks();
        async move { asks.next().await }
    }

    /// Returns the asks that come for this hold, one after the other; see [`asked`](Self::asked). It sends nothing before
    /// [`next`](Asks::next) is awaited. Tasks to which [`Locks`](crate::Locks) pass a hold hear an ask for the hold each.
    pub fn asks(&self) -> Asks {
        Asks::new(self.turn.clone())
    }
}

/// The asks that one holder hears, from [`Guard::asks`](super::Guard::asks).
#[must_use = "it hears nothing unless `next` is awaited"]
pub struct Asks {
    /// `None` once the hold is over: then nothing keeps its session open.
    turn: Option<Arc<Turn>>,
    /// One for each path that is held. There is none before the first call of `next`.
    news: Option<Vec<Listening>>,
    /// The last ask that was returned. One asker may ask for several locks.
    last: Option<Uuid>,
}

impl Asks {
    pub(super) fn new(turn: Arc<Turn>) -> Self {
        Self { turn: Some(turn), news: None, last: None }
    }

    /// Waits for the next ask that is for this hold, and returns it. The first call also returns one that stands already. Returns `None`
    /// once the guard is lost or released.
    ///
    /// The first call sends two requests, unless another guard of the session listens at the same path: it sets a watch, and looks.
    /// Each change costs one look more, and each ask one read, for all guards of the session that listen at the path. While nobody
    /// asks, nothing is sent, except on a new connection, and after ten session timeouts without an event. Keep this value: a new
    /// one for each wait begins again.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    pub async fn next(&mut self) -> Option<Ask> {
        let turn = self.turn.clone()?;
        let heard = {
            let lost = pin!(turn.clone().lost(Duration::ZERO));
            let news = self.news.get_or_insert_with(|| start(&turn));
            let last = self.last;
            let heard = pin!(async {
                loop {
                    let each = news.iter_mut().map(|news| Box::pin(news.next())).collect::<Vec<_>>();
                    // Nobody asks for a queue that another client shares.
                    let next = if each.is_empty() { pending().await } else { select_all(each).await.0 };
                    match next {
                        Some(ask) if last != Some(ask.id) => return ask,
                        Some(_) => {}
                        // The session is over, and so is the hold.
                        None => pending().await,
                    }
                }
            });
            // The loss first: an ask may have come before it, while nobody polled.
            match select(lost, heard).await {
                Either::Left(_) => None,
                Either::Right((ask, _)) => Some(ask),
            }
        };
        match &heard {
            Some(ask) => self.last = Some(ask.id),
            None => (self.turn, self.news) = (None, None),
        }
        heard
    }
}

/// Begins to follow the asks at the path of each of the holder's nodes.
fn start(turn: &Turn) -> Vec<Listening> {
    let own = turn.nodes().iter().filter(|(lock, _)| !lock.queue.layout().is_shared());
    let follow = |node: &OwnNode| {
        let (lock, own) = node;
        let path = lock.queue.held().of_child(ASK);
        let node = lock.queue.path.child(&path_of(node)).unwrap_or_default().to_owned();
        let asked = path.clone();
        let subject = lock.queue.held().to_string();
        let news = News::start(turn.session(), path, move |client, footing| {
            let subject = subject.clone();
            let looked = watch_ask(client, asked.clone(), footing);
            looked.map(|sighting| Ok(sighting?.map(|(data, ctime)| HeardAsk::new(subject, data, ctime))))
        });
        Listening { news, node, czxid: own.czxid }
    };
    own.map(follow).collect()
}

impl fmt::Debug for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asks").field("last", &self.last).finish_non_exhaustive()
    }
}
