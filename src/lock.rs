//! The lock: acquiring it, and looking at its queue.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use tracing::warn;

use crate::acl::Acl;
use crate::attended::{Arrival, Attended};
use crate::driver::Driver;
use crate::error::{AcquireError, InvalidLock, QueryError};
use crate::fence::FencingToken;
use crate::guard::Guard;
use crate::node::NodeData;
use crate::path::LockPath;
use crate::recipe::{End, Event, Foreign, ForeignClient, Look, Patience, Refusal, Tenure};
use crate::session::wire::{self, Node};
use crate::session::{Answer, Generations, Over, Wire};

/// The longest owner text, in bytes.
const LONGEST_OWNER: usize = 256;

/// The longest extra data, in bytes.
const LONGEST_DATA: usize = 16 * 1024;

/// Up to this many children a queue is listed; a longer one is not.
const SHORT_QUEUE: usize = 32;

/// A lock of one session: a directory in ZooKeeper in which contenders queue. Cheap to clone; clones, like locks at
/// the same path in other sessions and processes, contend with each other.
///
/// Contenders are served first come, first served. A waiter watches only its predecessor, so a release wakes one
/// waiter.
#[derive(Clone)]
pub struct Lock {
    generations: Arc<Generations>,
    settings: Arc<Settings>,
}

/// Options of a lock; see [`Session::lock_with`](crate::Session::lock_with).
///
/// ```
/// use zklock::{Acl, LockOptions};
///
/// let options = LockOptions::new().owner("billing@eu-1").data("build 4711").acl(Acl::creator_only());
/// # drop(options);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until they are given to `Session::lock_with`"]
pub struct LockOptions {
    owner: Option<String>,
    data: Option<String>,
    acl: Acl,
    ancestors_acl: Acl,
    stop_margin: Duration,
    takeover_delay: Duration,
}

/// What all acquisitions of a lock have in common.
pub(crate) struct Settings {
    pub(crate) path: LockPath,
    pub(crate) owner: String,
    pub(crate) data: Option<String>,
    pub(crate) acl: Acl,
    pub(crate) ancestors_acl: Acl,
    pub(crate) stop_margin: Duration,
    pub(crate) takeover_delay: Duration,
    /// How many children the directory had when it was last seen.
    queue: AtomicUsize,
    /// Whether the directory may be written to: one of [`UNKNOWN`], [`OURS`], [`FOREIGN`].
    directory: AtomicU8,
}

/// Nothing is known about the directory's data.
const UNKNOWN: u8 = 0;
/// The directory has no data, so that writing none to it changes nothing.
const OURS: u8 = 1;
/// The directory has somebody's data, or its ACL forbids writing.
const FOREIGN: u8 = 2;

/// One contender in a lock's queue, as [`Lock::contenders`] saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// Its place in the queue: 0 holds the lock, or is about to.
    pub position: usize,
    /// Its node's path.
    pub path: String,
    /// Its owner text; `None` if the node's data is not ours to read, or not zklock's.
    pub owner: Option<String>,
    /// Its extra data, if it has any.
    pub data: Option<String>,
    /// When it began to contend, by its own wall clock.
    pub since: Option<SystemTime>,
    /// The id of its ZooKeeper session; `None` if the node is not ours to read.
    pub session: Option<i64>,
    /// The fencing token it has, or will have, as the holder; `None` if the node is not ours to read.
    pub token: Option<FencingToken>,
}

/// A contender of another client in a lock's directory, as [`Lock::foreign_contenders`] saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignContender {
    /// Its node's path.
    pub path: String,
    /// Whose it seems to be, by its name.
    pub client: ForeignClient,
    /// The id of its ZooKeeper session; `None` if the node is not ours to read, or not ephemeral.
    pub session: Option<i64>,
}

