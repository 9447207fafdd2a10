//! From the turnstile to the permit: waiting for room, and the transaction that admits.
//!
//! Everything here happens while the acquisition holds the turnstile. Its caller polls it, and may drop it at each await.
//! Two things must not be left behind then: the node in the turnstile, which its guard removes, and a permit that the
//! servers create meanwhile. So from the moment in which the transaction may be sent until its outcome is known, the
//! acquisition is [`Finishing`]: dropped, it goes on in the session's background, and gives the permit back.
//!
//! The node in the turnstile is a [`Ticket`]. Each admission needs it and deletes it, so one of all attempts takes effect
//! at most. As long as the node is there, an attempt whose reply was lost may still take effect. Once it is gone, none does,
//! unless ZooKeeper removes the empty turnstile and another contender gets the node's name. So the session looks out for a
//! permit that is created late, as it does for contenders.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, pending, select};
use tracing::warn;
use uuid::Uuid;
use zklock_recipe::{Arrival, End, Event, Kind, Look, Misfit, Own, Patience, Refusal, Ruling, Wish, rule};

use super::error::SemaphoreError;
use super::statement::Statement;
use crate::backoff;
use crate::contender::{Driver, Finishing, Outcome};
use crate::guard::Guard;
use crate::guard::lost::LostReason;
use crate::lock::acquire::Passage;
use crate::lock::error::AcquireError;
use crate::node::{NodeData, PoolData};
use crate::requests::{self, Admission, OwnNode, PoolSeen, PoolWatched, Settlement, Standing};
use crate::settings::{Entry, Settings};
use crate::zk::{Answer, Revocable, Wire, ZkSession};

/// The longest pause after a request that was not answered. The first one follows the second such request in a row.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// After so many session timeouts without news, an acquisition that waits for room looks again. If an ACL takes the
/// permission to read the permits from it, the server withholds their end.
const STALE: u32 = 10;

/// An acquisition that holds the turnstile.
pub(super) struct Admitting {
    statement: Arc<Statement>,
    session: Arc<ZkSession>,
    /// `None` only while an attempt is under way, and after the last one.
    ticket: Option<Ticket>,
    /// Whether a permit may have vanished since the acquisition came: then a takeover delay applies.
    arrival: Arrival,
    wish: Wish,
    patience: Patience,
    watches: Watches,
    /// How many requests in a row were not answered.
    tries: u32,
}

/// Why an acquisition does not go on.
enum Stop {
    Displaced,
    /// Its node in the turnstile is gone. An attempt whose outcome was unknown may have taken effect.
    Vanished,
    Busy,
    Failed(SemaphoreError),
}

impl Admitting {
    pub(super) fn new(
        statement: Arc<Statement>,
        turnstile: Guard,
        arrival: Arrival,
        wish: Wish,
        patience: Patience,
    ) -> Self {
        let hold = turnstile.hold();
        let session = hold.session().clone();
        // A guard of one lock has one node. Without it, nothing is ever found there.
        let nowhere =
            || (statement.permits().clone(), Own { place: zklock_recipe::Place::exclusive(0), czxid: 0 });
        let own = hold.nodes().first().cloned().unwrap_or_else(nowhere);
        let ticket = Ticket {
            session: session.clone(),
            turnstile: Some(turnstile),
            own,
            permits: statement.permits().clone(),
            id: Uuid::new_v4(),
            doubtful: false,
        };
        Self {
            statement,
            session,
            ticket: Some(ticket),
            arrival,
            wish,
            patience,
            watches: Watches::default(),
            tries: 0,
        }
    }

