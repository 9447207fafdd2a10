//! Performs what an [`Admission`] asks for: from the turnstile to the permit.
//!
//! Everything here happens while the acquisition holds the turnstile. The acquisition's caller polls it, and may drop it at each
//! await; what must still be done then, the session's background does.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, pending, select};
use tracing::{debug, warn};
use uuid::Uuid;
use zklock_recipe::admission::{Admission, AdmissionCommand, AdmissionEvent, AdmissionOutcome, SeenPool};
use zklock_recipe::{
    self as recipe, Arrival, Breach, End, Event, Kind, Misfit, Outcome, Own, Patience, QueuePlace, Refusal,
    SessionEnd, Takeover, Tries, Wish,
};

use super::error::PoolError;
use super::requests::{self, PoolWatched, admission_failure};
use super::statement::Statement;
use crate::acquire::acquirer::Passage;
use crate::contender::{Course, Driver, Performed, Procedure, Work};
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::guard::lost::LostReason;
use crate::node::{NodeData, encode};
use crate::requests::{Evidence, OwnNode};
use crate::settings::QueueEntry;
use crate::wire::{LinkAnswer, Revocable, Wire};
use crate::zk::ZkSession;

/// After so many session timeouts without news, an acquisition that waits for room looks again. If an ACL takes the
/// permission to read the permits from it, the server withholds their end.
const STALE: u32 = 10;

/// Waits for room under this guard of the turnstile, and passes.
pub(super) async fn admit<K: 'static>(
    statement: Arc<Statement>,
    turnstile: Guard,
    arrival: Arrival,
    wish: Wish,
    patience: Patience,
) -> Result<Passage<Guard<K>>, PoolError> {
    let admitting = Admitting::new(statement.clone(), turnstile, arrival, wish, patience);
    let session = admitting.session.clone();
    let mut course = Course::begin(session.clone(), admitting, AdmissionHeard::from(AdmissionEvent::Begin));
    let directory = || statement.permits.queue.path.to_string();
    let refused = |refusal| AcquireError::refused(statement.path().to_owned(), refusal).into();
    let mut permit = match course.outcome().await {
        Some(AdmissionOutcome::Admitted(own, connection)) => {
            MadePermit::new(session, &statement, own, connection)
        }
        Some(AdmissionOutcome::Busy) => return Ok(Passage::Busy),
        Some(AdmissionOutcome::Displaced) | None => return Ok(Passage::Displaced),
        Some(AdmissionOutcome::Foreign) => return Err(PoolError::UnknownData { directory: directory() }),
        Some(AdmissionOutcome::Refused(refusal)) => return Err(refused(refusal)),
        Some(AdmissionOutcome::Unfit(misfit, found, stated)) => {
            let path = statement.path().to_owned();
            return Err(match misfit {
                Misfit::Stock(found) => PoolError::other_stock(path, found, stated),
                Misfit::TooLarge => PoolError::too_large(path, wish, found),
                Misfit::Mixed => PoolError::Mixed { directory: directory() },
            });
        }
    };
    match permit.begun().await {
        Outcome::Granted(nodes, term) => Ok(match permit.0.take() {
            Some(driver) => Passage::Passed(Guard::new(driver, nodes, term)),
            None => Passage::Displaced,
        }),
        Outcome::Ended(_, End::Refused(refusal)) => Err(refused(refusal)),
        // Somebody has deleted the permit before it was granted, or the session is over.
        Outcome::Ended(..) | Outcome::Lost(_) => Ok(Passage::Displaced),
    }
}

/// A permit whose node exists. Dropped, it is given back.
struct MadePermit(Option<Driver>);

impl MadePermit {
    fn new(session: Arc<ZkSession>, statement: &Statement, own: Own, connection: Option<u64>) -> Self {
        let entry = QueueEntry { lock: statement.permits.clone(), kind: own.place.kind };
        Self(Some(Driver::admitted(session, entry, own, connection)))
    }

    /// Resolves once the permit is granted, or has ended.
    async fn begun(&mut self) -> Outcome {
        let Some(driver) = &mut self.0 else { return Outcome::Lost(Breach::Touched) };
        match driver.handle(Event::Begin) {
            Some(outcome) => outcome,
            None => poll_fn(|cx| driver.poll(cx)).await,
        }
    }
}