impl LockOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Who contends, in free text of up to 256 bytes, for operators. The default is `host:pid`.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Extra data for each contender's node, up to 16 KiB. The default is none.
    pub fn data(mut self, data: impl Into<String>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// The ACL of the contenders' nodes, and of the lock's directory if it is created. The default is
    /// [`Acl::open`].
    pub fn acl(mut self, acl: Acl) -> Self {
        self.acl = acl;
        self
    }

    /// The ACL of the directory's ancestors if they are created. The default is [`Acl::open`].
    pub fn ancestors_acl(mut self, acl: Acl) -> Self {
        self.ancestors_acl = acl;
        self
    }

    /// How long before the guard's end [`Guard::lost`] and [`Guard::run`] tell of it: time to wind down while the lock
    /// is still held. The default is zero.
    ///
    /// The guard's end is fixed from then on, even if ZooKeeper is heard of again. A loss that nobody foresees (an
    /// operator's deletion, the end of the ZooKeeper session) leaves no such time.
    ///
    /// A lease lasts a session timeout, less what it takes for the ensemble to confirm it, so there is a longest stop
    /// margin: 2.2 seconds with the default session timeout of 10 seconds and tick of 2 seconds, 6 seconds with a session
    /// timeout of 24. [`Session::lock_with`](crate::Session::lock_with) refuses a longer one. Should the servers grant a
    /// shorter session timeout later on, the margin is cut to what that allows.
    pub fn stop_margin(mut self, margin: Duration) -> Self {
        self.stop_margin = margin;
        self
    }

    /// How long a waiter whose predecessor vanished, rather than released the lock, waits before it is granted:
    /// Chubby's and Consul's lock-delay. The default is zero. Set it for every contender: each observes its own.
    ///
    /// It covers, for waiters that are in the queue already:
    ///
    /// * what the last holder has in flight when it dies or loses the lock (a request on its way to a store that
    ///   knows no fencing tokens), if that has arrived by then;
    /// * an operator who deletes the holder's node, or closes its session: the holder is told within a round trip, and
    ///   40 ms if it has just been granted. With a delay of the session timeout or more this holds for a holder that
    ///   is cut off at that moment, too;
    /// * an operator who deletes a waiter's node: a waiter that has a delay asks a quorum for its node before it takes a
    ///   release for its own grant. That costs it a round trip.
    ///
    /// It does not cover a contender that comes to the queue after the holder vanished, or a few round trips before, and
    /// finds nobody there; nor a process that is paused for longer; nor an operator who writes to the holder's node and deletes
    /// it in one transaction, as a holder does, or who has forbidden the holder to read it.
    ///
    /// Closing a session whose guards are not released counts as vanishing, and so does dropping a guard that was lost.
    /// So does what may have gone unseen while the connection was lost, or until the next ZooKeeper session was there.
    /// [`try_acquire`](Lock::try_acquire) never waits.
    pub fn takeover_delay(mut self, delay: Duration) -> Self {
        self.takeover_delay = delay;
        self
    }
}

impl Settings {
    fn new(path: LockPath, options: LockOptions) -> Result<Self, InvalidLock> {
        let checked = |option: &'static str, text: &str, longest: usize| {
            (text.len() <= longest).then_some(()).ok_or_else(|| InvalidLock::TooLong {
                path: path.to_string(),
                option,
                length: text.len(),
                longest,
            })
        };
        let owner = options.owner.unwrap_or_else(default_owner);
        checked("owner", &owner, LONGEST_OWNER)?;
        checked("data", options.data.as_deref().unwrap_or_default(), LONGEST_DATA)?;
        Ok(Self {
            path,
            owner,
            data: options.data,
            acl: options.acl,
            ancestors_acl: options.ancestors_acl,
            stop_margin: options.stop_margin,
            takeover_delay: options.takeover_delay,
            queue: AtomicUsize::new(usize::MAX),
            directory: AtomicU8::new(UNKNOWN),
        })
    }

    /// Remembers how long the queue was. A hint only: a wrong one costs a request, no more.
    pub(crate) fn saw_queue(&self, length: usize) {
        self.queue.store(length, Ordering::Relaxed);
    }

    /// Remembers whether the directory had no data. What was foreign once stays so.
    pub(crate) fn saw_directory(&self, blank: bool) {
        if blank {
            let _known = self.directory.compare_exchange(UNKNOWN, OURS, Ordering::Relaxed, Ordering::Relaxed);
        } else {
            self.must_not_write_directory();
        }
    }

    /// Whether writing nothing to the directory is known to change nothing.
    pub(crate) fn may_write_directory(&self) -> bool {
        self.directory.load(Ordering::Relaxed) == OURS
    }

    /// Remembers that the directory's data is somebody's, or that its ACL forbids writing.
    pub(crate) fn must_not_write_directory(&self) {
        self.directory.store(FOREIGN, Ordering::Relaxed);
    }

    /// Counting takes one request where we may write to the directory, a listing takes a second one.
    fn look(&self) -> Look {
        let short = self.queue.load(Ordering::Relaxed) <= SHORT_QUEUE;
        if short && !self.may_write_directory() { Look::List } else { Look::Count }
    }
}

