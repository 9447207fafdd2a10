//! Runs one [`Machine`]: turns its commands into requests, and their replies into its events.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use tracing::{debug, warn};
use uuid::Uuid;
use zklock_recipe::{
    Arrival, Command, End, Event, Machine, Own, Patience, SessionEnd, Sight, Takeover, Term,
};
use zookeeper_client::Client;

use crate::node::NodeData;
use crate::requests::{self, Certainty, Reply, Search};
use crate::settings::Settings;
use crate::zk::{Answer, Revocable, SETTLING, Sent, Wire, ZkSession};

/// The longest pause before a request is repeated.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One contender under way. It has no task of its own: its owner polls it. An owner that drops it early gives it to the
/// session's background task with [`Driver::abandon`].
pub(crate) struct Driver {
    machine: Machine,
    session: Arc<ZkSession>,
    lock: Arc<Settings>,
    /// The `id` in the data of the last create.
    id: Uuid,
    /// The reply that the machine waits for.
    pending: Option<BoxFuture<'static, Heard>>,
    /// The change that the machine waits for. It resolves to `None` if the connection is lost before the change.
    watch: Option<Revocable<Event>>,
    /// The lease's term at the last `Confirmed`.
    term: Option<Term>,
    /// The connection on which our node was last seen.
    seen: Option<u64>,
    /// The instant at which our node became known.
    entered: Option<Instant>,
    /// The number of requests in a row that were not answered.
    unanswered: u32,
    /// Whether the watch is in doubt, because nothing was heard of the change for a long time.
    doubted: bool,
    /// Whether the last request was lost with its connection.
    lost: bool,
    /// Whether the contender is looking for its node, which may exist.
    recovering: bool,
}

/// The result of the machine's last request.
enum Heard {
    /// A reply, with the watch that the connection keeps, if any.
    Reply { event: Event, watch: Option<Revocable<Event>>, sent: Sent },
    /// The connection was lost before the reply.
    Nothing,
    /// The takeover delay is over.
    Delayed,
    /// The session is over.
    Over(SessionEnd),
}

/// The number of unanswered requests that leads to a pause of 40 to 80 ms.
const STEADY: u32 = 3;

/// The outcome of a driver.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The lock is granted, in this term of the lease.
    Granted(Own, Term),
    /// The lock was held, and the guard is lost while the session lives. The driver's owner then gives up.
    Lost,
    /// The contender has ended.
    Ended(End),
}

impl Driver {
    /// Makes a contender for `lock` that has not begun.
    pub(crate) fn new(
        session: Arc<ZkSession>,
        lock: Arc<Settings>,
        patience: Patience,
        arrival: Arrival,
    ) -> Self {
        let takeover = if lock.takeover_delay.is_zero() { Takeover::AtOnce } else { Takeover::Delayed };
        Self {
            machine: Machine::new(patience, takeover, arrival),
            session,
            lock,
            id: Uuid::nil(),
            pending: None,
            watch: None,
            term: None,
            seen: None,
            entered: None,
            unanswered: 0,
            doubted: false,
            lost: false,
            recovering: false,
        }
    }

    /// The session in which this contender lives.
    pub(crate) fn session(&self) -> &Arc<ZkSession> {
        &self.session
    }

    /// The lock for which it contends.
    pub(crate) fn lock(&self) -> &Arc<Settings> {
        &self.lock
    }

    /// How long before the end of the lease the holder is told. It is no longer than this session allows, because a
    /// session may have been granted a shorter timeout than the one before.
    pub(crate) fn stop_margin(&self) -> Duration {
        self.lock.stop_margin.min(self.session.lengths().longest_stop_margin())
    }

    /// Returns true once the node is old enough for its holder to watch it.
    pub(crate) fn is_settled(&self) -> bool {
        self.entered.is_none_or(|entered| entered.elapsed() >= SETTLING)
    }