impl Drop for MadePermit {
    fn drop(&mut self) {
        if let Some(driver) = self.0.take() {
            driver.abandon();
        }
    }
}

/// An acquisition that holds the turnstile.
struct Admitting {
    machine: Admission,
    statement: Arc<Statement>,
    session: Arc<ZkSession>,
    /// The hold of the turnstile; `None` once the node is gone, or is left to the background.
    turnstile: Option<Guard>,
    own: OwnNode,
    /// Whether our node in the turnstile is watched.
    is_watched: bool,
    /// Names the permit. All attempts have the same id, because one of them takes effect at most.
    id: Uuid,
    watches: Watches,
    /// How often the statement had changed when the last look was sent.
    changes: u64,
    tries: Tries,
}

/// What comes of a request, with the watches that were given to it, or that it has set.
struct AdmissionHeard {
    event: AdmissionEvent,
    watches: Option<Watches>,
}

impl Evidence for AdmissionHeard {
    fn session_end(&self) -> Option<SessionEnd> {
        self.event.session_end()
    }
}

impl From<AdmissionEvent> for AdmissionHeard {
    fn from(event: AdmissionEvent) -> Self {
        Self { event, watches: None }
    }
}

impl Procedure for Admitting {
    type Heard = AdmissionHeard;
    type Command = AdmissionCommand;
    type Outcome = AdmissionOutcome;

    const OUTLASTS_THE_SESSION: bool = false;
    const GONE: Option<AdmissionHeard> =
        Some(AdmissionHeard { event: AdmissionEvent::GiveUp, watches: None });

    fn handle(&mut self, AdmissionHeard { event, watches }: AdmissionHeard) -> Vec<AdmissionCommand> {
        match &event {
            AdmissionEvent::GiveUp => {}
            event if event.is_news() => self.tries.answered(),
            _ => self.tries.failed(),
        }
        if let Some(watches) = watches {
            self.watches = watches;
        }
        self.machine.handle(event)
    }

    fn perform(&mut self, command: AdmissionCommand) -> Performed<AdmissionHeard, AdmissionOutcome> {
        match command {
            AdmissionCommand::Tell(outcome) => return Performed::Told(outcome),
            AdmissionCommand::Depart => drop(self.turnstile.take()),
            AdmissionCommand::Forfeit => {
                debug!("the place in a turnstile is lost");
                if let Some(turnstile) = self.turnstile.take() {
                    turnstile.touched();
                }
            }
            AdmissionCommand::Spend => {
                // Another contender may have the node's name by now.
                if let Some(turnstile) = self.turnstile.take() {
                    turnstile.spend();
                }
            }
            AdmissionCommand::ExpectLate => self.session.expect_late(self.statement.permits.clone(), self.id),
            AdmissionCommand::EndSession(refusal) => self.end_session(&refusal),
            AdmissionCommand::GiveBack(own, connection) => {
                debug!("a permit is given back whose caller has gone");
                drop(MadePermit::new(self.session.clone(), &self.statement, own, connection));
            }
            AdmissionCommand::Look => return Performed::Request(self.look_at_pool()),
            AdmissionCommand::Create => {
                debug!("a pool does not exist yet");
                return Performed::Request(self.create_pool());
            }
            AdmissionCommand::Watch(seen) => return Performed::Request(self.watch_pool(seen)),
            AdmissionCommand::Wait => return Performed::Request(self.wait_for_change()),
            AdmissionCommand::Delay => {
                debug!("a permit may have gone without a release, so the takeover delay begins");
                return Performed::Request(self.wait_for_delay());
            }
            AdmissionCommand::Attempt(kind, seen) => {
                return Performed::Request(self.send_attempt(kind, seen));
            }
            AdmissionCommand::Recover => {
                debug!("a transaction for a permit was not answered, so zklock looks for its node");
                return Performed::Request(self.recover_attempt());
            }
            AdmissionCommand::Leave => return Performed::Request(self.leave_turnstile()),
        }
        Performed::Done
    }

