//! The [`Session`] that users hold, and how long its calls take.
//!
//! # How long a call takes
//!
//! Each call that asks ZooKeeper follows one of four rules. If the answer does not come in time, the call returns the
//! error that the rule names.
//!
//! * **A call that waits for others has no time limit**: `acquire`, `acquire_many`, `read`, `write`, [`Locks::acquire`],
//!   [`Election::campaign`], `claim` and [`Once::run`]. It returns when it has what it waits for, or when it can no
//!   longer get it, because the session is over or the servers refuse. Drop the future to stop waiting. The call of the
//!   same name with `_timeout` returns `None` once that time is over.
//! * **A call that begins with `try_`** does not wait for other contenders. It waits for ZooKeeper's answer for half a
//!   session timeout. After that it returns [`AcquireError::Unanswered`](crate::AcquireError::Unanswered), alone or in the error of
//!   its member. So do [`Semaphore::set_capacity`] and [`Slots::set_count`].
//! * **A call that only looks** waits for half a session timeout, too. After that it returns [`QueryError::Unanswered`]. If
//!   the connection is lost earlier, it returns [`Disconnected`](QueryError::Disconnected) at once.
//!   [`Session::verify_sequencer`] has the same two errors; [`Once::now`] and [`Once::period_name`] have
//!   [`AcquireError::Unanswered`](crate::AcquireError::Unanswered). For [`Session::locks_below`] this is the limit of each
//!   request.
//! * **A call of a guard, a leadership or a run** returns at the end of the guard's lease.
//!   [`Guard::verify`](crate::Guard::verify) and [`Leadership::proclaim`](crate::Leadership::proclaim) then return
//!   [`Lost`](crate::Lost). ZooKeeper may have announced the value of `proclaim` all the same. If a
//!   [transaction](crate::Guard::transaction) was sent, its `commit` returns
//!   [`TransactionError::Unknown`](crate::guard::TransactionError::Unknown); if it was not sent,
//!   [`TransactionError::Lost`](crate::guard::TransactionError::Lost). If a record was sent,
//!   [`Run::complete`](crate::once::Run::complete), `fail` and `record` return
//!   [`RecordError::Unconfirmed`](crate::once::RecordError::Unconfirmed); if it was not sent,
//!   [`RecordError::Lost`](crate::once::RecordError::Lost). [`Guard::release`](crate::Guard::release), `release_all` and
//!   [`Leadership::resign`](crate::Leadership::resign) return [`ReleaseError::Unconfirmed`], and go on in the background.
//!
//! A claim of a [`Once`] follows two rules. It waits for the lock as the first rule says. Then it records that the run
//! has begun, until the guard's lease ends, as the last rule says. If no answer comes, it acquires the lock again, as
//! long as its `timeout` lasts. [`Session::connect`] returns [`ConnectError::Unreachable`] or
//! [`ReadOnly`](ConnectError::ReadOnly) after its [`connect_timeout`](SessionBuilder::connect_timeout), by default the
//! session timeout. [`Session::close`] returns [`ReleaseError::SessionUnconfirmed`] at the end of the lease or after
//! two fifths of the session timeout, whichever is later, and goes on in the background.
//!
//! [`Session::ask`] looks, and then makes a node: each has the limit of a call that only looks.
//! [`Asking::answer`] has the limit that you give to the request, and that of one more look.
//!
//! The `next` of an [`Observer`](crate::inspect::Observer), of [`Asks`](crate::ask::Asks) and of [`SessionEvents`] waits for
//! a change without a time limit. [`Observer::latest`](crate::inspect::Observer::latest) sends nothing and returns at once.
//!
//! The session timeout is [`Session::timeout`]. [`Guard::remaining`](crate::Guard::remaining) is the time until the lease
//! ends. [`Guard::run`](crate::Guard::run) takes as long as its future, and [`Guard::lost`](crate::Guard::lost) as long as
//! the guard is held. All other functions return at once: they do not wait for ZooKeeper.
//!
//! To start a service while no server can be reached, use [`SessionBuilder::connect_lazy`]. It returns at once, and
//! connects in the background.
//!
//! If ZooKeeper expires the session, zklock tries to open another one. While no server can be reached, it tries without
//! a time limit. If every server *refuses* the session for as long as a session timeout, the session becomes
//! [`SessionState::Failed`]. This happens if the servers' limits no longer allow the session timeout that you asked
//! for. Acquisitions then fail, and [`Session::failure`] says why.
//!
//! # The runtime
//!
//! A session belongs to the runtime in which it was connected. You may await its calls in another runtime, or outside any
//! runtime. Once its runtime has shut down, no call panics or waits: the session has [`Failed`](SessionState::Failed), its
//! guards are lost ([`LostReason::SessionClosed`](crate::LostReason::SessionClosed)), and its acquisitions return
//! [`ConnectError::RuntimeGone`] as the cause. So do not keep a session in a `static` if each test has a runtime of its own.
//! Without a runtime, [`Session::connect`] returns [`ConnectError::NoRuntime`].
//!
//! # A session that nobody uses
//!
//! After ten session timeouts without a guard, an acquisition, an observer, an ask or another call, zklock closes the ZooKeeper
//! session, unless a transaction may have made an ephemeral node. The session then costs the servers nothing. The state is
//! [`SessionState::Idle`]. The next call opens another one; its time limit includes that.
//!
//! # Heartbeats
//!
//! The heartbeat interval is `(session timeout - 3/4 tick) / 4`: 2.1 seconds by default. At each heartbeat a session sends
//! one `sync`, for all its guards and waiters. While it has a guard, it sends a quorum write, too, and a read of up to 32
//! nodes, which have at most 144 KiB of data together. A server without a leader answers neither, and its clients connect to
//! another server. A session with 20,000 waiters, or with 10,000 guards, was tested to survive the loss of its connection.

