//! The task of an observer: it runs one machine, in one ZooKeeper session after the other.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, warn};
use zklock_recipe::{
    Event, Footing, Instruction, Moment, Observation, ObserverMachine, Refusal, Sent, Tries,
};

use super::sight::{self, StandingWatch, WatchedSight};
use super::went_back::WentBack;
use crate::fence::FencingToken;
use crate::requests::{Sighting, Watching, failure};
use crate::wire::LinkAnswer;
use crate::zk::{Bystander, SessionView};

/// What the observer's task knows.
#[derive(Clone, Debug)]
pub(super) struct View<T> {
    pub(super) who: Option<T>,
    /// How many times it was told anything.
    pub(super) told: u64,
    /// The instant from which on the answer was true.
    pub(super) as_of: Option<Moment>,
    pub(super) refusal: Option<Refusal>,
    /// The last time that the servers' data went back, and the number of this news.
    pub(super) went_back: Option<(u64, WentBack)>,
}

impl<T> View<T> {
    /// Nobody has looked yet.
    pub(super) fn unseen() -> Self {
        Self { who: None, told: 0, as_of: None, refusal: None, went_back: None }
    }
}

/// Looks at what is observed, and watches it.
type Looker<T> = dyn Fn(Watching, Footing) -> BoxFuture<'static, Result<Sighting<T>, Event>> + Send + Sync;

pub(super) struct Observed<T> {
    pub(super) path: String,
    pub(super) look: Box<Looker<T>>,
    /// Whether each heartbeat is to say anew from which instant on the answer was true.
    pub(super) is_dated: bool,
}

/// Follows what is observed until nobody observes it any more, or until the session is over.
pub(super) async fn follow<T: Clone + PartialEq + Send + 'static>(
    observed: Arc<Observed<T>>,
    mut bystander: Bystander,
    view: watch::Sender<View<T>>,
) {
    let mut machine = ObserverMachine::default();
    loop {
        let session = tokio::select! {
            biased;
            () = view.closed() => return,
            session = bystander.session() => session.map(|session| session.view()),
        };
        let Some(session) = session else { return };
        follow_in(session, &observed, &view, &mut machine).await;
    }
}

/// Follows what is observed as one ZooKeeper session sees it, until nobody observes it any more, or until that session is over.
pub(super) async fn follow_in<T: Clone + PartialEq + Send + 'static>(
    session: SessionView,
    observed: &Arc<Observed<T>>,
    view: &watch::Sender<View<T>>,
    machine: &mut ObserverMachine<T>,
) {
    let following =
        Following { observed, session, view, machine, look: None, watch: None, tries: Tries::default() };
    tokio::select! {
        () = view.closed() => {}
        () = following.run() => {}
    }
}

/// What an observer does in one ZooKeeper session.
struct Following<'a, T> {
    observed: &'a Arc<Observed<T>>,
    session: SessionView,
    view: &'a watch::Sender<View<T>>,
    machine: &'a mut ObserverMachine<T>,
    look: Option<BoxFuture<'static, LinkAnswer<WatchedSight<T>>>>,
    watch: Option<StandingWatch>,
    /// Counts the looks that no server answered, though the connection is there.
    tries: Tries,
}

impl<T: Clone + PartialEq + Send + 'static> Following<'_, T> {
    /// Observes until the ZooKeeper session is over.
    async fn run(mut self) {
        let mut heard = self.session.lease.heard();
        // The watch of the last session has gone with it.
        self.take_in(Observation::Disconnected, None);
        let mut doubt = self.next_doubt();
        loop {
            let waits = self.look.is_none();
            let event = tokio::select! {
                // The server sends the events of a change before an answer that shows the change.
                biased;
                event = next_change(&mut self.watch) => event,
                answer = next_answer(&mut self.look) => match self.weigh(answer) {
                    Some((event, as_of)) => {
                        self.take_in(event, as_of);
                        doubt = self.next_doubt();
                        continue;
                    }
                    None => return,
                },
                // The lease has the sender, so this never fails.
                Ok(()) = heard.changed(), if self.observed.is_dated => {
                    let sent = *heard.borrow_and_update();
                    self.confirm_view(sent).await;
                    continue;
                }
                () = sleep_until(doubt), if waits => Observation::Doubted,
            };
            doubt = self.next_doubt();
            self.take_in(event, None);
        }
    }