    fn is_ended(&self) -> bool {
        self.machine.is_ended()
    }
}

impl Admitting {
    fn new(
        statement: Arc<Statement>,
        turnstile: Guard,
        arrival: Arrival,
        wish: Wish,
        patience: Patience,
    ) -> Self {
        let turn = &turnstile.turn;
        // A guard of one lock has one node. Without it, nothing is ever found there.
        let nowhere = || (statement.permits.clone(), Own { place: QueuePlace::exclusive(0), czxid: 0 });
        let own = turn.nodes().first().cloned().unwrap_or_else(nowhere);
        let delay = statement.permits.options.takeover_delay;
        let takeover = if delay.is_zero() { Takeover::AtOnce } else { Takeover::Delayed };
        Self {
            machine: Admission::new(wish, patience, takeover, arrival),
            statement,
            session: turn.session().clone(),
            turnstile: Some(turnstile),
            own,
            is_watched: false,
            id: Uuid::new_v4(),
            watches: Watches::default(),
            changes: 0,
            tries: Tries::default(),
        }
    }

    /// Sends a request; on this connection, if one is given.
    fn request<F: Future<Output = AdmissionHeard> + Send + 'static>(
        &self,
        connection: Option<u64>,
        request: impl FnOnce(Wire) -> F + Send + 'static,
    ) -> BoxFuture<'static, AdmissionHeard> {
        let heard = |answer| match answer {
            LinkAnswer::Given(heard, _) => heard,
            LinkAnswer::Lost => AdmissionEvent::Unanswered.into(),
            LinkAnswer::Over(end) => AdmissionEvent::SessionOver(end).into(),
        };
        self.session.request_after(self.tries, connection, request).map(heard).boxed()
    }

    fn look_at_pool(&mut self) -> BoxFuture<'static, AdmissionHeard> {
        self.changes = self.statement.changes();
        let own = self.own.clone();
        let statement = self.statement.clone();
        let changes = self.changes;
        self.request(None, move |wire| async move {
            let looked =
                requests::look_at_pool(wire.client, own, statement.permits.clone(), wire.number).await;
            let looked = looked.map(|(standing, seen)| {
                let stated = seen.as_ref().map(|seen| statement.stated_beside(seen, changes));
                AdmissionEvent::Looked(standing, seen.zip(stated))
            });
            looked.unwrap_or_else(admission_failure).into()
        })
    }

    fn create_pool(&self) -> BoxFuture<'static, AdmissionHeard> {
        let permits = self.statement.permits.clone();
        let stated = self.statement.stock();
        self.request(None, move |wire| async move {
            let created = requests::create_pool(wire.client, permits, stated).await;
            // If its parent is gone, so is the turnstile, and the next look shows that.
            created.map_or_else(admission_failure, |_| AdmissionEvent::Created).into()
        })
    }

    /// On the connection on which the pool was seen. A watch of the data that still stands need not be set again.
    fn watch_pool(&mut self, seen: SeenPool) -> BoxFuture<'static, AdmissionHeard> {
        self.own.0.tell_place(0, true);
        let statement = self.statement.clone();
        let changes = self.changes;
        let mut watches = std::mem::take(&mut self.watches);
        self.request(Some(seen.connection), move |wire| async move {
            let permits = statement.permits.clone();
            let is_watched = watches.data.is_some() && watches.connection == wire.number;
            let event = match requests::watch_pool(wire.watching(), permits, seen, is_watched).await {
                Ok(Some(PoolWatched { seen, data, children })) => {
                    watches.connection = wire.number;
                    watches.children = Some(wire.keep(children));
                    if let Some(data) = data {
                        watches.data = Some(wire.keep(data));
                    }
                    let stated = statement.stated_beside(&seen, changes);
                    AdmissionEvent::Watched(Some((seen, stated)))
                }
                Ok(None) => AdmissionEvent::Watched(None),
                Err(event) => admission_failure(event),
            };
            AdmissionHeard { event, watches: Some(watches) }
        })
    }

    fn wait_for_change(&mut self) -> BoxFuture<'static, AdmissionHeard> {
        if let Some(turnstile) = self.turnstile.as_ref().filter(|_| !self.is_watched) {
            turnstile.watch_node();
            self.is_watched = true;
        }
        let mut watches = std::mem::take(&mut self.watches);
        let lost = self.turnstile.as_ref().map(|turnstile| turnstile.turn.clone().lost(Duration::ZERO));
        let stale = self.session.pause(self.session.lease.lengths().timeout * STALE);
        async move {
            let mut touched = pin!(async {
                match lost {
                    Some(lost) => match lost.await {
                        LostReason::NodeDeleted => {}
                        // The place in the turnstile lasts as long as the session. The end of the session ends the watches.
                        _ => pending().await,
                    },
                    None => pending().await,
                }
            });
            let event = {
                let changed = pin!(watches.fired());
                let stale = pin!(stale);
                match select(&mut touched, select(changed, stale)).await {
                    Either::Left(_) => AdmissionEvent::Touched,
                    Either::Right(_) => AdmissionEvent::Changed,
                }
            };
            AdmissionHeard { event, watches: Some(watches) }
        }
        .boxed()
    }

    fn wait_for_delay(&self) -> BoxFuture<'static, AdmissionHeard> {
        let delay = self.session.pause(self.statement.permits.options.takeover_delay);
        delay.map(|over| over.map_or(AdmissionEvent::Delayed, AdmissionEvent::SessionOver).into()).boxed()
    }

    /// It goes out on the connection on which our node in the turnstile was seen, and on no later one. Before a later
    /// connection is there, somebody may delete that node, and another contender may get its name.
    fn send_attempt(&self, kind: Kind, seen: SeenPool) -> BoxFuture<'static, AdmissionHeard> {
        let own = self.own.clone();
        let permits = self.statement.permits.clone();
        let data = encode(&NodeData::new(self.id, &permits.options.owner, permits.options.data.as_deref()));
        let settings = permits.clone();
        let answer = self.session.requester.request_where(Some(seen.connection), move |wire| {
            requests::send_attempt(wire.client, own, settings, kind, data, seen)
        });
        async move {
            AdmissionHeard::from(match answer.await {
                LinkAnswer::Given(event, _) => {
                    if let AdmissionEvent::OtherPool(_) = event {
                        warn!(
                            path = %permits.queue.name(),
                            "somebody has deleted the directory of permits and made it again; a transaction has written the former \
                             number of permits to it, and its permit is given back; write the right number"
                        );
                    }
                    event
                }
                LinkAnswer::Lost => AdmissionEvent::Unanswered,
                LinkAnswer::Over(end) => AdmissionEvent::SessionOver(end),
            })
        }
        .boxed()
    }

    fn recover_attempt(&self) -> BoxFuture<'static, AdmissionHeard> {
        let own = self.own.clone();
        let permits = self.statement.permits.clone();
        let id = self.id;
        let searches = self.session.searches.clone();
        self.request(None, move |wire| async move {
            let recovered = requests::recover_attempt(wire.client, own, permits, id, searches).await;
            recovered.map_or_else(admission_failure, AdmissionEvent::Recovered).into()
        })
    }

    fn leave_turnstile(&mut self) -> BoxFuture<'static, AdmissionHeard> {
        let turnstile = self.turnstile.take();
        async move {
            if let Some(turnstile) = turnstile {
                // If this is not confirmed, it is done in the background.
                let _left = turnstile.release().await;
            }
            AdmissionEvent::Left.into()
        }
        .boxed()
    }

    fn end_session(&self, refusal: &Refusal) {
        if self.session.lease.end().is_none() {
            warn!(
                path = %self.statement.permits.queue.name(), %refusal,
                "an acquisition cannot tell which node is its own; zklock closes the ZooKeeper session, so that \
                 ZooKeeper deletes the node"
            );
            self.session.lease.ended_quietly(SessionEnd::Closed);
        }
    }
}

/// The watches of a pool. They were set on this connection.
#[derive(Default)]
struct Watches {
    connection: u64,
    data: Option<Revocable<recipe::Event>>,
    children: Option<Revocable<recipe::Event>>,
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
                    *watch = None;
                    fired = true;
                }
            }
            if fired { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
