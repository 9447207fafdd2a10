//! Performs what the [`Candidacy`] of a leader asks for: its announcement, kept up for as long as the leader leads.
//!
//! It runs in the session's background, so a campaign and a proclamation only say what is to be announced, and wait. It ends with
//! the hold. The contender takes the announcement along, or back.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, pending, select};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};
use zklock_recipe::candidacy::{
    self, Candidacy, CandidacyCommand, CandidacyEvent, Proclamation, SeenAnnouncement,
};
use zklock_recipe::{Footing, Tries};

use super::error::{AnnounceError, ProclaimError};
use super::requests::{Announced, watch_announcement};
use crate::contender::{Course, Performed, Procedure};
use crate::guard::hold::turn::Turn;
use crate::guard::operation::{Node, NodeOptions};
use crate::guard::transaction;
use crate::guard::transaction_error::{ConditionProblem, TransactionError};
use crate::node::{LeaderData, encode};
use crate::observe::sight::{StandingWatch, WatchedSight, send_look, stale_after};
use crate::settings::Settings;
use crate::wire::LinkAnswer;

/// The longest value that a leader can announce, in bytes.
pub(super) const LONGEST_VALUE: usize = 16 * 1024;

/// An announcement that stood for this long was not taken away in a row with the last one.
const CALM: Duration = Duration::from_secs(10);

/// How long a leader leads before it watches its announcement: a short leadership need not pay for the watch.
const SETTLING: Duration = Duration::from_millis(20);

/// Announces what the leader proclaims. The leadership and the background task share it.
pub(super) struct Announcer {
    path: String,
    turn: Arc<Turn>,
    wanted: watch::Sender<Proclamation<LeaderData>>,
    /// What became of the proclamations until this number.
    outcome: watch::Receiver<(u64, ProclaimOutcome)>,
}

type ProclaimOutcome = Result<(), AnnounceError>;

pub(super) fn check_value(path: &str, value: &str) -> Result<(), AnnounceError> {
    if value.len() <= LONGEST_VALUE {
        return Ok(());
    }
    Err(AnnounceError::TooLong { path: path.to_owned(), length: value.len(), longest: LONGEST_VALUE })
}

impl Announcer {
    pub(super) fn start(settings: &Arc<Settings>, path: String, turn: Arc<Turn>, value: &str) -> Self {
        // This comes before the first request, so that the end of the hold takes the announcement along.
        turn.accompany(path.clone());
        let session = turn.session().clone();
        let value = LeaderData::new(turn.czxid(), &settings.options.owner, value);
        let machine = Candidacy::new(session.id, value.clone());
        let (wanted, proclamations) = watch::channel(Proclamation { number: 1, value });
        let (sender, outcome) = watch::channel((0, Ok(())));
        let keeper = Keeper {
            machine,
            path: path.clone(),
            settings: settings.clone(),
            turn: turn.clone(),
            wanted: proclamations,
            watch: None,
            settled: None,
            tries: Tries::default(),
            disturbances: Tries::default(),
            disturbed: Instant::now(),
        };
        let mut course = Course::begin(session.clone(), keeper, CandidacyEvent::Begin.into());
        let keep_up = async move {
            while let Some(outcome) = course.outcome().await {
                debug_assert!(
                    sender.borrow().0 <= outcome.0,
                    "an older proclamation is told after a newer one"
                );
                sender.send_modify(|last| *last = outcome);
            }
        };
        session.finish(keep_up.boxed());
        Self { path, turn, wanted, outcome }
    }

    /// Proclaims another value. It is announced in the background.
    pub(super) fn proclaim(&self, value: String) -> Result<(), ProclaimError> {
        self.turn.check()?;
        check_value(&self.path, &value)?;
        self.wanted.send_modify(|Proclamation { number, value: data }| {
            *number += 1;
            *data = LeaderData::new(data.token, &data.owner, &value);
        });
        Ok(())
    }

    /// Waits until the last proclamation before this call is announced, or a later one.
    pub(super) async fn announced(&self) -> Result<(), ProclaimError> {
        let number = self.wanted.borrow().number;
        let mut outcome = self.outcome.clone();
        let lost = pin!(self.turn.clone().lost(Duration::ZERO));
        let told = pin!(async {
            let told = outcome.wait_for(|(told, _)| *told >= number).await.ok().map(|told| told.1.clone());
            match told {
                Some(outcome) => outcome,
                // The background task has ended, and so has the hold.
                None => pending().await,
            }
        });
        match select(told, lost).await {
            Either::Left((outcome, _)) => Ok(outcome?),
            Either::Right((reason, _)) => Err(self.turn.as_lost(reason).into()),
        }
    }
}