pub(crate) mod builder;
mod facts;
pub(crate) mod locks;
mod security;
mod sequencer;
mod tree;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

pub use builder::SessionBuilder;
use locks::LocksBelow;

use crate::acquire::options::LockOptions;
use crate::ask::{self, AskError, Asking, Request};
use crate::election::Election;
use crate::error::{InvalidLock, QueryError};
use crate::fence::Sequencer;
use crate::guard::lost::ReleaseError;
use crate::keys::Locks;
use crate::keys::options::LocksOptions;
use crate::lock::Lock;
use crate::lock::multi_lock::{Access, InvalidMultiLock, MultiLock};
use crate::lock::rw_lock::RwLock;
use crate::once::Once;
use crate::once::error::InvalidOnce;
use crate::once::options::OnceOptions;
use crate::semaphore::Semaphore;
use crate::semaphore::error::InvalidPool;
use crate::semaphore::slots::Slots;
use crate::wire::Closing;
pub use crate::wire::{ConnectError, ServerAddress, ServerFailure, ServerProblem};
use crate::zk::Succession;
pub use crate::zk::{SessionEvent, SessionEvents, SessionState};
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
pub use security::SaslOptions;
pub use security::Security;
#[cfg(feature = "tls")]
pub use security::{InvalidPem, TlsOptions};

