//! The [`Guard`] of what is held, and the limits of its promise.
//!
//! # How a guard knows
//!
//! A guard is valid until its *lease* ends, and only a quorum's confirmations extend a lease. So a server that is
//! partitioned from its ensemble cannot keep a guard valid. A guard compares its lease with clocks whenever it is asked, and
//! needs no background task for that. One clock is `CLOCK_BOOTTIME`. Another one is `CLOCK_MONOTONIC_RAW`, which NTP does
//! not slew, and the time for which the machine was suspended. (On macOS, `CLOCK_MONOTONIC` and `CLOCK_UPTIME_RAW`.)
//!
//! At any instant, at most one guard of a lock says that it is held, except for [other guards](Guard::another) of the same hold.
//! Readers hold a lock together, and no writer holds it at the same time. The token of a grant is higher than the token of each
//! earlier grant that cannot be held beside it. Readers that hold the lock together are granted in any order. Tokens are not
//! consecutive.
//!
//! # What it cannot do
//!
//! **The operating system, the hypervisor or a garbage collector can pause a process** after it has asked its guard and
//! before it acts. No lock can prevent that. While the process is paused, its session may expire, and the next
//! contender then acquires the lock. When the process goes on, it acts on a stale answer. A [`FencingToken`] protects
//! against this, if the store that the lock protects checks it. Nothing else does.
//!
//! **A virtual machine can be paused together with its clocks**, for a snapshot or a migration. Afterwards its clocks
//! show that no time has passed. Its guards go on saying that the lock is held until the next heartbeat fails.
//! Meanwhile another guard may be valid. Use tokens. Or call [`Guard::verify`] right before you act: it asks a quorum.
//! On FreeBSD this also holds for a machine that was suspended: none of its clocks counts that time.
//!
//! **A copy of a running process has a copy of its guards**, and no copy knows of the other. A copy is made if a
//! virtual machine is cloned or is started twice from one snapshot, if CRIU restores a process beside the original, and
//! if a child of `fork` goes on without `exec`. Each copy says that the lock is held. Connect after the copy is made.
//!
//! **An operator can restore ZooKeeper's data while clients run**, with the `restore` command of ZooKeeper 3.9. The
//! command replaces the present tree by an old one, and ZooKeeper does not tell any client. The next contender may be
//! granted at once. Its node may have the same name as the holder's node. The holder learns of it at the next heartbeat
//! that looks at its node. In a session with up to 32 guards, each heartbeat looks at every node. In a session with `32
//! n` guards, each node has its turn at every n-th heartbeat. Long [data](crate::LockOptions::data) reduces the number of
//! nodes for each heartbeat. Until then two guards may be valid. Stop every client before a restore, and restart the
//! servers after it: ZooKeeper 3.9.3 expires no session that is opened after a live restore.
//!
//! **A runtime whose threads are all blocked** sends no heartbeats. A session whose runtime is blocked for long loses
//! all its locks. This never makes two guards valid: [`Guard::run`] looks at the clock before it polls its future
//! again. But `run` does not stop tasks that its future has spawned.
//! [`LockOptions::fail_stop`](crate::LockOptions::fail_stop) ends the process then.
//!
//! **An operator who deletes the holder's node** takes the lock from the holder. The holder learns of it within a round
//! trip. In the first 20 to 40 ms after its grant it does not watch its node yet, and learns of it later. Until then two
//! guards may be valid. If an operator deletes a *waiter's* node, the release of its predecessor still grants that waiter,
//! and also grants the next waiter in the queue. Both guards are valid until the first one learns of the deletion, within a
//! round trip. A [`LockOptions::takeover_delay`](crate::LockOptions::takeover_delay) closes both gaps for waiters that are
//! already in the queue. A write to a node does not grant the lock to anybody. If somebody writes to the holder's node, the
//! holder's guard is lost. If an operator removes the holder's right to read its node before deleting the node, the holder
//! learns of the deletion only at a heartbeat.
//!
//! **A client that writes to a node and deletes it in one transaction forges a release.** If it does so to the node of a waiter,
//! or to a contender that it has made, the next contender is granted while the lock is held. That guard is lost
//! ([`LostReason::ReleaseForged`]) once it has been held for 20 to 40 ms and a look at the queue was answered. Until then two
//! guards are valid, and for as long as both are held if the queue had more than 256 children. A `takeover_delay` closes this gap:
//! the look then comes before the grant.
//!
//! **Other ZooKeeper clients have queues of their own.** Curator, kazoo and others create contenders under other names. An
//! acquisition that sees one fails with [`AcquireError::ForeignContender`](crate::AcquireError::ForeignContender). After the
//! grant, a holder does not look for such contenders any more. So it does not notice a client that comes later and ignores
//! zklock's nodes, as kazoo does. Use only zklock at a path.
//!
//! **A path has one kind.** A lock, an election, a semaphore and slots at one path would not see each other. So an
//! acquisition that finds another kind there fails with [`AcquireError::OtherKind`](crate::AcquireError::OtherKind). The
//! queue of an election or of a pool is a lock's directory at `path/queue`. So you cannot use `path/queue` as a lock of your
//! own. If an [`Election`](crate::Election) has been idle for up to about a minute, it does not notice a lock that somebody
//! acquired at its path in that time. `docs/DESIGN.md` lists the other such cases.
//!
//! **A lock serialises, and does not deduplicate.** If three machines do a job under one lock, they do it three times,
//! one after the other. With a [`Once`](crate::Once), only one of them does it.