/// The background task.
struct Keeper {
    machine: Candidacy<LeaderData>,
    path: String,
    settings: Arc<Settings>,
    turn: Arc<Turn>,
    wanted: watch::Receiver<Proclamation<LeaderData>>,
    watch: Option<StandingWatch>,
    /// When the leader has led for a while, once it is announced.
    settled: Option<Instant>,
    /// The requests in a row that were not answered.
    tries: Tries,
    /// The announcements in a row that were not there afterwards, and when the last one was found missing.
    disturbances: Tries,
    disturbed: Instant,
}

/// What comes of a request, with the watch if the request was given it. Without an event the leader may have proclaimed another
/// value.
struct KeeperHeard {
    event: Option<CandidacyEvent<LeaderData, AnnounceError>>,
    watch: Option<StandingWatch>,
}

impl From<CandidacyEvent<LeaderData, AnnounceError>> for KeeperHeard {
    fn from(event: CandidacyEvent<LeaderData, AnnounceError>) -> Self {
        Self { event: Some(event), watch: None }
    }
}

impl Procedure for Keeper {
    type Heard = KeeperHeard;
    type Command = CandidacyCommand<LeaderData, AnnounceError>;
    type Outcome = (u64, ProclaimOutcome);

    const OUTLASTS_THE_SESSION: bool = false;
    const GONE: Option<KeeperHeard> = Some(KeeperHeard { event: Some(CandidacyEvent::Over), watch: None });

    fn handle(&mut self, KeeperHeard { event, watch }: KeeperHeard) -> Vec<Self::Command> {
        match &event {
            Some(event) if event.is_news() => self.tries.answered(),
            Some(_) => self.tries.failed(),
            None => {}
        }
        self.watch = watch.or(self.watch.take());
        let proclaimed = CandidacyEvent::Proclaimed(self.wanted.borrow_and_update().clone());
        [proclaimed].into_iter().chain(event).flat_map(|event| self.machine.handle(event)).collect()
    }

    fn perform(&mut self, command: Self::Command) -> Performed<KeeperHeard, (u64, ProclaimOutcome)> {
        let request = match command {
            CandidacyCommand::Tell(number, outcome) => {
                if let Err(error) = &outcome {
                    warn!(%error, "the announcement of the leader failed");
                }
                return Performed::Told((number, outcome));
            }
            CandidacyCommand::Announce { value, replace } => self.send_announcement(&value, replace).boxed(),
            CandidacyCommand::Settle => self.wait_until_settled().boxed(),
            CandidacyCommand::Look(footing) => self.look_at_announcement(footing).boxed(),
            CandidacyCommand::Wait => self.wait_for_change().boxed(),
            CandidacyCommand::Pause => self.pause_after_disturbance().boxed(),
        };
        // The end of the hold ends each request.
        let lost = self.turn.clone().lost(Duration::ZERO).map(|_| CandidacyEvent::Over.into()).boxed();
        Performed::Request(select(lost, request).map(|heard| heard.factor_first().0).boxed())
    }

    fn is_ended(&self) -> bool {
        self.machine.is_ended()
    }
}

impl Keeper {
    fn send_announcement(
        &self,
        value: &LeaderData,
        replace: bool,
    ) -> impl Future<Output = KeeperHeard> + Send + use<> {
        let turn = self.turn.clone();
        let path = self.path.clone();
        let options = NodeOptions::new().acl(self.settings.options.acl.clone()).ephemeral();
        let node = |()| Node { options: options.clone(), ..Node::new(path.clone(), encode(value)) };
        let operations = candidacy::announcement(replace).into_iter().map(|it| it.map(node)).collect();
        let pause = self.turn.session().pause_after(self.tries);
        async move {
            pause.await;
            match transaction::send(&turn, operations).await {
                Ok(_) => CandidacyEvent::Announced,
                Err(TransactionError::Lost(_)) => CandidacyEvent::Over,
                Err(TransactionError::Unknown { .. } | TransactionError::Throttled { .. }) => {
                    debug!("an announcement was not answered");
                    CandidacyEvent::Unanswered
                }
                Err(TransactionError::Condition { problem: ConditionProblem::NodeExists, .. })
                    if !replace =>
                {
                    debug!("somebody else's announcement is in the way");
                    CandidacyEvent::Contested
                }
                Err(TransactionError::Condition {
                    problem: ConditionProblem::NoNode, operation: 0, ..
                }) if replace => CandidacyEvent::Contested,
                Err(TransactionError::Condition { problem: ConditionProblem::NotAuthorized, .. }) => {
                    CandidacyEvent::Refused(AnnounceError::NotAuthorized { path })
                }
                Err(TransactionError::Condition { problem, .. }) => {
                    CandidacyEvent::Refused(AnnounceError::Refused { path, cause: problem.to_string() })
                }
                Err(TransactionError::Invalid { cause, .. } | TransactionError::Refused { cause, .. }) => {
                    CandidacyEvent::Refused(AnnounceError::Refused { path, cause })
                }
            }
            .into()
        }
    }