/// A session with ZooKeeper, which any number of locks share. Cloning it is cheap, and every clone is the same session.
///
/// A `Session` outlives ZooKeeper's own sessions. If ZooKeeper ends the present one (it expired, or an operator closed
/// it), zklock opens the next one in the background. If zklock closed it because [nobody used
/// it](SessionState::Idle), the next call opens the next one. The ZooKeeper sessions of one `Session` are its *generations*.
/// zklock keeps trying until a server establishes a session or the `Session` is closed; its pauses between two attempts
/// grow to between 10 and 20 seconds. Guards of the old generation are lost for good. Acquisitions that were waiting
/// join the queue again, at the end. zklock logs each of them and counts it ([`requeued`](Self::requeued)).
///
/// Three states are final. The session was closed. The servers rejected its credentials. Or it has failed: the servers refuse to
/// open another session like it, or its runtime has gone.
/// [`events`](Self::events) shows each change of the state.
///
/// Once you have dropped the last clone of the session, its last lock, its last guard and the last future of these,
/// zklock closes the session in the background. ZooKeeper then deletes the session's nodes. [`close`](Self::close) does
/// this at once, and returns when it is done.
///
/// A session needs a tokio runtime with time enabled. The runtime in which [`connect`](Self::connect) is called
/// runs the session's tasks.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zklock::Session;
///
/// let session = Session::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// let lock = session.lock("/lock/orders")?;
/// let guard = lock.acquire().await?;
/// guard.release().await?;
/// session.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    succession: Arc<Succession>,
}

impl Session {
    pub(crate) fn new(succession: Arc<Succession>) -> Self {
        Self { succession }
    }

    /// Returns the lock whose contenders queue in the directory `path`. It sends nothing. It has the default options; for
    /// others, call [`Lock::with_options`] on it.
    ///
    /// # Errors
    ///
    /// [`InvalidLock::Path`] if ZooKeeper or zklock does not allow the path.
    pub fn lock(&self, path: &str) -> Result<Lock, InvalidLock> {
        Lock::new(self.succession.clone(), path, LockOptions::new())
    }

    /// Returns the read-write lock whose contenders queue in the directory `path`. It sends nothing.
    ///
    /// Errors: as [`lock`](Self::lock).
    pub fn rw_lock(&self, path: &str) -> Result<RwLock, InvalidLock> {
        RwLock::new(self.succession.clone(), path, LockOptions::new())
    }

    /// Returns the locks at these paths as one lock: all of them are acquired at once. It sends nothing.
    ///
    /// A path alone means exclusively. If some are shared, name them by [`Access`]; see the example of [`MultiLock`].
    ///
    /// Errors: [`InvalidMultiLock`].
    pub fn lock_all(
        &self,
        locks: impl IntoIterator<Item = impl Into<Access>>,
    ) -> Result<MultiLock, InvalidMultiLock> {
        MultiLock::new(self.succession.clone(), locks, &LockOptions::new())
    }

    /// Returns the locks by key below the directory `root`, for a process in which many tasks want the same ones; see
    /// [`Locks`]. It sends nothing.
    ///
    /// Errors: as [`lock`](Self::lock).
    pub fn locks(&self, root: &str) -> Result<Locks, InvalidLock> {
        Locks::new(self.succession.clone(), root, LocksOptions::new())
    }

    /// Returns the [`Once`] at `path`, whose runs are done once each. It sends nothing.
    ///
    /// Errors: [`InvalidOnce`].
    pub fn once(&self, path: &str) -> Result<Once, InvalidOnce> {
        Once::new(self.succession.clone(), path, OnceOptions::new())
    }

    /// Returns the election at `path`: candidates queue in the directory `path/queue`, and the leader announces itself in
    /// the node `path/leader`. It sends nothing.
    ///
    /// Errors: as [`lock`](Self::lock).
    pub fn election(&self, path: &str) -> Result<Election, InvalidLock> {
        Election::new(self.succession.clone(), path, LockOptions::new())
    }

    /// Returns the semaphore at `path`, and states its capacity: the weights of all permits that are held add up to it at
    /// most. It sends nothing.
    ///
    /// Errors: [`InvalidPool`].
    pub fn semaphore(&self, path: &str, capacity: u32) -> Result<Semaphore, InvalidPool> {
        Semaphore::new(self.succession.clone(), path, capacity, LockOptions::new())
    }