    /// Takes in an event, and does what follows from it. With `as_of`, what is known was true at that instant or later.
    fn take_in(&mut self, event: Observation<T>, as_of: Option<Moment>) {
        let lost = event == Observation::Disconnected;
        if lost {
            self.look = None;
            self.watch = None;
        }
        let refused = event == Observation::Refused;
        let instructions = self.machine.handle(event);
        self.view.send_if_modified(|view| {
            view.as_of = as_of.or(view.as_of);
            if as_of.is_some() && !refused {
                view.refusal = None;
            }
            let told = view.told;
            for instruction in &instructions {
                match instruction {
                    Instruction::Tell(who) => {
                        view.told += 1;
                        view.who.clone_from(who);
                    }
                    Instruction::TellWentBack { before, now } => {
                        view.told += 1;
                        let [before, now] = [before, now].map(|stamp| FencingToken::new(stamp.token));
                        let went_back = WentBack { path: self.observed.path.clone(), before, now };
                        view.went_back = Some((view.told, went_back));
                    }
                    Instruction::Look(_) | Instruction::SyncAndLook => {}
                }
            }
            view.told != told
        });
        for instruction in instructions {
            let path = &self.observed.path;
            match instruction {
                Instruction::Look(footing) => {
                    debug!(path, ?footing, "an observer looks");
                    self.look = Some(self.send_look(footing, false));
                }
                Instruction::SyncAndLook => {
                    debug!(path, "an observer looks behind a sync, because it saw a lower token than before");
                    self.look = Some(self.send_look(Footing::Watched, true));
                }
                Instruction::TellWentBack { before, now } => {
                    warn!(
                        path,
                        before = before.token,
                        now = now.token,
                        "an observer sees that the data went back"
                    );
                }
                Instruction::Tell(_) => {}
            }
        }
        if lost {
            // The next look waits for the next connection by itself. If the session is over, it says so.
            self.take_in(Observation::Connected, None);
        }
    }

    /// Sends a look, on the present connection or the next one; behind a `sync`, if it is to show what the leader has done by
    /// then.
    fn send_look(&self, footing: Footing, synced: bool) -> BoxFuture<'static, LinkAnswer<WatchedSight<T>>> {
        let observed = self.observed.clone();
        let asked = sight::send_look(&self.session, move |watching: Watching| async move {
            if synced {
                watching.client.sync(&observed.path).await.map_err(failure)?;
            }
            (observed.look)(watching, footing).await
        });
        let pause = self.tries.pause();
        async move {
            if let Some(pause) = pause {
                sleep(pause).await;
            }
            asked.await
        }
        .boxed()
    }

    /// Turns the result of a look into an event, with the instant from which on it was true. Returns `None` if the session
    /// is over.
    fn weigh(&mut self, answer: LinkAnswer<WatchedSight<T>>) -> Option<(Observation<T>, Option<Moment>)> {
        self.look = None;
        let (WatchedSight { found, watch, before }, sent) = match answer {
            LinkAnswer::Given(sight, sent) => (sight, sent),
            LinkAnswer::Lost => return Some((Observation::Disconnected, None)),
            LinkAnswer::Over(_) => return None,
        };
        if watch.is_some() {
            self.watch = watch;
        }
        Some(match found {
            Ok(found) => {
                self.tries.answered();
                // The server had by then what the leader had done before `before`, and the look came later.
                (Observation::Seen(found), (before.connection == sent.connection).then_some(before.at))
            }
            Err(Event::SessionOver(_)) => return None,
            Err(Event::Refused(refusal)) => {
                warn!(path = self.observed.path, %refusal, "the server refuses an observer's read");
                self.tries.answered();
                self.view.send_if_modified(|view| {
                    view.refusal = Some(refusal);
                    false
                });
                (Observation::Refused, None)
            }
            Err(_) => {
                self.tries.failed();
                (Observation::Unanswered, None)
            }
        })
    }

    /// The leader has answered a request that was sent then. The answer came behind the events of all that the leader had
    /// done before. So if no event is there, nothing had changed.
    async fn confirm_view(&mut self, sent: Sent) {
        let watching = self.machine.is_watching();
        let Some(watch) = self.watch.as_mut().filter(|it| watching && it.connection == sent.connection)
        else {
            return;
        };
        if poll_fn(|cx| Poll::Ready(watch.is_quiet(cx))).await {
            self.view.send_if_modified(|view| {
                view.as_of = Some(sent.at);
                false
            });
        }
    }

    /// When to look again if nothing is heard until then.
    fn next_doubt(&self) -> Instant {
        Instant::now() + sight::stale_after(self.session.lease.lengths().timeout)
    }
}

/// Resolves with the result of the look that is under way.
async fn next_answer<T>(
    look: &mut Option<BoxFuture<'static, LinkAnswer<WatchedSight<T>>>>,
) -> LinkAnswer<WatchedSight<T>> {
    match look {
        Some(look) => look.await,
        None => pending().await,
    }
}

async fn next_change<T>(watch: &mut Option<StandingWatch>) -> Observation<T> {
    match watch {
        Some(watch) => watch.changed().await.map_or(Observation::Disconnected, Observation::Changed),
        None => pending().await,
    }
}