    /// Waits for room, and passes.
    pub(super) async fn run<K: 'static>(mut self) -> Result<Passage<Guard<K>>, SemaphoreError> {
        let passed = match self.pass().await {
            Err(Stop::Vanished) => self.settle().await,
            passed => passed,
        };
        let mut admitted = match passed {
            Ok(admitted) => admitted,
            Err(Stop::Displaced | Stop::Vanished) => return Ok(Passage::Displaced),
            Err(Stop::Busy) => {
                // So that the next one who only tries finds the turnstile free.
                if let Some(ticket) = self.ticket.take() {
                    ticket.leave().await;
                }
                return Ok(Passage::Busy);
            }
            Err(Stop::Failed(error)) => return Err(error),
        };
        match admitted.begun().await {
            Outcome::Granted(nodes, term) => Ok(match admitted.take() {
                Some(driver) => Passage::Passed(Guard::new(driver, nodes, term)),
                None => Passage::Displaced,
            }),
            Outcome::Ended(_, End::Refused(refusal)) => Err(self.refused(refusal).into()),
            // Somebody has deleted the permit before it was granted, or the session is over.
            Outcome::Ended(..) | Outcome::Lost => Ok(Passage::Displaced),
        }
    }

    /// Looks, waits and tries, until the permit's node exists.
    async fn pass(&mut self) -> Result<Admitted, Stop> {
        loop {
            let changes = self.statement.changes();
            let Some((mut seen, connection)) = self.look().await? else {
                self.create().await?;
                continue;
            };
            let Some(mut ruling) = self.ruling(&seen, changes)? else {
                self.arrival = Arrival::Queued;
                continue;
            };
            if ruling == Ruling::Wait {
                if self.patience == Patience::Try {
                    return Err(Stop::Busy);
                }
                // Those who go from here on may have work in flight.
                self.arrival = Arrival::Queued;
                let Some(watched) = self.watch(seen, connection).await? else { continue };
                seen = watched;
                let Some(ruled) = self.ruling(&seen, changes)? else { continue };
                ruling = ruled;
            }
            match ruling {
                Ruling::Admit(kind) => {
                    self.delay().await?;
                    if let Some(admitted) = self.attempt(kind, seen, connection).await? {
                        return Ok(admitted);
                    }
                }
                _ if self.wait().await => return Err(Stop::Vanished),
                _ => {}
            }
        }
    }

    /// Looks at the pool, and whether the turnstile is still held. Also returns on which connection. `None` if the pool
    /// does not exist.
    async fn look(&mut self) -> Result<Option<(PoolSeen, u64)>, Stop> {
        loop {
            let Some(own) = self.ticket.as_ref().map(|ticket| ticket.own.clone()) else {
                return Err(Stop::Displaced);
            };
            let permits = self.statement.permits().clone();
            let request = move |wire: Wire| requests::look_at_pool(wire.client, own, permits);
            match self.ask(None, request).await? {
                Some(((Standing::Held, seen), connection)) => return Ok(seen.map(|seen| (seen, connection))),
                Some(((Standing::Touched, _), _)) => return Err(Stop::Displaced),
                Some(((Standing::Gone, _), _)) => return Err(Stop::Vanished),
                None => {}
            }
        }
    }

    /// Sends a request. `None` if it was not answered, after a pause.
    async fn ask<T, F>(
        &mut self,
        connection: Option<u64>,
        request: impl FnOnce(Wire) -> F + Send + 'static,
    ) -> Result<Option<(T, u64)>, Stop>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Event>> + Send + 'static,
    {
        match self.session.requester().request_where(connection, request).await {
            Answer::Given(Ok(answer), sent) => {
                self.tries = 0;
                Ok(Some((answer, sent.connection)))
            }
            Answer::Given(Err(Event::Refused(refusal)), _) => Err(self.refused(refusal).into()),
            Answer::Given(Err(Event::SessionOver(_)), _) | Answer::Over(_) => Err(Stop::Displaced),
            Answer::Given(Err(_), _) | Answer::Lost => {
                // Meanwhile a permit may have vanished unseen.
                self.arrival = Arrival::Queued;
                pause(&self.session, &mut self.tries).await.map_or(Ok(None), |()| Err(Stop::Displaced))
            }
        }
    }

    /// Makes the pool, with what this process states.
    async fn create(&mut self) -> Result<(), Stop> {
        let (permits, stated) = (self.statement.permits().clone(), self.statement.stock());
        // If its parent is gone, so is the turnstile, and the next look shows that.
        self.ask(None, move |wire: Wire| requests::create_pool(wire.client, permits, stated)).await?;
        Ok(())
    }

    /// Whether the wish fits. `None` if what was seen does not fit what is stated, which has changed so many times before:
    /// then another look is due.
    fn ruling(&self, seen: &PoolSeen, changes: u64) -> Result<Option<Ruling>, Stop> {
        let path = || self.statement.path().to_owned();
        let Some(found) = PoolData::decode(&seen.data) else {
            return Err(Stop::Failed(SemaphoreError::foreign(self.statement.permits())));
        };
        let stated = self.statement.stock_beside(found);
        match rule(&seen.children, found, stated, self.wish) {
            Ruling::Refuse(Misfit::Stock(_)) if self.statement.changes() != changes => Ok(None),
            Ruling::Refuse(Misfit::Stock(found)) => {
                Err(Stop::Failed(SemaphoreError::other(path(), found, stated)))
            }
            Ruling::Refuse(Misfit::TooLarge) => {
                Err(Stop::Failed(SemaphoreError::too_large(path(), self.wish, found)))
            }
            Ruling::Refuse(Misfit::Mixed) => Err(Stop::Failed(SemaphoreError::mixed(self.statement.permits()))),
            // The server takes the version -1 for any version, and would check nothing.
            Ruling::Admit(_) if seen.version < 0 => Err(self.refused(Refusal::Other(
                "the versions of the directory of permits are at their end; delete it while nobody holds a permit"
                    .to_owned(),
            ))
            .into()),
            ruling => Ok(Some(ruling)),
        }
    }

    /// Watches the pool on the connection on which it was seen. `None` if it has changed since, so that another look is
    /// due.
    async fn watch(&mut self, seen: PoolSeen, connection: u64) -> Result<Option<PoolSeen>, Stop> {
        let permits = self.statement.permits().clone();
        // A watch of the data that still stands need not be set again.
        let known = (self.watches.data.is_some() && self.watches.connection == connection).then_some(seen);
        let request = move |wire: Wire| async move {
            let watched = requests::watch_pool(wire.client.clone(), permits, known).await?;
            Ok(watched.map(|PoolWatched { seen, data, children }| {
                (seen, data.map(|watch| wire.keep(watch)), wire.keep(children))
            }))
        };
        let Some((Some((seen, data, children)), connection)) = self.ask(Some(connection), request).await?
        else {
            return Ok(None);
        };
        self.watches.connection = connection;
        self.watches.children = Some(children);
        if data.is_some() {
            self.watches.data = data;
        }
        Ok(Some(seen))
    }

    /// Waits until the pool changes, a watch is lost, or our node in the turnstile is touched. Then another look is due.
    /// Returns whether the node was touched.
    async fn wait(&mut self) -> bool {
        let turnstile = self.ticket.as_ref().and_then(|ticket| ticket.turnstile.as_ref());
        let lost = turnstile.map(|turnstile| turnstile.hold().lost());
        let mut touched = pin!(async {
            match lost {
                Some(lost) => match lost.await {
                    LostReason::NodeDeleted => true,
                    // The place in the turnstile lasts as long as the session. The end of the session ends the watches.
                    _ => pending().await,
                },
                None => pending().await,
            }
        });
        let stale = pin!(self.session.pause(self.session.lengths().timeout * STALE));
        let changed = pin!(self.watches.fired());
        let news = pin!(select(changed, stale));
        matches!(select(&mut touched, news).await, Either::Left((true, _)))
    }

    /// Waits out the takeover delay, if one applies. Room that was free at the look has been free for that long then.
    async fn delay(&self) -> Result<(), Stop> {
        let delay = self.statement.permits().takeover_delay;
        if delay.is_zero() || self.arrival == Arrival::New {
            return Ok(());
        }
        if self.patience == Patience::Try {
            return Err(Stop::Busy);
        }
        match self.session.pause(delay).await {
            Some(_) => Err(Stop::Displaced),
            None => Ok(()),
        }
    }

    /// Sends the transaction, and finds out what became of it. `None` if the turnstile is still held, and another look is
    /// due.
    async fn attempt(
        &mut self,
        kind: Kind,
        seen: PoolSeen,
        connection: u64,
    ) -> Result<Option<Admitted>, Stop> {
        let Some(ticket) = self.ticket.take() else { return Err(Stop::Displaced) };
        let attempted = Finishing::new(self.session.clone(), ticket.attempt(kind, seen, connection)).await;
        self.take_in(attempted)
    }

    /// Finds out whether an earlier attempt has taken effect, because our node in the turnstile is gone.
    async fn settle(&mut self) -> Result<Admitted, Stop> {
        let Some(ticket) = self.ticket.take() else { return Err(Stop::Displaced) };
        let settled = Finishing::new(self.session.clone(), ticket.settle()).await;
        self.take_in(settled)?.ok_or(Stop::Displaced)
    }

    fn take_in(&mut self, attempted: Attempted) -> Result<Option<Admitted>, Stop> {
        match attempted {
            Attempted::Admitted(admitted) => Ok(Some(admitted)),
            Attempted::Again(ticket) => {
                (self.ticket, self.arrival) = (Some(ticket), Arrival::Queued);
                Ok(None)
            }
            Attempted::Displaced => Err(Stop::Displaced),
            Attempted::Refused(refusal) => Err(self.refused(refusal).into()),
        }
    }

    fn refused(&self, refusal: Refusal) -> AcquireError {
        AcquireError::refused(self.statement.path().to_owned(), refusal)
    }
}