    /// Returns the slots at `path`, and states how many they are: up to [`Slots::LARGEST_COUNT`]. It sends nothing.
    ///
    /// Errors: [`InvalidPool`].
    pub fn slots(&self, path: &str, count: u32) -> Result<Slots, InvalidPool> {
        Slots::new(self.succession.clone(), path, count, LockOptions::new())
    }

    /// Checks whether a holder still has its lock. `Ok` means that a quorum confirmed the very node that the
    /// sequencer names: it exists, nobody has written to it, and it belongs to the session that the sequencer names. This takes
    /// about one round trip, and two on a slow network.
    ///
    /// The answer is a `Result` and not a `bool`, so that a caller who ignores it does not let the sequencer pass by
    /// mistake. Any session can ask, with any chroot, if it may read the holder's node.
    ///
    /// The answer is about one moment during the call. The sequencer may be outdated right after that moment, so only a store that
    /// compares tokens can stop a late write. This function does not check that the node ever held the lock. So accept
    /// sequencers only from callers whom you trust to pass on exactly what [`Guard::sequencer`](crate::Guard::sequencer)
    /// gave them.
    ///
    /// # Errors
    ///
    /// [`QueryError::Outdated`] if the holder does not have its lock any more. After any other [`QueryError`], zklock does not
    /// know whether it is. The function waits for the answer for half a session timeout at most.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    ///
    /// ```no_run
    /// # async fn example(session: zklock::Session, sequencer: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// session.verify_sequencer(&sequencer.parse()?).await?;
    /// // Serve the request that came with the sequencer.
    /// # Ok(())
    /// # }
    /// ```
    pub async fn verify_sequencer(&self, sequencer: &Sequencer) -> Result<(), QueryError> {
        sequencer::verify(&self.succession, sequencer).await
    }

