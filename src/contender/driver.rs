//! Runs one [`Machine`]: its commands become requests, their replies become its events.

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

/// One contender under way. It has no life of its own: whoever owns it polls it, and whoever drops it early
/// hands it to the session's cleanup task with [`Driver::abandon`].
pub(crate) struct Driver {
    machine: Machine,
    session: Arc<ZkSession>,
    lock: Arc<Settings>,
    /// What its last create says in its node's data.
    id: Uuid,
    /// The reply the machine waits for.
    pending: Option<BoxFuture<'static, Heard>>,
    /// The change the machine waits for; `None` if the connection is lost before it.
    watch: Option<Revocable<Event>>,
    /// The lease's term at the last `Confirmed`.
    term: Option<Term>,
    /// The connection on which our node was last seen.
    seen: Option<u64>,
    /// When our node came to be known.
    entered: Option<Instant>,
    /// Requests in a row that were not answered.
    unanswered: u32,
    /// Nothing was heard of the change for long.
    doubted: bool,
    /// The last request was lost with its connection.
    lost: bool,
    /// It looks for its node, which may be there.
    recovering: bool,
}

/// What the machine's last command led to.
enum Heard {
    /// A reply, and the watch that the connection keeps.
    Reply { event: Event, watch: Option<Revocable<Event>>, sent: Sent },
    /// The connection was lost before the reply.
    Nothing,
    /// The takeover delay is over.
    Delayed,
    /// The session is over.
    Over(SessionEnd),
}

/// As many unanswered requests as lead to a pause of 40 to 80 ms.
const STEADY: u32 = 3;

/// What a driver has come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The lock is held, in this term of the lease.
    Granted(Own, Term),
    /// The lock was held, and is lost while the session lives. Whoever drives on gives up.
    Lost,
    /// It is over.
    Ended(End),
}

impl Driver {
    /// A contender for `lock` that has not begun.
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

    /// The session this contender lives in.
    pub(crate) fn session(&self) -> &Arc<ZkSession> {
        &self.session
    }

    /// The lock it contends for.
    pub(crate) fn lock(&self) -> &Arc<Settings> {
        &self.lock
    }

    /// How long before the lease's end its holder is told: as long as this session allows, which may have been granted a
    /// shorter timeout than the one before.
    pub(crate) fn stop_margin(&self) -> Duration {
        self.lock.stop_margin.min(self.session.lengths().longest_stop_margin())
    }

    /// True once the node is old enough for its holder to watch it.
    pub(crate) fn is_settled(&self) -> bool {
        self.entered.is_none_or(|entered| entered.elapsed() >= SETTLING)
    }

    /// Goes on as far as possible. Resolves once when the lock is granted, and once when it is over.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            let event = match (self.poll_pending(cx), &mut self.watch) {
                (Poll::Ready(event), _) => event,
                (Poll::Pending, Some(watch)) => match watch.poll_unpin(cx) {
                    Poll::Ready(change) => {
                        (self.watch, self.doubted) = (None, false);
                        change.unwrap_or(Event::WatchLost)
                    }
                    // The watch stays until another one is in its place.
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

    /// Looks at what it waits for again, at the next poll, as if its watch were lost.
    pub(crate) fn doubt(&mut self) {
        self.doubted = self.watch.is_some() && self.pending.is_none();
    }

    /// Takes in an event from the caller. Its command, if it has one, is sent at the next poll.
    pub(crate) fn handle(&mut self, event: Event) -> Option<Outcome> {
        let event = match (event, self.session.lease().end()) {
            (Event::Refused(refusal), None) if self.recovering => {
                // A node that nobody can find would keep the lock from everybody for as long as the session lives.
                warn!(
                    path = %self.lock.path, %refusal,
                    "a contender cannot look for its node; its ZooKeeper session is given up, so that the node goes with it"
                );
                self.session.close();
                Event::SessionOver(SessionEnd::Closed)
            }
            // No answer will ever come, however often it is asked for.
            (Event::Unanswered | Event::WatchLost, Some(end)) => Event::SessionOver(end),
            (event, _) => event,
        };
        self.observe(&event);
        let command = self.machine.handle(event)?;
        debug!(path = %self.lock.path, ?command);
        self.execute(command)
    }

    /// Resolves when it is over.
    pub(crate) async fn ended(mut self) -> End {
        loop {
            match std::future::poll_fn(|cx| self.poll(cx)).await {
                Outcome::Ended(end) => return end,
                // Nobody wants it any more.
                Outcome::Granted(..) | Outcome::Lost => drop(self.handle(Event::GiveUp)),
            }
        }
    }

    /// Leaves the queue, or releases the lock, in the background.
    pub(crate) fn abandon(self) {
        self.finish_by(Event::GiveUp);
    }

    /// Leaves a lock that was lost, in the background; whoever has a takeover delay observes it.
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
                    warn!(%path, ?refusal, "a contender could not be removed; it stays until its session ends");
                }
                end => debug!(%path, ?end, "an abandoned contender is gone"),
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
                // A reply without a watch leaves an earlier one alone: that of our own node, while we release.
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