impl From<AcquireError> for Stop {
    fn from(error: AcquireError) -> Self {
        Self::Failed(error.into())
    }
}

/// The watches of a pool. They were set on this connection.
#[derive(Default)]
struct Watches {
    connection: u64,
    data: Option<Revocable<Event>>,
    children: Option<Revocable<Event>>,
}

impl Watches {
    /// Resolves once one of them fires, or is lost with its connection.
    async fn fired(&mut self) {
        poll_fn(|cx| {
            let mut fired = false;
            for watch in [&mut self.children, &mut self.data] {
                if let Some(stands) = watch
                    && stands.poll_unpin(cx).is_ready()
                {
                    (*watch, fired) = (None, true);
                }
            }
            if fired { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// A permit whose node exists. Dropped, it is given back.
struct Admitted(Option<Driver>);

impl Admitted {
    /// Resolves once the permit is granted, or has ended.
    async fn begun(&mut self) -> Outcome {
        let Some(driver) = &mut self.0 else { return Outcome::Lost };
        match driver.handle(Event::Begin(Look::Count)) {
            Some(outcome) => outcome,
            None => poll_fn(|cx| driver.poll(cx)).await,
        }
    }

    fn take(mut self) -> Option<Driver> {
        self.0.take()
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Driver::abandon);
    }
}

/// The node in the turnstile, and what it is good for: one permit. Dropped, it leaves the turnstile.
struct Ticket {
    session: Arc<ZkSession>,
    /// The hold of the turnstile; `None` once the node is gone, or is left to the background.
    turnstile: Option<Guard>,
    own: OwnNode,
    permits: Arc<Settings>,
    /// Names the permit. All attempts have the same id, because one of them takes effect at most.
    id: Uuid,
    /// Whether an attempt may still take effect.
    doubtful: bool,
}

/// What became of an attempt. If this is dropped, the ticket or the permit in it is given back.
enum Attempted {
    Admitted(Admitted),
    /// The turnstile is still held.
    Again(Ticket),
    /// The turnstile is no longer held, and there is no permit.
    Displaced,
    Refused(Refusal),
}

impl Ticket {
    /// Sends the transaction, and finds out what became of it.
    async fn attempt(mut self, kind: Kind, seen: PoolSeen, connection: u64) -> Attempted {
        let (own, permits) = (self.own.clone(), self.permits.clone());
        let data = NodeData::new(self.id, &permits.owner, permits.data.as_deref()).encode();
        // It goes out on the connection on which our node in the turnstile was seen, and on no later one. Before a later
        // connection is there, somebody may delete that node, and another contender may get its name.
        self.turnstile.iter().for_each(|turnstile| turnstile.expect_end(true));
        let request = self.session.requester().request_where(Some(connection), move |wire| {
            requests::admit(wire.client, own, permits, kind, data, seen)
        });
        match request.await {
            Answer::Given(Admission::Done(permit), sent) => {
                self.session.lease().confirmed(sent);
                self.admitted(permit, Some(sent.connection))
            }
            Answer::Given(Admission::Changed, _) => {
                self.turnstile.iter().for_each(|turnstile| turnstile.expect_end(self.doubtful));
                Attempted::Again(self)
            }
            Answer::Given(Admission::Refused(refusal), _) => Attempted::Refused(refusal),
            Answer::Given(Admission::NotHeld | Admission::Unknown, _) | Answer::Lost => {
                self.doubtful = true;
                self.settle().await
            }
            Answer::Over(_) => Attempted::Displaced,
        }
    }

    /// Finds out what became of the attempts, until a server says so.
    async fn settle(mut self) -> Attempted {
        let mut tries = 0;
        loop {
            match self.ask().await {
                // Its name may be another permit's by now, so it is looked at again before it is granted.
                Some(Settlement::Admitted(permit)) => return self.admitted(permit, None),
                Some(Settlement::Not(Standing::Held)) => return Attempted::Again(self),
                // No attempt takes effect while this node is there. Its guard deletes it.
                Some(Settlement::Not(Standing::Touched)) => {
                    self.expect_late();
                    self.doubtful = false;
                    return Attempted::Displaced;
                }
                Some(Settlement::Not(Standing::Gone)) => {
                    self.expect_late();
                    self.spend();
                    return Attempted::Displaced;
                }
                Some(Settlement::Unclear(refusal)) => {
                    // A permit that nobody can identify would take its weight for as long as the session lives.
                    if self.session.lease().end().is_none() {
                        warn!(
                            path = %self.permits.name(), %refusal,
                            "an acquisition cannot tell which node is its own; zklock gives up the ZooKeeper session, so that the node goes with it"
                        );
                        self.session.close();
                    }
                    return Attempted::Displaced;
                }
                None if self.session.lease().end().is_some() => return Attempted::Displaced,
                None => {
                    if pause(&self.session, &mut tries).await.is_some() {
                        return Attempted::Displaced;
                    }
                }
            }
        }
    }

    /// Asks what became of the attempts. `None` if nobody answered.
    async fn ask(&self) -> Option<Settlement> {
        let (own, permits, id) = (self.own.clone(), self.permits.clone(), self.id);
        let searches = self.session.searches().clone();
        let requester = self.session.requester();
        let request =
            requester.request(move |wire| requests::settle(wire.client, own, permits, id, searches));
        match request.await {
            Answer::Given(Ok(settlement), _) => Some(settlement),
            Answer::Given(Err(_), _) | Answer::Lost | Answer::Over(_) => None,
        }
    }

    /// The permit's node exists, and the same transaction has deleted our node in the turnstile.
    fn admitted(mut self, permit: Own, connection: Option<u64>) -> Attempted {
        self.spend();
        let entry = Entry { lock: self.permits.clone(), kind: permit.place.kind };
        let driver = Driver::admitted(self.session.clone(), entry, permit, connection);
        Attempted::Admitted(Admitted(Some(driver)))
    }

    /// Looks out for a permit that is created late. If ZooKeeper removes the empty turnstile, another contender gets the name of
    /// our node, and an attempt that is still on its way to be carried out would take that node for ours.
    fn expect_late(&self) {
        if self.doubtful {
            self.session.expect_late(self.permits.clone(), self.id);
        }
    }

    /// Forgets the hold of the turnstile, whose node is gone. Another contender may have the node's name by now.
    fn spend(&mut self) {
        self.turnstile.take().into_iter().for_each(Guard::spend);
    }

    /// Leaves the turnstile, and returns once that is confirmed, if no attempt is in doubt.
    async fn leave(mut self) {
        if !self.doubtful
            && let Some(turnstile) = self.turnstile.take()
        {
            // If this is not confirmed, it is done in the background.
            let _left = turnstile.release().await;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // The guard leaves the turnstile in the background.
        if self.turnstile.take().is_none() || !self.doubtful {
            return;
        }
        // An attempt may take effect before that.
        let ticket = Ticket {
            session: self.session.clone(),
            turnstile: None,
            own: self.own.clone(),
            permits: self.permits.clone(),
            id: self.id,
            doubtful: true,
        };
        self.session.finish(ticket.watch_out().boxed());
    }
}

impl Ticket {
    /// Waits until our node in the turnstile is gone, and gives a permit back that was created before that.
    async fn watch_out(self) {
        let mut tries = 0;
        loop {
            match self.ask().await {
                Some(Settlement::Admitted(permit)) => return drop(self.admitted(permit, None)),
                Some(Settlement::Not(Standing::Gone | Standing::Touched)) => {
                    return self.expect_late();
                }
                Some(Settlement::Unclear(_)) => return self.session.close(),
                None if self.session.lease().end().is_some() => return,
                Some(Settlement::Not(Standing::Held)) | None => {}
            }
            if pause(&self.session, &mut tries).await.is_some() {
                return;
            }
        }
    }
}

/// Pauses before a request is repeated. The first repetition follows at once, because the request itself waits for a
/// connection. Returns `Some` if the session is over.
fn pause(session: &ZkSession, tries: &mut u32) -> BoxFuture<'static, Option<()>> {
    *tries = tries.saturating_add(1);
    match tries.checked_sub(2) {
        Some(doublings) => {
            let pause = backoff::pause(doublings, LONGEST_PAUSE);
            session.pause(pause).map(|over| over.map(drop)).boxed()
        }
        None => std::future::ready(None).boxed(),
    }
}
