//! The [`Election`]: campaigning for it, and asking who leads.

pub(crate) mod error;
mod keeper;
pub(crate) mod leader;
pub(crate) mod leadership;
mod requests;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::TryFutureExt;
use zklock_recipe::PathKind;

pub use error::{AnnounceError, CampaignError, ProclaimError};
use keeper::{Announcer, LONGEST_VALUE};
pub use leader::Leader;
pub use leadership::Leadership;

use crate::acquire::acquirer::{Passage, Wait};
use crate::acquire::contender::Contender;
use crate::acquire::options::{LockOptions, invalid_path, parse_path};
use crate::acquire::query::query;
use crate::error::{InvalidLock, QueryError};
use crate::guard::Guard;
use crate::lock::Lock;
use crate::observe::Observer;
use crate::path::LockPath;
use crate::settings::{Queue, Settings};
use crate::telemetry::FamilyMember;
use crate::zk::Succession;

/// An election of one session: candidates queue for a lock, and the one that holds it announces itself. Cloning it is
/// cheap. Its clones contend with each other, and with elections at the same path in other sessions and processes.
///
/// An election at `/service` is a [`Lock`] at `/service/queue`, and the ephemeral node `/service/leader`. So a leader is
/// as safe as the holder of a lock, and a [`Leadership`] is a guard. Candidates lead in the order in which they came.
///
/// The announcement tells everybody else who leads: clients, followers, operators. Each of them may be a little behind. So
/// use the announcement to find the leader, and the leader's [`token`](crate::Guard::token) to refuse what a former leader
/// still sends.
///
/// ```no_run
/// # async fn serve() {}
/// # async fn example(session: zklock::Session) -> Result<(), Box<dyn std::error::Error>> {
/// let election = session.election("/service")?;
/// let leadership = election.campaign("10.0.0.7:8080").await?; // waits until this candidate leads
/// leadership.run(serve()).await?;                             // dropped the moment the leadership is lost
/// leadership.resign().await?;                                 // the next candidate leads within milliseconds
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Election {
    lock: Lock,
}

impl Election {
    /// The longest value that a leader can announce, in bytes. Each observer reads it at each change.
    pub const LONGEST_VALUE: usize = LONGEST_VALUE;

    pub(crate) fn new(
        succession: Arc<Succession>,
        path: &str,
        options: LockOptions,
    ) -> Result<Self, InvalidLock> {
        let session = succession.present();
        let path = parse_path(path, &session)?;
        options.refuse_layout(path.as_str())?;
        let options = options.check(&path, &session)?;
        let queue = Queue::of_election(&path, &session.chroot);
        let queue = queue.map_err(|problem| invalid_path(path.as_str(), problem))?;
        Ok(Self { lock: Lock::of(succession, Settings::new(queue, options)) })
    }

    /// Returns it with these options in place of the default ones. The `acl` is also that of the
    /// announcement. It sends nothing.
    ///
    /// Errors: [`InvalidLock`] says what is wrong with an option.
    pub fn with_options(&self, options: LockOptions) -> Result<Self, InvalidLock> {
        Self::new(self.lock.succession().clone(), self.path(), options)
    }

    /// Returns the election's path, relative to the connect string's chroot.
    pub fn path(&self) -> &str {
        self.given().as_str()
    }

    /// Returns the path of the lock in whose directory the candidates queue.
    pub fn queue(&self) -> String {
        self.lock.path().to_owned()
    }

    /// Returns the path of the leader's announcement.
    pub fn announcement(&self) -> String {
        self.given().of_child(PathKind::LEADER)
    }

    fn given(&self) -> &LockPath {
        self.lock.settings.queue.subject()
    }

    /// Campaigns: queues, waits for as long as it takes until this candidate leads, and announces `value`. A value is a
    /// short text by which others find the leader, such as its address: [`LONGEST_VALUE`](Self::LONGEST_VALUE) bytes at
    /// most. An election without other candidates takes two round trips, one for the lock and one for
    /// the announcement.
    ///
    /// The wait goes on while ZooKeeper is away, as [`Lock::acquire`](crate::Lock::acquire) does. If the leadership is lost
    /// before the announcement is confirmed, the candidate queues again, at the end.
    ///
    /// Poll the future, or drop it; see [`Lock::acquire`](crate::Lock::acquire). The same holds for a candidate that leads and
    /// waits for its announcement: if it has asked to be polled, and is not polled for half a session timeout, it resigns. It
    /// queues again at its next poll.
    ///
    /// # Errors
    ///
    /// See [`CampaignError`].
    ///
    /// # Cancel safety
    ///
    /// Safe. You may drop the future at any point; zklock then removes the candidate's node and its announcement in the
    /// background. The place in the queue is lost, and so is the leadership if the future had just won it.
    pub async fn campaign(&self, value: impl Into<String>) -> Result<Leadership, CampaignError> {
        self.lock.acquirer.at_last(self.lead(value.into(), Wait::FOR_EVER).await?)
    }