    /// Finds the locks at `root` and below it that somebody holds, and the semaphores and slots that are held in part or in full.
    /// It also finds queues of other clients, and tells by the names of the nodes where zklock [shares](crate::Layout) one.
    /// It is meant for operators: the answer may be outdated by the time you read it. It reads each node of the tree once,
    /// 64 at a time.
    ///
    /// # Errors
    ///
    /// See [`QueryError`]. Each request waits for its answer for half a session timeout at most.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    ///
    /// ```no_run
    /// # async fn example(session: zklock::Session) -> Result<(), zklock::QueryError> {
    /// for lock in session.locks_below("/lock").await?.locks {
    ///     println!("{}: {:?}, {} waiting", lock.path, lock.holder.owner, lock.waiting);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn locks_below(&self, root: &str) -> Result<LocksBelow, QueryError> {
        self.locks_below_up_to(root, usize::MAX, usize::MAX).await
    }

    /// As [`locks_below`](Self::locks_below), and stops once it has found `most_found` locks, queues, semaphores and slots, of which
    /// a turnstile is one more, or once it has read `most_read` nodes. Then [`LocksBelow::cut`] says which, and what the answer is
    /// good for. It is meant for programs that look often. The nodes that it reads are those of fewest names first, in the order of
    /// their paths, so two searches of a tree that does not change find the same. Each costs the servers three reads at most; the
    /// contenders of a lock are counted and not read. If `most_read` is 0, it reads the root all the same.
    ///
    /// Errors and cancel safety: as there.
    ///
    /// ```no_run
    /// # async fn example(session: zklock::Session) -> Result<(), zklock::QueryError> {
    /// let some = session.locks_below_up_to("/lock", 1_000, 100_000).await?;
    /// println!("{} locks are held{}", some.locks.len(), if some.cut.is_some() { ", or more" } else { "" });
    /// # Ok(())
    /// # }
    /// ```
    pub async fn locks_below_up_to(
        &self,
        root: &str,
        most_found: usize,
        most_read: usize,
    ) -> Result<LocksBelow, QueryError> {
        locks::locks_below(&self.succession, root, most_found, most_read.max(1)).await
    }

    /// Returns how many children the node at `path` has; `None` if it does not exist. No ACL hides either. It costs a server one
    /// read, and tells a free lock from a path that was never used.
    ///
    /// Errors: as [`locks_below`](Self::locks_below), except [`QueryError::NotAuthorized`].
    pub async fn child_count(&self, path: &str) -> Result<Option<usize>, QueryError> {
        facts::child_count(&self.succession, path).await
    }

    /// Returns as whom the server of the present connection knows this session: scheme and name, as in `digest:alice`. Another
    /// server may know the session differently, for instance a server without SASL. A server before 3.7 does not say it, and closes
    /// the connection; zklock then resumes the session, and the call fails.
    ///
    /// Errors: as [`locks_below`](Self::locks_below).
    pub async fn identities(&self) -> Result<Vec<String>, QueryError> {
        facts::identities(&self.succession).await
    }

    /// Asks those who hold what is at `path` to let go: a lock, a read-write lock, an election, permits or slots. The ask says who
    /// asks, why, and by when. It stands for as long as the [`Asking`] is kept, and goes with the asker's session, so a crash leaves
    /// nothing behind. The holders [hear](crate::Guard::asked) it if they listen, and nothing is taken from them. Call
    /// [`answer`](Asking::answer) to wait until they have let go. `None` if nobody holds it, or if none of the holders is meant.
    ///
    /// It creates the ephemeral node `path/ask`. Nobody counts it as a contender. Only one ask stands at a path at a time.
    ///
    /// # Errors
    ///
    /// See [`AskError`]. Each question waits for its answer for half a session timeout at most.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, an ask that was made already is taken back in the background.
    ///
    /// ```no_run
    /// # async fn example(session: zklock::Session) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use zklock::ask::{Answer, Request};
    ///
    /// let request = Request::new("the new version waits", Duration::from_secs(300));
    /// if let Some(asking) = session.ask("/lock/orders", request).await? {
    ///     println!("asked {:?}", asking.holders()[0].owner);
    ///     if asking.answer().await? == Answer::TimeOver {
    ///         println!("it still holds the lock");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ask(&self, path: &str, request: Request) -> Result<Option<Asking>, AskError> {
        ask::ask(&self.succession, path, request).await
    }

    /// Returns the id of the present ZooKeeper session, or of the last one while none is open. ZooKeeper's
    /// `cons` and `dump` show it in hexadecimal.
    pub fn id(&self) -> i64 {
        self.succession.present().id
    }

    /// Returns the session timeout with which zklock computes leases: the smallest one that a server has granted this
    /// ZooKeeper session, or may have granted it.
    pub fn timeout(&self) -> Duration {
        self.succession.present().lease.lengths().timeout
    }

    /// Returns the time between two heartbeats. With a heartbeat the session asks ZooKeeper for a sign of life, and so
    /// extends the lease of its guards. The time is a quarter of what three quarters of a tick (and a little more, for
    /// clock drift) leave of the session timeout. It is between 100 ms and 10 s: 2.1 s by default.
    pub fn heartbeat(&self) -> Duration {
        self.succession.present().lease.lengths().heartbeat
    }

    /// Returns the servers' tick that zklock computes leases with: the one you set, or the one it learned from the
    /// servers.
    pub fn tick(&self) -> Duration {
        self.succession.dialer.reckoning().tick
    }

    /// Returns why no other ZooKeeper session can be opened, once the state is [`SessionState::AuthFailed`] or
    /// [`SessionState::Failed`].
    pub fn failure(&self) -> Option<ConnectError> {
        self.succession.failure.get().cloned()
    }

    /// Returns the longest [`stop_margin`](LockOptions::stop_margin) that a lock of this session may have. The lease of
    /// a guard never falls below it while ZooKeeper answers each heartbeat within a quarter of the time between two.
    pub fn longest_stop_margin(&self) -> Duration {
        self.succession.present().lease.lengths().longest_stop_margin()
    }

    /// Returns the longest time for which a guard can stay valid after ZooKeeper stops answering: the session timeout,
    /// less its part that allows for clock drift. The shortest such time is
    /// [`longest_stop_margin`](Self::longest_stop_margin).
    pub fn longest_validity(&self) -> Duration {
        self.succession.present().lease.lengths().validity()
    }

    /// Returns the session's state, as far as this process knows it.
    pub fn state(&self) -> SessionState {
        self.succession.event().state
    }

    /// Returns a stream of the session's state: first the present one, then each change. It is meant for logs, metrics
    /// and health checks. The stream ends after a final state. It does not keep the session open, so it also ends once
    /// you have dropped every `Session`, lock and acquisition. A reader that is slower than the changes sees only the
    /// latest one. If [`generation`](crate::SessionEvent::generation) has grown, a ZooKeeper session has ended
    /// meanwhile.
    ///
    /// ```no_run
    /// # async fn example(session: zklock::Session) {
    /// let mut events = session.events();
    /// while let Some(event) = events.next().await {
    ///     println!("{} (session {:#x})", event.state, event.id);
    /// }
    /// # }
    /// ```
    pub fn events(&self) -> SessionEvents {
        SessionEvents::new(self.succession.news())
    }

    /// Returns how many times an acquisition had to join a queue again, at the end: because its ZooKeeper session ended
    /// while it waited, because its caller did not poll it (see [`Lock::acquire`]), or because it lost the lock before its
    /// caller had a [`Leadership`](crate::Leadership), a [`Run`](crate::once::Run) or a permit.
    pub fn requeued(&self) -> u64 {
        self.succession.requeued.load(Ordering::Relaxed)
    }

    /// Closes the session. Every guard is lost, and every acquisition under way fails. If guards that were dropped are being
    /// released in the background, or records of a [`Once`] written, they come first, for a tenth of the session timeout at most.
    /// Guards that are held stay held for that time. So stop the work before you close the session. The call returns once the
    /// server has ended the ZooKeeper session and so deleted its nodes. So the next
    /// contenders acquire the locks at once, and not after a session timeout.
    ///
    /// The call waits for the server until the lease ends, or for two fifths of the session timeout if that is longer.
    /// After that, zklock goes on closing the session in the background. Further calls wait for the same end.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::SessionUnconfirmed`] if no server could be reached, or, at once, if the last ZooKeeper session has expired: a
    /// partitioned leader may say so by mistake. The guards are lost all the same. Nodes that still exist stay until ZooKeeper expires
    /// the session. `close` does not wait for an earlier ZooKeeper session that the ensemble has not expired yet.
    ///
    /// # Cancel safety
    ///
    /// Safe. Once the future was polled, zklock closes the session in the background, even if you drop the future.
    pub async fn close(&self) -> Result<(), ReleaseError> {
        let last = self.succession.present();
        // While the lease lasts, the session certainly exists. After that, a server has as long to answer as any server
        // has.
        let bound = last.lease.remaining().max(last.lease.lengths().timeout * 2 / 5);
        let last = self.succession.close();
        match self.succession.timeout_at(Instant::now() + bound, last.over()).await {
            Ok(Some(Closing::Confirmed)) => Ok(()),
            Ok(Some(Closing::Unconfirmed) | None) | Err(_) => Err(ReleaseError::SessionUnconfirmed {
                session: last.id,
                timeout: last.lease.lengths().timeout,
            }),
        }
    }
}

/// What the blocking interface asks.
#[cfg(feature = "blocking")]
impl Session {
    /// Resolves once guards that were dropped are released, or could be no more: at the end of the lease.
    pub(crate) async fn left(&self) {
        let present = self.succession.present();
        let bound = Instant::now() + present.lease.remaining();
        let _late = self.succession.timeout_at(bound, present.left()).await;
    }
}

debug_shows!(Session, it, { id: format_args!("{:#x}", it.id()) });