pub(crate) mod asks;
pub(crate) mod hold;
pub(crate) mod lost;
pub(crate) mod mode;
pub(crate) mod operation;
mod release;
mod requests;
mod risk;
pub(crate) mod transaction;
pub(crate) mod transaction_error;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use zklock_recipe::{Kind, Own, Term};

use hold::Held;
use hold::turn::Turn;
pub use lost::{Lost, LostReason, ReleaseError};
use mode::sealed::OneNode;
pub use mode::{AnyKind, Exclusive, Indexed, OneLock, Several, Shared, Weighted};
pub use operation::{Applied, NodeOptions};
pub use transaction::Transaction;
pub use transaction_error::{ConditionProblem, TransactionError};

use crate::contender::Driver;
use crate::fence::{FencingToken, Sequencer};
use crate::requests::Evidence;
use crate::telemetry::{Acquired, FamilyMember};
use crate::wire::{LinkAnswer, Wire};
use crate::zk::{SessionHold, ZkSession};

/// A lock that is held. While [`is_held`](Self::is_held) returns true, it returns false for every other guard of this
/// lock, except for [other guards](Self::another) of its hold, and those of readers that hold it together
/// ([limits](crate::guard#what-it-cannot-do)).
///
/// Dropping the guard releases the lock in the background, unless other guards of the same hold exist. You may drop it
/// on any thread, inside or outside a runtime. Nobody waits for this release, and nobody learns whether it was
/// confirmed. Prefer [`release`](Self::release).
///
/// **A program that ends right after the drop leaves the lock held** until ZooKeeper expires the session: for up to 13 s by
/// default. So does a program whose `main` returns early, by `?`. Close the session on every way out of the program
/// ([`Session::close`](crate::Session::close)).
///
/// Loss is final: a lost guard never becomes valid again, even if its session does. If the loss was not the deletion of
/// its node, the node stays in the queue until you drop the guard. So as long as the session lives, nobody acquires the
/// lock before the loser has finished. A [`max_hold`](crate::LockOptions::max_hold) sets an end to that.
///
/// The type parameter says what is held. `Guard` alone is a lock that is held exclusively: by
/// [`Lock::acquire`](crate::Lock::acquire) or [`RwLock::write`](crate::RwLock::write). A [`ReadGuard`] and a
/// [`MultiGuard`] are other types, so a function that takes a `&Guard` cannot be called with them.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard<K = Exclusive> {
    /// The turn of this guard, for what accompanies it in the background. The hold ends with its guards, and not with the turn.
    pub(crate) turn: Arc<Turn>,
    /// Whether this guard still counts among those of its turn; and once it does not, whether it was the last one.
    share: Share,
    /// What ends with this guard.
    kept: Option<Box<dyn Send + Sync>>,
    holds: PhantomData<fn() -> K>,
}