impl Lock {
    pub(crate) fn new(
        generations: Arc<Generations>,
        path: &str,
        options: LockOptions,
    ) -> Result<Self, InvalidLock> {
        let present = generations.present();
        let path = LockPath::parse(path, present.chroot())
            .map_err(|problem| InvalidLock::Path { path: path.to_owned(), problem })?;
        let longest = present.lengths().longest_stop_margin();
        if options.stop_margin > longest {
            let stop_margin = options.stop_margin;
            return Err(InvalidLock::StopMargin { path: path.to_string(), stop_margin, longest });
        }
        Ok(Self { generations, settings: Arc::new(Settings::new(path, options)?) })
    }

    /// The path of the lock's directory, from the connect string's chroot.
    pub fn path(&self) -> &str {
        self.settings.path.as_str()
    }

    /// Waits in the queue until the lock is held. A free lock takes one round trip.
    ///
    /// Waits as long as it takes, ZooKeeper's absence included: while the connection is lost the place in the queue
    /// is kept for as long as the ZooKeeper session lives. If the servers end that, the acquisition queues again in the
    /// next one, at the end.
    ///
    /// # Poll it, or drop it
    ///
    /// The future does its work when it is polled. One that is kept and not polled, say beside a `select!` that has moved on,
    /// would hold the queue up once its turn has come. So an acquisition that has asked to be polled gives its place up
    /// after half a session timeout (three eighths at the least). It asks when there is news, and after ten session timeouts
    /// without any. It queues again, at the end, when it is polled next;
    /// [`Session::requeued`](crate::Session::requeued) counts that. Acquire in a task of its own if the caller may be busy
    /// with something else:
    ///
    /// ```no_run
    /// # async fn example(lock: zklock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let acquiring = tokio::spawn({ let lock = lock.clone(); async move { lock.acquire().await } });
    /// let guard = acquiring.await??;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`AcquireError`].
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future at any point removes its node in the background. The place in the queue is
    /// lost; so is the lock, if it had just been granted.
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        match self.contend(Patience::Wait).await {
            Ok(guard) => Ok(guard),
            Err(unsuccessful) => Err(self.error(unsuccessful)),
        }
    }

    /// Acquires the lock if nobody holds it or waits for it; `None` if somebody does, and if another call like this one
    /// is just leaving. Waits for no other contender, and for ZooKeeper's answer no longer than half a session timeout.
    ///
    /// # Errors
    ///
    /// See [`AcquireError`].
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, AcquireError> {
        match self.generations.patiently(self.contend(Patience::Try)).await {
            Ok(Ok(guard)) => Ok(Some(guard)),
            Ok(Err(Unsuccessful::Ended(End::Busy))) => Ok(None),
            Ok(Err(unsuccessful)) => Err(self.error(unsuccessful)),
            Err(waited) => Err(AcquireError::Unanswered { path: self.settings.path.to_string(), waited }),
        }
    }

    /// Waits in the queue until the lock is held, or until `timeout` has passed since this call (not since the
    /// first poll): `None` then. Holds while ZooKeeper is unreachable, too. The clock is monotonic and stops while
    /// the machine is suspended.
    ///
    /// A `timeout` of zero leaves no time for ZooKeeper's answer; see [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    ///
    /// See [`AcquireError`].
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Guard>, AcquireError>> + Send + '_ {
        let deadline = tokio::time::Instant::now().checked_add(timeout);
        async move {
            match deadline {
                Some(deadline) => {
                    self.generations.timeout_at(deadline, self.acquire()).await.ok().transpose()
                }
                None => self.acquire().await.map(Some),
            }
        }
    }

    /// The queue as it is now, the holder first; empty if nobody contends. For operators and tests: by the time it
    /// is read it may have changed.
    ///
    /// # Errors
    ///
    /// See [`QueryError`].
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    pub async fn contenders(&self) -> Result<Vec<Contender>, QueryError> {
        let settings = self.settings.clone();
        let nodes = self.ask(|wire| wire::contenders(wire.client, settings)).await?;
        let contender = |(position, node): (usize, Node)| {
            let data = node.seen.as_ref().and_then(|seen| seen.data.clone());
            Contender {
                position,
                path: self.settings.path.contender(node.sequence),
                since: data.as_ref().and_then(NodeData::since),
                owner: data.as_ref().map(|data| data.owner.clone()),
                data: data.and_then(|data| data.data),
                session: node.seen.as_ref().map(|seen| seen.session),
                token: node.seen.map(|seen| FencingToken::new(seen.czxid)),
            }
        };
        Ok(nodes.into_iter().enumerate().map(contender).collect())
    }

    /// Contenders of other clients in the lock's directory, which keep everybody from acquiring the lock; see
    /// [`AcquireError::ForeignContender`]. For operators and tests: by the time it is read it may have changed.
    ///
    /// # Errors
    ///
    /// See [`QueryError`].
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    pub async fn foreign_contenders(&self) -> Result<Vec<ForeignContender>, QueryError> {
        let settings = self.settings.clone();
        let found = self.ask(|wire| wire::foreigners(wire.client, settings)).await?;
        let contender = |Foreign { name, client, session }| ForeignContender {
            path: format!("{}/{name}", self.path()),
            client,
            session,
        };
        Ok(found.into_iter().map(contender).collect())
    }

    /// The answer to a query, or why there is none.
    async fn ask<T, F>(&self, query: impl FnOnce(Wire) -> F + Send + 'static) -> Result<T, QueryError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Event>> + Send + 'static,
    {
        let path = self.settings.path.to_string();
        Err(match self.generations.patiently(self.generations.present().request(query)).await {
            Ok(Answer::Given(Ok(found), _)) => return Ok(found),
            Ok(Answer::Given(Err(Event::Refused(Refusal::NotAuthorized)), _)) => {
                QueryError::NotAuthorized { path }
            }
            Ok(Answer::Given(Err(Event::Refused(refusal)), _)) => {
                QueryError::Refused { path, cause: refusal.to_string() }
            }
            Ok(_) if self.generations.event().state.is_final() => QueryError::SessionOver { path },
            Ok(_) => QueryError::Disconnected { path },
            Err(waited) => QueryError::Unanswered { path, waited },
        })
    }

    /// Contends until the lock is held, or something ends it: in one ZooKeeper session after the other.
    async fn contend(&self, patience: Patience) -> Result<Guard, Unsuccessful> {
        let mut tenure = Tenure::New;
        loop {
            let generation = self.generations.living().await.map_err(Unsuccessful::Over)?;
            if tenure == Tenure::Queued {
                warn!(path = self.path(), "the place in the queue is lost; queueing again, at the end");
                self.generations.requeue();
            }
            let mut driver = Driver::new(generation, self.settings.clone(), patience, tenure);
            driver.handle(Event::Begin(self.settings.look()));
            match Attended::new(driver).await {
                Arrival::Granted(driver, own, term) => return Ok(Guard::new(driver, own, term)),
                Arrival::Ended(End::SessionOver(_)) | Arrival::Unpolled => tenure = Tenure::Queued,
                Arrival::Ended(end) => return Err(Unsuccessful::Ended(end)),
            }
        }
    }

    fn error(&self, unsuccessful: Unsuccessful) -> AcquireError {
        let path = self.settings.path.to_string();
        match unsuccessful {
            Unsuccessful::Over(Over::Closed) => AcquireError::SessionClosed { path },
            Unsuccessful::Over(Over::AuthFailed) => AcquireError::AuthFailed { path },
            Unsuccessful::Over(Over::Failed(cause)) => {
                AcquireError::SessionFailed { path, cause: Box::new(cause) }
            }
            Unsuccessful::Ended(End::Refused(refusal)) => AcquireError::refused(path, refusal),
            Unsuccessful::Ended(End::Foreign(foreign)) => AcquireError::foreign(path, foreign),
            Unsuccessful::Ended(End::Exhausted(sequence)) => AcquireError::exhausted(path, sequence),
            // Nobody gives up or releases for the caller, only `try_acquire` finds a queue busy, and with the end of
            // a ZooKeeper session it goes on.
            Unsuccessful::Ended(
                End::NodeDeleted | End::GivenUp | End::Released | End::Busy | End::SessionOver(_),
            ) => AcquireError::NodeDeleted { path },
        }
    }
}

/// Why an acquisition has no guard.
enum Unsuccessful {
    Ended(End),
    Over(Over),
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// `host:pid`, by which an operator finds the process.
fn default_owner() -> String {
    let host = rustix::system::uname();
    format!("{}:{}", host.nodename().to_string_lossy(), std::process::id())
}
