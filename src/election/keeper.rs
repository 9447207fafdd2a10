//! Makes a leader's announcement, and keeps it up for as long as the leader leads.
//!
//! One task in the session's background writes the announcement, so no two writes of it overlap. It ends with the hold.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, pending, select};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};
use zklock_recipe::{Event, Footing};

use super::error::{AnnounceError, ProclaimError};
use crate::backoff;
use crate::guard::hold::Hold;
use crate::guard::operation::{NodeOptions, Operation, Task};
use crate::guard::transaction_error::{ConditionProblem, TransactionError};
use crate::node::LeaderData;
use crate::observe::sight::{Heard, Standing, sight, stale};
use crate::requests::{self, Announced};
use crate::settings::Settings;

/// The longest value that a leader can announce, in bytes.
pub(super) const LONGEST_VALUE: usize = 16 * 1024;

/// The longest pause. The first one follows the first transaction that was not answered, or the second announcement in a row
/// that somebody else took away.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// An announcement that stood for this long was not taken away in a row with the last one.
const CALM: Duration = Duration::from_secs(10);

/// How long a leader leads before it watches its announcement: a short leadership need not pay for the watch.
const SETTLING: Duration = Duration::from_millis(20);

/// Announces what the leader proclaims. The leadership and the background task share it.
pub(super) struct Announcer {
    path: String,
    hold: Hold,
    /// What is to be announced, with a number that grows with each proclamation.
    wanted: Arc<watch::Sender<(u64, LeaderData)>>,
    /// What became of the proclamations until this number.
    outcome: watch::Receiver<(u64, Outcome)>,
}

/// What became of a proclamation.
type Outcome = Result<(), AnnounceError>;

/// Checks that a value can be announced at `path`.
pub(super) fn check(path: &str, value: &str) -> Result<(), AnnounceError> {
    match value.len() {
        length if length > LONGEST_VALUE => {
            Err(AnnounceError::TooLong { path: path.to_owned(), length, longest: LONGEST_VALUE })
        }
        _ => Ok(()),
    }
}

impl Announcer {
    /// Begins to announce this value.
    pub(super) fn start(settings: &Arc<Settings>, path: String, hold: Hold, value: String) -> Self {
        let session = hold.session().clone();
        // This comes before the first request, so that the end of the hold takes the announcement along.
        hold.accompany(path.clone());
        let data = LeaderData::new(hold.czxid(), &settings.owner, &value);
        let wanted = Arc::new(watch::Sender::new((1, data)));
        let (sender, outcome) = watch::channel((0, Ok(())));
        let keeper = Keeper {
            path: path.clone(),
            settings: settings.clone(),
            hold: hold.clone(),
            wanted: wanted.subscribe(),
            outcome: sender,
            said: None,
        };
        session.finish(keeper.run().boxed());
        Self { path, hold, wanted, outcome }
    }

    /// Proclaims another value. It is announced in the background.
    pub(super) fn proclaim(&self, value: String) -> Result<(), ProclaimError> {
        self.hold.check()?;
        check(&self.path, &value)?;
        self.wanted.send_modify(|(number, data)| {
            *number += 1;
            *data = LeaderData::new(data.token, &data.owner, &value);
        });
        Ok(())
    }

    /// Waits until the last proclamation before this call is announced, or a later one.
    pub(super) async fn announced(&self) -> Result<(), ProclaimError> {
        let number = self.wanted.borrow().0;
        let mut outcome = self.outcome.clone();
        let lost = pin!(self.hold.lost());
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
            Either::Right((reason, _)) => Err(self.hold.lost_for(reason).into()),
        }
    }
}

/// The background task.
struct Keeper {
    path: String,
    settings: Arc<Settings>,
    hold: Hold,
    wanted: watch::Receiver<(u64, LeaderData)>,
    outcome: watch::Sender<(u64, Outcome)>,
    /// What it has announced last, or has tried to.
    said: Option<LeaderData>,
}

impl Keeper {
    async fn run(mut self) {
        let lost = self.hold.lost();
        let (lost, upkeep) = (pin!(lost), pin!(self.keep_up()));
        // The contender takes the announcement along, or back.
        match select(lost, upkeep).await {
            Either::Left(_) => {}
            Either::Right((never, _)) => match never {},
        }
    }

    /// Announces what is wanted, again and again, whenever it is not there.
    async fn keep_up(&mut self) -> std::convert::Infallible {
        self.announce().await;
        self.settle().await;
        let (mut watch, mut footing) = (None, Footing::Unwatched);
        let (mut disturbed, mut last) = (0, Instant::now());
        loop {
            let (path, line) = (self.path.clone(), self.hold.session().line());
            let looked =
                sight(&line, move |client| requests::watch_announcement(client, path, footing)).await;
            let found = match looked {
                Heard::Given { found, watch: set, .. } => {
                    if set.is_some() {
                        (watch, footing) = (set.map(|set| *set), Footing::Watched);
                    }
                    found
                }
                Heard::Nothing => {
                    (watch, footing) = (None, Footing::Unwatched);
                    continue;
                }
                // The hold is about to hear of it.
                Heard::Over => pending().await,
            };
            match found {
                Ok(found) if !self.is_ours(found.as_ref().map(|(_, found)| found)) => {
                    if last.elapsed() > CALM {
                        disturbed = 0;
                    }
                    (disturbed, last) = (disturbed + 1, Instant::now());
                    info!(
                        path = self.path,
                        "the leader's announcement is gone or changed; the leader announces itself again"
                    );
                    self.pause(disturbed - 1).await;
                    self.announce().await;
                    // Look again: somebody may have taken it away by now.
                }
                // A session that may not read its announcement cannot keep it up.
                Ok(_) | Err(Event::Refused(_)) => footing = self.news(&mut watch).await,
                Err(_) => self.pause(STEADY).await,
            }
        }
    }