/// A guard's part in its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    Counted,
    Last,
    NotLast,
}

/// A read-write lock that is held for reading. Other read guards of the lock may be held at the same instant, and no
/// exclusive guard is.
pub type ReadGuard = Guard<Shared>;

/// Several locks that are held at once. It has one [`token`](Guard::token) for all of them. It is lost as soon as one of
/// them is, and releases all of them in one transaction.
pub type MultiGuard = Guard<Several>;

/// A permit of a [`Semaphore`](crate::Semaphore). Other permits may be held at the same instant; none is granted
/// with which the weights of all would exceed the capacity. It is lost as the guard of a lock is, and releases its weight when it is
/// dropped.
pub type Permit = Guard<Weighted>;

/// One of several [`Slots`](crate::Slots), held by nobody else. It is lost as the guard of a lock is, and is free again
/// when it is dropped.
pub type Slot = Guard<Indexed>;

/// A guard of anything: see [`Guard::into_any`].
pub type AnyGuard = Guard<AnyKind>;

impl Guard<Weighted> {
    /// Returns how much of the semaphore's capacity the permit takes.
    pub fn weight(&self) -> u32 {
        match self.turn.held.nodes.first().map(|(_, own)| own.place.kind) {
            Some(Kind::Permit(weight)) => weight,
            _ => 0,
        }
    }
}

impl Guard<Indexed> {
    /// Returns the slot's index. While this guard is valid, no other guard with this index is.
    pub fn index(&self) -> u32 {
        match self.turn.held.nodes.first().map(|(_, own)| own.place.kind) {
            Some(Kind::Slot(index)) => index,
            _ => 0,
        }
    }
}

impl<K: OneNode> Guard<K> {
    /// Returns the path of the lock, of the semaphore or of the slots.
    pub fn path(&self) -> &str {
        &self.turn.held.path
    }

    /// Returns the path of the holder's node in ZooKeeper. The guards of [`Locks`](crate::Locks) that were passed on inside
    /// the process have one node together, so what you check by its path holds for the process.
    pub fn node(&self) -> String {
        self.turn.held.nodes().next().unwrap_or_default()
    }
}

impl<K: OneLock> Guard<K> {
    /// Returns the path of the lock with the connect string's chroot: the same for all sessions, whatever chroot each has.
    pub fn absolute_path(&self) -> String {
        self.turn.absolute_path()
    }

    /// Returns a statement that others can check: this guard has its lock; see [`Sequencer`]. It sends nothing.
    ///
    /// A guard of [`Locks`](crate::Locks) that has made a sequencer is not passed on inside the process: with the guard, the
    /// node goes that the sequencer names.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the guard was released, or if its node is gone. `Ok` does not say that the lock is held.
    pub fn sequencer(&self) -> Result<Sequencer, Lost> {
        self.turn.sequencer(0)
    }
}

impl Guard<Several> {
    /// Returns a sequencer for each lock, in the order of [`paths`](Self::paths); see [`Sequencer`].
    /// It sends nothing.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the guard was released, or if its nodes are gone. `Ok` does not say that the locks are held.
    pub fn sequencers(&self) -> Result<Vec<Sequencer>, Lost> {
        (0..self.turn.held.nodes.len()).map(|index| self.turn.sequencer(index)).collect()
    }
}

impl<K> Guard<K> {
    pub(crate) fn new(driver: Driver, nodes: Vec<Own>, term: Term) -> Self {
        let longest = driver.max_hold();
        let turn = Turn::first(Held::new(driver, nodes, term));
        turn.limit(longest);
        Self::of(turn)
    }

    /// Makes the one guard of a turn that has just begun.
    pub(crate) fn of(turn: Arc<Turn>) -> Self {
        Self { turn, share: Share::Counted, kept: None, holds: PhantomData }
    }