    /// Goes on as far as possible. It resolves once when the lock is granted, once if the guard is lost, and once when
    /// the contender has ended.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            let event = match (self.poll_pending(cx), &mut self.watch) {
                (Poll::Ready(event), _) => event,
                (Poll::Pending, Some(watch)) => match watch.poll_unpin(cx) {
                    Poll::Ready(change) => {
                        (self.watch, self.doubted) = (None, false);
                        change.unwrap_or(Event::WatchLost)
                    }
                    // The watch stays until another one takes its place.
                    Poll::Pending if std::mem::take(&mut self.doubted) => Event::WatchLost,
                    Poll::Pending => return Poll::Pending,
                },
                (Poll::Pending, None) => return Poll::Pending,
            };
            if let Some(outcome) = self.handle(event) {
                return Poll::Ready(outcome);
            }
        }
    }

    /// Makes the next poll look again at the node that the contender watches, as if the watch were lost.
    pub(crate) fn doubt(&mut self) {
        self.doubted = self.watch.is_some() && self.pending.is_none();
    }

    /// Takes in an event. The command that follows from it, if any, is sent at the next poll.
    pub(crate) fn handle(&mut self, event: Event) -> Option<Outcome> {
        let event = match (event, self.session.lease().end()) {
            (Event::Refused(refusal), None) if self.recovering => {
                // A node that nobody can identify would keep the lock from everybody for as long as the session lives.
                warn!(
                    path = %self.lock.path, %refusal,
                    "a contender cannot look for its node; zklock gives up the ZooKeeper session, so that the node goes with it"
                );
                self.session.close();
                Event::SessionOver(SessionEnd::Closed)
            }
            // No answer comes any more in this session, however often the contender asks.
            (Event::Unanswered | Event::WatchLost, Some(end)) => Event::SessionOver(end),
            (event, _) => event,
        };
        self.observe(&event);
        let command = self.machine.handle(event)?;
        debug!(path = %self.lock.path, ?command);
        self.execute(command)
    }

    /// Resolves when the contender has ended.
    pub(crate) async fn ended(mut self) -> End {
        loop {
            match std::future::poll_fn(|cx| self.poll(cx)).await {
                Outcome::Ended(end) => return end,
                // The caller no longer wants the lock.
                Outcome::Granted(..) | Outcome::Lost => drop(self.handle(Event::GiveUp)),
            }
        }
    }

    /// Leaves the queue, or releases the lock, in the background.
    pub(crate) fn abandon(self) {
        self.finish_by(Event::GiveUp);
    }

    /// Leaves a lock whose guard was lost, in the background. The successor observes its takeover delay.
    pub(crate) fn forfeit(self) {
        self.finish_by(Event::Forfeit);
    }

    fn finish_by(mut self, event: Event) {
        if let Some(Outcome::Ended(_)) = self.handle(event) {
            return;
        }
        if !self.machine.is_ended() {
            let session = self.session.clone();
            let path = self.lock.path.clone();
            let finish = self.ended().map(move |end| match end {
                End::Refused(refusal) => {
                    warn!(%path, ?refusal, "the server refuses to delete a contender's node; the node stays until its session ends");
                }
                end => debug!(%path, ?end, "a contender without a caller has ended"),
            });
            session.finish(finish.boxed());
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
                self.weigh(event, sent)
            }
            Heard::Nothing => {
                self.lost = true;
                Event::Unanswered
            }
            Heard::Delayed => Event::Delayed,
            Heard::Over(end) => Event::SessionOver(end),
        })
    }

    /// Takes in what a reply says about the lease and about our node. If it returns `Confirmed`, the lease is valid at
    /// this instant.
    fn weigh(&mut self, event: Event, sent: Sent) -> Event {
        let lease = self.session.lease();
        if let Event::Entered { .. } | Event::Confirmed = event {
            lease.confirmed(sent);
        }
        if let Event::Entered { .. } | Event::Confirmed | Event::OwnWatched(true) = event {
            self.seen = Some(sent.connection);
        }
        if event == Event::Confirmed {
            match lease.term() {
                Ok(term) => self.term = Some(term),
                Err(_) => {
                    // A lapsed lease takes two confirmations, so the driver asks for the second one at once. After that
                    // the answered requests only have to grow older, so it asks again at a steady pace.
                    self.unanswered = if self.unanswered == 0 { 0 } else { STEADY };
                    return Event::Unanswered;
                }
            }
        }
        event
    }

    /// The connection on which our node was last seen, if that is known.
    pub(crate) fn seen(&self) -> Option<u64> {
        self.seen
    }

    /// Records that our node was seen on this connection. The news may come late, so an earlier connection changes
    /// nothing.
    pub(crate) fn saw(&mut self, connection: u64) {
        self.seen = self.seen.max(Some(connection));
    }

    /// Forgets where our node was seen: the node of its name may be another one.
    pub(crate) fn forget(&mut self) {
        self.seen = None;
    }

    /// Whether the node of our node's name is certainly our node.
    pub(crate) fn certainty(&self) -> Certainty {
        let present = self.session.lease().connection();
        match present {
            Some(connection) if self.seen == present => Certainty::Seen(connection),
            _ => Certainty::Unsure,
        }
    }

    fn execute(&mut self, command: Command) -> Option<Outcome> {
        let lock = self.lock.clone();
        match command {
            Command::Enter(look) => {
                // Each create gets another id, because an earlier one may still take effect.
                self.id = Uuid::new_v4();
                let data = NodeData::new(self.id, &lock.owner, lock.data.as_deref()).encode();
                self.request(move |client| requests::enter(client, lock, data, look))
            }
            Command::CreateDirectory => self.request(|client| requests::create_directory(client, lock)),
            Command::Recover => {
                let id = self.id;
                match self.machine.own() {
                    Some(own) => self.request(move |client| requests::recover(client, lock, own)),
                    None => {
                        let search = match self.lost {
                            true => Search::Together(self.session.searches().clone()),
                            false => Search::Alone,
                        };
                        self.request(move |client| requests::find(client, lock, id, search));
                    }
                }
                self.recovering = true;
            }
            Command::List => self.request(|client| requests::list(client, lock)),
            Command::WatchPredecessor(predecessor) => {
                let own = self.machine.own()?;
                self.request(move |client| requests::watch_predecessor(client, lock, predecessor, own))
            }
            Command::Delay => self.delay(),
            Command::Confirm => return self.confirm(),
            Command::Grant(own) => return self.term.map(|term| Outcome::Granted(own, term)),
            Command::WatchOwn(_) => {
                let own = self.machine.own()?;
                self.request(move |client| requests::watch_own(client, lock, own))
            }
            Command::Lose => return Some(Outcome::Lost),
            // The watch on our own node stays until the reply. The release fires it, which costs no request; dropping
            // it would cost one.
            Command::Release(_) => {
                let own = self.machine.own()?;
                self.request_by_name(move |client, certainty| requests::release(client, lock, own, certainty))
            }
            Command::Delete(_) => {
                let own = self.machine.own()?;
                self.watch = None;
                self.request_by_name(move |client, certainty| requests::delete(client, lock, own, certainty))
            }
            Command::End(end) => {
                self.pending = None;
                self.watch = None;
                return Some(Outcome::Ended(end));
            }
        }
        None
    }

    /// Waits for the takeover delay to pass, or for the session to end. After the delay, an earlier look at our node is too
    /// old.
    fn delay(&mut self) {
        self.seen = None;
        let delay = self.session.pause(self.lock.takeover_delay);
        self.pending = Some(delay.map(|over| over.map_or(Heard::Delayed, Heard::Over)).boxed());
    }

    /// Grants the lock at once if the lease is valid for some time and our node is certain. Otherwise asks a quorum
    /// first.
    fn confirm(&mut self) -> Option<Outcome> {
        match (self.session.lease().term(), self.certainty()) {
            (Ok(term), Certainty::Seen(_)) if self.session.lease().is_ample(self.stop_margin()) => {
                self.term = Some(term);
                self.handle(Event::Confirmed)
            }
            _ => {
                let (lock, own) = (self.lock.clone(), self.machine.own()?);
                self.request(move |client| requests::confirm(client, lock, own));
                None
            }
        }
    }

    /// Sends a request, on the present connection or the next one.
    fn request<F>(&mut self, request: impl FnOnce(Arc<Client>) -> F + Send + 'static)
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        self.send(None, request);
    }

    /// Sends a request that names our own node. If the node was seen on the present connection, the request goes out on
    /// that connection only.
    fn request_by_name<F>(&mut self, request: impl FnOnce(Arc<Client>, Certainty) -> F + Send + 'static)
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let certainty = self.certainty();
        let connection = match certainty {
            Certainty::Seen(connection) => Some(connection),
            Certainty::Unsure => None,
        };
        self.send(connection, move |client| request(client, certainty));
    }

    fn send<F>(&mut self, connection: Option<u64>, request: impl FnOnce(Arc<Client>) -> F + Send + 'static)
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let request = |wire: Wire| {
            let reply = request(wire.client.clone());
            async move {
                let Reply { event, watch } = reply.await;
                (event, watch.map(|watch| wire.keep(watch)))
            }
        };
        let answer = match connection {
            Some(connection) => self.session.requester().request_on(connection, request),
            None => self.session.requester().request(request),
        };
        self.recovering = false;
        let pause = self.pause().map(|pause| self.session.pause(pause));
        let heard = async move {
            if let Some(pause) = pause {
                pause.await;
            }
            match answer.await {
                Answer::Given((event, watch), sent) => Heard::Reply { event, watch, sent },
                Answer::Lost => Heard::Nothing,
                Answer::Over(end) => Heard::Over(end),
            }
        };
        self.pending = Some(heard.boxed());
    }

    /// Returns the pause before the next request. The first repetition follows at once, because the request itself
    /// waits for a connection. If that one is not answered either, something else is wrong, and the servers need time.
    fn pause(&self) -> Option<Duration> {
        let doublings = self.unanswered.checked_sub(2)?;
        Some(LONGEST_PAUSE.min(Duration::from_millis(10) * 2u32.saturating_pow(doublings)))
    }

    fn observe(&mut self, event: &Event) {
        match event {
            Event::Unanswered => self.unanswered = self.unanswered.saturating_add(1),
            // The reply may say so before the connection's client knows.
            Event::SessionOver(end) => self.session.lease().ended(*end),
            // Whether or not our node was found, a request was lost. If the next one is lost, too, something is wrong.
            Event::Recovered(_) | Event::GiveUp => {}
            _ => self.unanswered = 0,
        }
        match event {
            Event::Entered { sight, .. } => {
                self.entered = Some(Instant::now());
                match sight {
                    Sight::Children(children) => self.lock.hints.saw_queue(children.len()),
                    Sight::Count(count) => self.lock.hints.saw_queue(*count),
                    Sight::Foreign(_) | Sight::Nothing => {}
                }
            }
            Event::Recovered(Some(_)) => self.entered = Some(Instant::now()),
            Event::Recovered(None) if self.machine.own().is_none() => {
                self.session.expect_late(self.lock.clone(), self.id);
            }
            // A waiter does not watch its own node. If an operator has deleted that node meanwhile, the same release
            // also grants the lock to the waiter's successor. So a waiter with a takeover delay asks a quorum for its
            // node.
            Event::PredecessorReleased if !self.lock.takeover_delay.is_zero() => self.seen = None,
            Event::Listed(children) => self.lock.hints.saw_queue(children.len()),
            _ => {}
        }
    }
}