    /// What a reply says about the lease and our node. Whoever is told `Confirmed` has a valid lease at this instant.
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
                    // It takes two confirmations, so the second is asked for at once. Then what was answered only has to
                    // be older: ask again, at a steady pace.
                    self.unanswered = if self.unanswered == 0 { 0 } else { STEADY };
                    return Event::Unanswered;
                }
            }
        }
        event
    }

    /// The connection on which our node was seen last, if that is known.
    pub(crate) fn seen(&self) -> Option<u64> {
        self.seen
    }

    /// Our node was seen on this connection. That may be heard of late.
    pub(crate) fn saw(&mut self, connection: u64) {
        self.seen = self.seen.max(Some(connection));
    }

    /// The node of our node's name may be another one.
    pub(crate) fn forget(&mut self) {
        self.seen = None;
    }

    /// Whether what has our node's name is certainly our node.
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
                // Each time another one: an earlier create may yet take effect.
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
            // The watch on our own node stays until the reply: the release fires it, which costs no request,
            // while dropping it would cost one.
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

    /// Lets the takeover delay pass, or the session end. What was seen of our node before is old by then.
    fn delay(&mut self) {
        self.seen = None;
        let delay = self.session.pause(self.lock.takeover_delay);
        self.pending = Some(delay.map(|over| over.map_or(Heard::Delayed, Heard::Over)).boxed());
    }

    /// Grants at once while the lease is valid, and for some time, and our node certain; otherwise asks the quorum
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

    /// Sends a request, on whichever connection is there.
    fn request<F>(&mut self, request: impl FnOnce(Arc<Client>) -> F + Send + 'static)
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        self.send(None, request);
    }

    /// Sends a request about the own node by its name: on the connection on which the node was seen, and on no other one.
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

    /// A first repetition follows at once: the client itself waits for the connection. If that one is not answered
    /// either, something else is wrong, and the servers are given time.
    fn pause(&self) -> Option<Duration> {
        let doublings = self.unanswered.checked_sub(2)?;
        Some(LONGEST_PAUSE.min(Duration::from_millis(10) * 2u32.saturating_pow(doublings)))
    }

    fn observe(&mut self, event: &Event) {
        match event {
            Event::Unanswered => self.unanswered = self.unanswered.saturating_add(1),
            // Before the client itself is told, perhaps.
            Event::SessionOver(end) => self.session.lease().ended(*end),
            // Whether it was there or not, a request was lost; if the next one is, too, something is wrong.
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
            // A waiter does not watch its own node, which an operator may have deleted meanwhile; its successor is then
            // granted by the same release. Whoever minds what operators do has a takeover delay, and asks the quorum.
            Event::PredecessorReleased if !self.lock.takeover_delay.is_zero() => self.seen = None,
            Event::Listed(children) => self.lock.hints.saw_queue(children.len()),
            _ => {}
        }
    }
}