    /// Campaigns if nobody else does. Returns `None` if somebody leads or waits for it. It waits for no other candidate, and
    /// for ZooKeeper's answers for half a session timeout at most.
    ///
    /// Errors: [`CampaignError`]. Cancel safety: as [`campaign`](Self::campaign).
    pub async fn try_campaign(&self, value: impl Into<String>) -> Result<Option<Leadership>, CampaignError> {
        self.lead(value.into(), Wait::Never).await
    }

    /// Campaigns, and returns `None` if `timeout` passes first; see [`Lock::acquire_timeout`](crate::Lock::acquire_timeout).
    ///
    /// Errors: [`CampaignError`]. Cancel safety: as [`campaign`](Self::campaign).
    pub fn campaign_timeout(
        &self,
        value: impl Into<String>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Leadership>, CampaignError>> + Send + '_ {
        self.lead(value.into(), Wait::within(timeout))
    }

    /// Asks who leads. Returns `None` if nobody has announced itself. It takes one read. The answer may be outdated by the
    /// time you read it, and a server that is behind its ensemble may answer from the past. An
    /// [`observe`](Self::observe)r knows how old its answer is. It waits for the answer for half a session timeout at most.
    ///
    /// Errors: [`QueryError`]. Cancel safety: nothing is lost.
    pub async fn leader(&self) -> Result<Option<Leader>, QueryError> {
        let path = self.announcement();
        let question = path.clone();
        let found =
            query(self.lock.succession(), &path, |wire| requests::read_announcement(wire.client, question))
                .await?;
        Ok(found.map(Leader::new))
    }

    /// Observes who leads: first the present leader, then each change; see [`Observer`]. It costs one watch, and one read for
    /// each change. The observer need not be a candidate.
    ///
    /// The observer reports only what a leader has announced: a node that somebody else has written to counts as no
    /// announcement. But a client that has the permission to delete and to create the node can forge one. Set
    /// [`LockOptions::acl`] against that.
    ///
    /// ```no_run
    /// # async fn example(election: zklock::Election) -> Result<(), zklock::inspect::WentBack> {
    /// let mut leaders = election.observe();
    /// while let Some(leader) = leaders.next().await {
    ///     match leader? {
    ///         Some(leader) => println!("{} leads, token {}", leader.value, leader.token),
    ///         None => println!("nobody leads"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn observe(&self) -> Observer<Leader> {
        let path = self.announcement();
        let look = move |client, footing| {
            requests::watch_announcement(client, path.clone(), footing).map_ok(|seen| seen.map(Leader::new))
        };
        Observer::start(self.lock.succession(), self.announcement(), look)
    }

    /// Returns the candidates, with the leader first; see [`Lock::contenders`](crate::Lock::contenders).
    ///
    /// Errors: [`QueryError`]. Cancel safety: nothing is lost.
    pub async fn candidates(&self) -> Result<Vec<Contender>, QueryError> {
        self.lock.contenders().await
    }

    /// Acquires the lock, and announces this value under it.
    async fn lead(&self, value: String, wait: Wait) -> Result<Option<Leadership>, CampaignError> {
        keeper::check_value(&self.announcement(), &value)?;
        let announce = |guard: Guard, _| {
            let turn = guard.turn.clone();
            let announcer = Announcer::start(&self.lock.settings, self.announcement(), turn, &value);
            async move {
                match announcer.announced().await {
                    Ok(()) => Ok(Passage::Passed(Leadership::new(guard, announcer))),
                    Err(ProclaimError::Lost(_)) => Ok(Passage::Displaced),
                    Err(ProclaimError::Announce(error)) => Err(error.into()),
                }
            }
        };
        let acquirer = &self.lock.acquirer;
        let leading = pin!(acquirer.within(wait, acquirer.acquire_in_stages(wait, announce)));
        acquirer.instrument(FamilyMember::Election, wait, leading).await
    }
}

debug_shows!(Election, it, { path: it.path() });