    fn wait_until_settled(&mut self) -> impl Future<Output = KeeperHeard> + Send + use<> {
        let settled = *self.settled.get_or_insert_with(|| Instant::now() + SETTLING);
        let settled = self.turn.session().sleep(settled.saturating_duration_since(Instant::now()));
        proclaimed_or(self.wanted.clone(), settled.map(|()| CandidacyEvent::Settled))
            .map(|event| KeeperHeard { event, watch: None })
    }

    fn look_at_announcement(&mut self, footing: Footing) -> impl Future<Output = KeeperHeard> + Send + use<> {
        let path = self.path.clone();
        let session = self.turn.session().view();
        let before = self.watch.take();
        let looked = send_look(&session, move |watching| watch_announcement(watching, path, footing));
        let pause = self.turn.session().pause_after(self.tries);
        async move {
            pause.await;
            let (found, watch) = match looked.await {
                LinkAnswer::Given(WatchedSight { found, watch, .. }, _) => (found, watch.or(before)),
                LinkAnswer::Lost => return CandidacyEvent::Unanswered.into(),
                LinkAnswer::Over(_) => return CandidacyEvent::Over.into(),
            };
            let seen = |Announced { data, session }| SeenAnnouncement { session, value: data };
            let event = match found {
                Ok(found) => {
                    if found.is_none() {
                        debug!("a leader does not find its announcement");
                    }
                    CandidacyEvent::Looked(found.map(|(_, found)| seen(found)))
                }
                Err(zklock_recipe::Event::Refused(_)) => CandidacyEvent::Hidden,
                Err(_) => CandidacyEvent::Unanswered,
            };
            KeeperHeard { event: Some(event), watch }
        }
    }

    fn wait_for_change(&mut self) -> impl Future<Output = KeeperHeard> + Send + use<> {
        let mut watch = self.watch.take();
        let wanted = self.wanted.clone();
        // A server withholds the events of a node that this session may no longer read.
        let doubted = self.turn.session().sleep(stale_after(self.turn.session().lease.lengths().timeout));
        async move {
            let news = async {
                tokio::select! {
                    event = watched_change(&mut watch) => event,
                    () = doubted => CandidacyEvent::Doubted,
                }
            };
            let event = proclaimed_or(wanted, news).await;
            KeeperHeard { event, watch }
        }
    }

    fn pause_after_disturbance(&mut self) -> impl Future<Output = KeeperHeard> + Send + use<> {
        info!(
            path = self.path,
            "the leader's announcement is gone or changed; the leader announces itself again"
        );
        if self.disturbed.elapsed() > CALM {
            self.disturbances.answered();
        }
        self.disturbances.failed();
        self.disturbed = Instant::now();
        let pause = self.turn.session().pause_after(self.disturbances);
        pause.map(|over| over.map_or(CandidacyEvent::Paused, |_| CandidacyEvent::Over).into())
    }
}

/// Resolves to the event, or to none once the leader has proclaimed another value.
async fn proclaimed_or<T, E>(
    mut wanted: watch::Receiver<Proclamation<T>>,
    event: impl Future<Output = CandidacyEvent<T, E>>,
) -> Option<CandidacyEvent<T, E>> {
    match select(pin!(wanted.changed()), pin!(event)).await {
        Either::Left((Ok(()), _)) => None,
        // The leadership is gone, and its hold with it, unless that is shared. Then nobody keeps the announcement up.
        Either::Left((Err(_), _)) => Some(CandidacyEvent::Over),
        Either::Right((event, _)) => Some(event),
    }
}

/// Resolves once the watch reports a change, or is lost.
async fn watched_change<T, E>(watch: &mut Option<StandingWatch>) -> CandidacyEvent<T, E> {
    let Some(standing) = watch else { return pending().await };
    if standing.changed().await.is_some() {
        return CandidacyEvent::Changed;
    }
    *watch = None;
    CandidacyEvent::Doubted
}