    /// Waits until the leader has led for a while, and announces what it proclaims until then.
    async fn settle(&mut self) {
        let mut settled = pin!(self.hold.session().sleep(SETTLING));
        loop {
            let wanted = tokio::select! {
                () = &mut settled => return,
                wanted = self.wanted.changed() => wanted,
            };
            match wanted {
                Ok(()) => self.announce().await,
                // The leadership is gone, and the hold is about to end.
                Err(_) => pending().await,
            }
        }
    }

    /// Waits until the watch reports a change or has reported nothing for long, or the leader proclaims another value, and
    /// announces that. Returns the footing of the next look.
    async fn news(&mut self, watch: &mut Option<Standing>) -> Footing {
        tokio::select! {
            // A server withholds the events of a node that this session may no longer read.
            () = self.hold.session().sleep(stale(self.hold.session().lengths().timeout)) => return Footing::Unwatched,
            change = changed(watch) => if change.is_none() {
                // The watch has gone with its connection.
                *watch = None;
                return Footing::Unwatched;
            },
            wanted = self.wanted.changed() => match wanted {
                Ok(()) => self.announce().await,
                // The leadership is gone, and the hold is about to end.
                Err(_) => pending().await,
            },
        }
        Footing::Watched
    }

    fn is_ours(&self, found: Option<&Announced>) -> bool {
        let session = self.hold.session().id();
        found.is_some_and(|found| found.session == session && Some(&found.data) == self.said.as_ref())
    }

    /// Announces what is wanted by a transaction that takes effect only while the leader leads. It deletes what is there and
    /// creates the announcement, and never writes to one: so an announcement that somebody wrote to can be told from the
    /// leader's.
    ///
    /// If the reply is lost, it announces the same again: that changes nothing.
    async fn announce(&mut self) {
        let (number, data) = self.wanted.borrow_and_update().clone();
        self.said = Some(data.clone());
        // A leader that proclaims another value replaces its own announcement.
        let (mut replace, mut tries) = (number > 1, 0);
        let outcome = loop {
            let path = self.path.clone();
            let error = match self.hold.write(self.operations(&data, replace)).await {
                Ok(_) => break Ok(()),
                // A leftover, or an announcement of somebody else's. We lead, so nobody else should.
                Err(TransactionError::Condition { problem: ConditionProblem::NodeExists, .. })
                    if !replace =>
                {
                    replace = true;
                    continue;
                }
                Err(TransactionError::Condition {
                    problem: ConditionProblem::NoNode, operation: 0, ..
                }) if replace => {
                    replace = false;
                    tries += 1;
                    self.pause(tries).await;
                    continue;
                }
                // The hold hears of it, too, and ends this task.
                Err(TransactionError::Lost(_)) => pending().await,
                Err(TransactionError::Unknown { .. } | TransactionError::Throttled { .. }) => {
                    tries += 1;
                    self.pause(tries).await;
                    continue;
                }
                Err(TransactionError::Condition { problem: ConditionProblem::NotAuthorized, .. }) => {
                    AnnounceError::NotAuthorized { path }
                }
                Err(TransactionError::Condition { problem, .. }) => {
                    AnnounceError::Refused { path, cause: problem.to_string() }
                }
                Err(TransactionError::Invalid { cause, .. } | TransactionError::Refused { cause, .. }) => {
                    AnnounceError::Refused { path, cause }
                }
            };
            warn!(%error, "the leader is not announced");
            break Err(error);
        };
        self.outcome.send_modify(|last| *last = (number, outcome));
    }

    fn operations(&self, data: &LeaderData, replace: bool) -> Vec<Operation> {
        let options = NodeOptions::new().acl(self.settings.acl.clone()).ephemeral();
        let delete = Operation { path: self.path.clone(), task: Task::Delete { version: None } };
        let create =
            Operation { path: self.path.clone(), task: Task::Create { data: data.encode(), options } };
        replace.then_some(delete).into_iter().chain([create]).collect()
    }

    /// Pauses before another try; not before the first one.
    async fn pause(&self, tries: u32) {
        let Some(doublings) = tries.checked_sub(1) else { return };
        let pause = backoff::pause(doublings, LONGEST_PAUSE);
        self.hold.session().sleep(pause).await;
    }
}

/// Resolves at the next change that the watch reports, or to `None` once the watch is lost.
async fn changed(watch: &mut Option<Standing>) -> Option<Option<i64>> {
    match watch {
        Some(watch) => watch.changed().await,
        None => pending().await,
    }
}

/// The number of tries that leads to a pause of 80 ms.
const STEADY: u32 = 4;