    /// Undoes [`of`](Self::of): the turn does not end with this guard.
    pub(crate) fn into_turn(mut self) -> Arc<Turn> {
        self.share = Share::NotLast;
        self.turn.clone()
    }

    /// Returns the path of what is held; of several locks, the paths in the order in which the caller gave them.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.turn.held.nodes.iter().map(|(lock, _)| lock.queue.name().as_str())
    }

    /// Returns the paths of the holder's nodes in ZooKeeper, in the order of [`paths`](Self::paths).
    pub fn nodes(&self) -> impl Iterator<Item = String> {
        self.turn.held.nodes()
    }

    /// Returns the guard without its kind: for code that holds locks, permits, slots and leaderships alike. It still says what
    /// it holds ([`paths`](Self::paths)), whether it is held, and with which token. It does not say the weight of a permit or
    /// the index of a slot, so read that before.
    ///
    /// ```no_run
    /// # async fn example(session: zklock::Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let lock = session.lock("/lock/orders")?.acquire().await?;
    /// let slot = session.slots("/workers", 8)?.acquire().await?;
    /// for guard in [lock.into_any(), slot.into_any()] {
    ///     guard.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_any(mut self) -> AnyGuard {
        let share = std::mem::replace(&mut self.share, Share::NotLast);
        Guard { turn: self.turn.clone(), share, kept: self.kept.take(), holds: PhantomData }
    }

    /// Returns the guard with something that ends with it.
    pub(crate) fn keeping(self, kept: impl Send + Sync + 'static) -> Self {
        let mut guard = self;
        guard.kept = Some(Box::new(kept));
        guard
    }

    /// Returns the fencing token. Pass it to the store that the lock protects.
    pub fn token(&self) -> FencingToken {
        self.turn.token()
    }

    /// Returns whether the lock is held at this instant. It sends nothing. Once it has returned false, it always
    /// returns false.
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// As [`is_held`](Self::is_held), as a `Result` for `?`.
    ///
    /// # Errors
    ///
    /// [`Lost`], with the reason.
    pub fn check(&self) -> Result<(), Lost> {
        self.turn.check()
    }

    /// Returns how long the lock is certainly held if ZooKeeper confirms nothing more. It is zero once the guard is
    /// lost. It grows with every heartbeat, up to what [`max_hold`](crate::LockOptions::max_hold) leaves.
    pub fn remaining(&self) -> Duration {
        self.turn.remaining()
    }

    /// Resolves with the reason once the guard is lost. With a [`stop_margin`](crate::LockOptions::stop_margin), it
    /// resolves that much before the lease or the [`max_hold`](crate::LockOptions::max_hold) ends. The future does not borrow the guard, so another task can await it. It
    /// also resolves when the guard is released or dropped.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + Sync + 'static + use<K>
    where
        K: 'static,
    {
        self.turn.clone().lost(self.turn.held.stop_margin)
    }

    /// Resolves once the guard is at risk, with the time for which the lock is certainly still held. The guard is at risk if the
    /// heartbeats that extend its lease fail: the session has no connection, no server has shown the holder's nodes on a new
    /// connection yet, a heartbeat is overdue by half the [time between two](crate::Session::heartbeat), or less is left of the
    /// lease than the [longest stop margin](crate::Session::longest_stop_margin). It is held all the same, and mostly it is
    /// [`safe`](Self::safe) again soon. Chubby calls this jeopardy.
    ///
    /// With the default timeouts it resolves some 4 seconds before the lease ends if a server falls silent, and 5 to 7 if the
    /// connection is lost. So use it for what takes long to stop: accept no more work, save what is done, warn an operator.
    /// Stop the work itself when the guard is [`lost`](Self::lost). It resolves with zero if the guard is lost or released. It
    /// sends nothing, and the future does not borrow the guard.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost. A risk that is over before the next call is not told.
    ///
    /// ```no_run
    /// # async fn example(guard: zklock::Guard) -> Result<(), zklock::Lost> {
    /// loop {
    ///     let left = guard.at_risk().await;
    ///     eprintln!("at risk, and held for {left:?}");
    ///     guard.safe().await?; // ends the loop once the guard is lost
    /// }
    /// # }
    /// ```
    pub fn at_risk(&self) -> impl Future<Output = Duration> + Send + Sync + 'static + use<K>
    where
        K: 'static,
    {
        self.turn.clone().at_risk()
    }

    /// Resolves once the guard is not [at risk](Self::at_risk): at once if it is not, else by the heartbeat that succeeds, or by
    /// the next one. It sends nothing, and the future does not borrow the guard.
    ///
    /// # Errors
    ///
    /// [`Lost`] once the guard is lost or released.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    pub fn safe(&self) -> impl Future<Output = Result<(), Lost>> + Send + Sync + 'static + use<K>
    where
        K: 'static,
    {
        self.turn.clone().safe()
    }

    /// Returns a token that zklock cancels when [`lost`](Self::lost) resolves. Use it if several tasks must all stop
    /// when the lock is lost. The release cancels the token, too, so await the tasks first.
    /// Each call returns a clone of the guard's one token.
    ///
    /// ```no_run
    /// # async fn ship() {}
    /// # async fn example(lock: zklock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// use tokio_util::task::TaskTracker;
    ///
    /// let guard = lock.acquire().await?;
    /// let (lost, tasks) = (guard.cancellation_token(), TaskTracker::new());
    /// for _ in 0..3 {
    ///     let lost = lost.clone();
    ///     tasks.spawn(async move { lost.run_until_cancelled(ship()).await });
    /// }
    /// tasks.close();
    /// // All tasks have ended or were stopped, and only then does the release give the lock to another holder.
    /// tasks.wait().await;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "cancellation-token")]
    #[cfg_attr(docsrs, doc(cfg(feature = "cancellation-token")))]
    pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
        self.turn.cancellation_token()
    }

    /// Runs `future` for as long as the lock is held. If the guard is lost, `run` drops `future` unfinished at that
    /// moment. With a [`stop_margin`](crate::LockOptions::stop_margin), `run` drops it that much before the lease or the `max_hold` ends.
    /// `Ok` means that `future` finished while the guard was valid.
    ///
    /// `run` looks at the clock before each poll of `future`. If the machine was suspended or the thread was blocked
    /// until after the end, `future` is not polled again. `run` can stop `future` only where it awaits. So code that
    /// computes for a long time between two awaits should call [`check`](Self::check) now and then. Such code also
    /// keeps its thread from other tasks, and the session's heartbeats are tasks of the runtime in which
    /// [`Session::connect`](crate::Session::connect) was called. A runtime whose threads are all blocked loses every
    /// lock of the session.
    ///
    /// A task that `future` spawns is not part of `future`. It goes on when `future` is dropped.
    ///
    /// Do not commit a [`transaction`](Self::transaction) inside `run`. It watches the guard by itself, and its error
    /// says what became of the write; the `Lost` of `run` does not.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the guard was lost, or if its stop margin began, before `future` finished.
    ///
    /// # Cancel safety
    ///
    /// As safe as `future` is. Dropping the future does not change the guard.
    ///
    /// ```no_run
    /// # async fn example(lock: zklock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = lock.acquire().await?;
    /// let migrated = guard.run(async { /* what must not happen twice */ 3 }).await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Lost> {
        self.turn.until(self.turn.held.stop_margin, future).await
    }

    /// Asks a quorum whether the lock is held. Call it right before something irreversible. `Ok` says two things: at
    /// some instant during the call the holder's node was there and nobody had written to it, and the lease is valid
    /// now. (If an ACL hides the node from its own holder, zklock knows the node by its name only.)
    ///
    /// This takes about one round trip, and two on a slow network. zklock repeats a question that was not answered
    /// until the lease ends, so the call never takes longer than [`remaining`](Self::remaining). As with
    /// [`check`](Self::check), a process that is paused after the call acts on an old answer. A
    /// [`transaction`](Self::transaction) does not have this weakness.
    ///
    /// # Errors
    ///
    /// [`Lost`], with the reason: somebody deleted the holder's node or wrote to it, or no quorum answered in time. The
    /// guard is lost from then on.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    ///
    /// ```no_run
    /// # async fn launch() {}
    /// # async fn example(guard: zklock::Guard) -> Result<(), zklock::Lost> {
    /// guard.verify().await?;
    /// launch().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn verify(&self) -> Result<(), Lost> {
        self.turn.verify().await
    }

    /// Begins a ZooKeeper transaction that the servers commit only while the lock is held; see [`Transaction`]. It
    /// sends nothing before [`commit`](Transaction::commit).
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(&self.turn)
    }

    /// Asks ZooKeeper in the session of this guard, until the guard is lost. The stop margin does not count. `None` if
    /// the connection was lost before the answer.
    pub(crate) async fn request<F: Future<Output: Evidence + Send> + Send + 'static>(
        &self,
        question: impl FnOnce(Wire) -> F + Send + 'static,
    ) -> Result<Option<F::Output>, Lost> {
        let request = self.session().requester.request(question);
        match self.turn.until(Duration::ZERO, request).await? {
            LinkAnswer::Given(answer, _) => Ok(Some(answer)),
            LinkAnswer::Lost => Ok(None),
            LinkAnswer::Over(end) => Err(self.turn.lost_for(end.into())),
        }
    }

    /// Has the holder of a turnstile watch its node from now on. Call it once: each call begins a task.
    pub(crate) fn watch_node(&self) {
        if let Some(watch) = SessionHold::watch_node(self.turn.held.clone()) {
            self.session().finish(watch);
        }
    }

    /// Gives up the hold of a node that a server found gone or written to. A node of its name is looked at before it is deleted.
    pub(crate) fn touched(self) {
        self.turn.held.touched();
    }

    /// Ends the hold without a request: a transaction has removed the holder's node.
    pub(crate) fn spend(self) {
        drop(self.turn.end());
    }

    /// The session in which the lock is held.
    pub(crate) fn session(&self) -> &Arc<ZkSession> {
        self.turn.session()
    }

    /// Returns another guard of the same hold: for a function that is called with the lock held and wants a guard of its
    /// own, or for another task. The lock is released with the last of these guards. All of them are lost together.
    ///
    /// Other libraries call a lock re-entrant if a thread that holds it may acquire it again. A task has no identity to
    /// which a lock could belong, so a holder says so itself.
    ///
    /// ```no_run
    /// # async fn pay(guard: zklock::Guard) -> Result<(), zklock::ReleaseError> { guard.release().await }
    /// # async fn example(lock: zklock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = lock.acquire().await?;
    /// // `pay` releases its own guard, and the lock stays held.
    /// pay(guard.another()).await?;
    /// guard.check()?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn another(&self) -> Self {
        self.turn.share();
        Self::of(self.turn.clone())
    }

    /// Returns a guard of the same turn that does not count: the hold ends without it.
    pub(crate) fn uncounted(&self) -> Self {
        Self { turn: self.turn.clone(), share: Share::NotLast, kept: None, holds: PhantomData }
    }

    /// Stops counting this guard. Returns true if it was the last one of its turn.
    fn leave(&mut self) -> bool {
        if self.share == Share::Counted {
            self.share = if self.turn.leave() { Share::Last } else { Share::NotLast };
        }
        self.share == Share::Last
    }
}

impl<K> Acquired for Guard<K> {
    fn granted(&self, member: FamilyMember, waited: Duration) {
        self.turn.granted(member, waited);
    }

    fn fail_stop(&self) {
        self.turn.fail_stop();
    }
}

impl<K> fmt::Debug for Guard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No lock is held while foreign code writes.
        let fate = *self.turn.held.fate.borrow();
        f.debug_struct("Guard")
            .field("nodes", &self.turn.held.nodes().collect::<Vec<_>>())
            .field("token", &self.token())
            .field("fate", &fate)
            .finish_non_exhaustive()
    }
}
