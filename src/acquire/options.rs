//! The options of a lock.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::acl::Acl;
use crate::error::InvalidLock;
use crate::guard::hold::fail_stop;
use crate::layout::Layout;
use crate::node::NodeData;
use crate::path::{LockPath, PathProblem};
use crate::settings::{CheckedOptions, Place, Queue, Settings};
use crate::zk::ZkSession;

/// The longest owner text, in bytes.
const LONGEST_OWNER: usize = 256;

/// The longest extra data, in bytes.
const LONGEST_DATA: usize = 16 * 1024;

/// Options of a lock; give them to [`Lock::with_options`](crate::Lock::with_options) and its like.
///
/// ```
/// use zklock::{Acl, LockOptions};
///
/// let options = LockOptions::new().owner("billing@eu-1").data("build 4711").acl(Acl::creator_only());
/// # drop(options);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until they are given to `with_options`"]
pub struct LockOptions {
    name: Option<Arc<str>>,
    owner: Option<String>,
    data: Option<String>,
    acl: Acl,
    ancestors_acl: Acl,
    stop_margin: Duration,
    takeover_delay: Option<Duration>,
    max_hold: Option<Duration>,
    fail_stop: bool,
    layout: Layout,
    places: Option<watch::Sender<Option<Place>>>,
}

impl LockOptions {
    /// Makes the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name by which metrics and spans know what is acquired: one of few, such as `orders`, and never a key or a
    /// customer. Locks with one name are counted together, and so are all without a name, which is the default. An election
    /// without a name has no `leader_election_master_status`. See [Metrics, spans and events](crate::inspect#metrics-spans-and-events).
    pub fn name(self, name: impl Into<Arc<str>>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Sets the text by which operators recognise the contender: free text of up to 256 bytes. The default is
    /// `host:pid`.
    pub fn owner(self, owner: impl Into<String>) -> Self {
        Self { owner: Some(owner.into()), ..self }
    }

    /// Sets extra data for each contender's node: up to 16 KiB. The default is none.
    pub fn data(self, data: impl Into<String>) -> Self {
        Self { data: Some(data.into()), ..self }
    }

    /// Sets the ACL of the contenders' nodes, and of the lock's directory if zklock creates it. The default is
    /// [`Acl::open`].
    pub fn acl(self, acl: Acl) -> Self {
        Self { acl, ..self }
    }

    /// Sets the ACL of the directory's ancestors if zklock creates them. The default is [`Acl::open`].
    pub fn ancestors_acl(self, acl: Acl) -> Self {
        Self { ancestors_acl: acl, ..self }
    }

    /// Sets how long before the lease, or the [`max_hold`](Self::max_hold), ends [`Guard::lost`](crate::Guard::lost) and
    /// [`Guard::run`](crate::Guard::run) resolve. In this time the holder can stop its work while it still holds the lock. The
    /// default is zero.
    ///
    /// Once the margin has begun, nothing puts off the end of the guard, even if ZooKeeper answers again. A loss that
    /// nobody foresees leaves no such time: an operator deletes the holder's node, or the ZooKeeper session ends.
    ///
    /// A lease lasts a session timeout, less the time that the ensemble needs to confirm it. So the stop margin cannot
    /// be longer than 2.2 seconds with the default session timeout of 10 seconds and tick of 2 seconds, or 6 seconds
    /// with a session timeout of 24 seconds. [`Lock::with_options`](crate::Lock::with_options) refuses a longer one. If
    /// the servers later grant a shorter session timeout, zklock shortens the margin to the longest one that this
    /// timeout allows.
    pub fn stop_margin(self, margin: Duration) -> Self {
        Self { stop_margin: margin, ..self }
    }

    /// Sets how long a waiter waits before it is granted the lock if its predecessor vanished without a release. Chubby
    /// and Consul call this a lock-delay. The default is zero. Set it for every contender: each contender observes only
    /// its own delay.
    ///
    /// For waiters that are already in the queue, the delay covers:
    ///
    /// * work that the last holder has in flight when it dies or loses the lock (a request on its way to a store that
    ///   knows no fencing tokens), if that work arrives within the delay;
    /// * an operator who deletes the holder's node, or closes its session: the holder learns of it within a round trip,
    ///   or within 40 ms if it has just been granted the lock; of a closed session up to two fifths of the session timeout
    ///   later, if it resumes the session at that very moment. If the delay is at least the session timeout, this also
    ///   covers a holder that is cut off at that moment;
    /// * an operator who deletes a waiter's node: a waiter with a delay, and in a [`Layout`] each waiter, asks a quorum for its
    ///   own node before it takes a release for its own grant. That costs it a round trip;
    /// * a client that forges the release of somebody who does not hold the lock: unless a waiter has seen nobody else in front
    ///   of its predecessor, it lists the queue before its grant. That costs it another round trip.
    ///
    /// The delay does not cover:
    ///
    /// * a contender that enters the queue after the holder vanished, or a few round trips before, and finds nobody there;
    /// * a process that is paused for longer than the delay;
    /// * an operator who writes to the holder's node and deletes it in one transaction, as a holder does;
    /// * an operator who has forbidden the holder to read its node.
    ///
    /// Servers before 3.9 do not name the transaction of an event, so a waiter cannot tell a release from a predecessor that
    /// vanished. There every handover takes the delay. In a [`Layout`] a waiter whose listing shows the release is
    /// spared it all the same.
    ///
    /// Some events count as vanishing, too: a session is closed before its guards are released, or a lost guard is
    /// dropped. The delay also applies if a predecessor may have vanished unseen, while the connection was lost or
    /// before the next ZooKeeper session was established. [`try_acquire`](crate::Lock::try_acquire) never waits: it
    /// returns `None` then. [`RwLock`](crate::RwLock) says what a delay costs readers.
    pub fn takeover_delay(self, delay: Duration) -> Self {
        Self { takeover_delay: Some(delay), ..self }
    }

    /// Sets for how long a guard is valid at most. After that it is lost ([`LostReason::MaxHold`](crate::LostReason::MaxHold)), and zklock
    /// gives the lock up in the background, also if its caller never polls again, has forgotten the guard, or keeps other guards
    /// of the hold. The default is no limit.
    ///
    /// The time begins with the grant. With [`Locks`](crate::Locks), it begins when the task takes its turn. Each clock of the
    /// lease counts, so the time in which the machine is suspended counts, too. The limit never makes a guard last longer than
    /// its lease. A [`stop_margin`](Self::stop_margin) also lies before this end
    /// ([`LostReason::MaxHoldEnds`](crate::LostReason::MaxHoldEnds)). [`Lock::with_options`](crate::Lock::with_options) and its
    /// like refuse a limit that is zero, or no longer than the margin. Make it longer than what follows a grant before the caller
    /// has it, too: an election's announcement and the begin of a [`Once`](crate::Once) take a round trip or more of it. If the
    /// limit ends before, the contender queues again.
    ///
    /// [`Locks`](crate::Locks) hand a hold on only if its next turn can last as long as a new guard does at least: some 4.2 seconds
    /// by default. With a shorter limit each task acquires the lock in ZooKeeper.
    ///
    /// Work that goes on after the loss goes on beside the next holder. Stop it when [`Guard::lost`](crate::Guard::lost) resolves, or use
    /// [`Guard::run`](crate::Guard::run). A [`takeover_delay`](Self::takeover_delay) of the waiters gives it time: they take the end
    /// for that of a holder that vanished.
    pub fn max_hold(self, longest: Duration) -> Self {
        Self { max_hold: Some(longest), ..self }
    }

    /// Ends the process if a guard is lost before its caller has released or dropped it. The default is `false`.
    ///
    /// A thread of the operating system does so, even if every thread of the runtime is blocked: it writes one line to the standard
    /// error, and aborts the process. Nothing is cleaned up. A supervisor sees `SIGABRT`; of a container's first process, mostly the
    /// exit code 139. Take it where work that goes on after a loss is worse than a restart, and where the work cannot be stopped from
    /// outside: a leader that blocks in its stop hook, or a library that does not return.
    ///
    /// With a [`stop_margin`](Self::stop_margin), the caller is told before the lease or the `max_hold` ends, and a guard that is
    /// dropped in that time ends nothing. Each other loss comes without a warning, and each [`LostReason`](crate::LostReason)
    /// counts: so drop the guard before you close the session or shut its runtime down. The process ends within 150 ms of the
    /// loss; at the end of a lease or of a `max_hold` within 50 ms. A process that was stopped, and goes on, runs for the moment that the
    /// operating system needs to schedule that thread. [`FencingToken`](crate::FencingToken)s cover that moment.
    ///
    /// Fail-stop begins once the call has returned what it acquired. It also applies to the leadership of an
    /// [`Election`](crate::Election), to permits and slots, and to the run of a [`Once`](crate::Once) until you record its end. The
    /// loss that ends a process has no event and no metric. After a `fork`, make the lock in the child.
    ///
    /// ```
    /// let options = zklock::LockOptions::new().fail_stop(true).stop_margin(std::time::Duration::from_secs(2));
    /// # drop(options);
    /// ```
    pub fn fail_stop(self, fail_stop: bool) -> Self {
        Self { fail_stop, ..self }
    }

    /// Contends in the queue of another client's mutexes, under that client's names. The default is zklock's own queue, in which no
    /// other client contends. It needs a [`takeover_delay`](Self::takeover_delay), and only a single lock that is held alone can have
    /// it ([`InvalidLock::Layout`]). See [`Layout`].
    pub fn layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// Sets the channel to which zklock writes the [`Place`] of a waiter: for a lock, a reader, several locks, an election, a permit, a
    /// slot or a run of a [`Once`](crate::Once). The value is `None` when a call begins, and once the call is granted what it waits for.
    /// It is no progress bar: zklock sends no request for it, so a waiter mostly learns its place only
    ///
    /// * as it enters the queue, if somebody is in front;
    /// * when its predecessor leaves without a release, or with one, if that was a reader and it is a writer;
    /// * when it has become the next for a permit or a slot, and finds no room.
    ///
    /// A waiter watches its predecessor only. While all others release in turn, it hears its place once and then has the lock. For
    /// the place at any time, ask [`Lock::contenders`](crate::Lock::contenders).
    ///
    /// Give each acquisition a channel of its own: clones of these options share the channel, and each call on a handle clears the value,
    /// a `try_` too. A call that ends without a grant, or queues again, leaves the last value there. Of several locks, the value is that
    /// of the queue that was looked at last. The tasks that wait for one key of [`Locks`](crate::Locks) have one contender together, and
    /// no place is written. The channel stays open while a guard lives.
    ///
    /// ```no_run
    /// # async fn example(session: &zklock::Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let (places, mut place) = tokio::sync::watch::channel(None);
    /// let lock = session.lock("/lock/orders")?.with_options(zklock::LockOptions::new().places(places))?;
    /// let mut acquiring = std::pin::pin!(lock.acquire());
    /// let guard = loop {
    ///     tokio::select! {
    ///         guard = &mut acquiring => break guard?,
    ///         Ok(()) = place.changed() => {
    ///             if let Some(place) = &*place.borrow_and_update() {
    ///                 println!("{} in front of us", place.ahead);
    ///             }
    ///         }
    ///     }
    /// };
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn places(self, places: watch::Sender<Option<Place>>) -> Self {
        Self { places: Some(places), ..self }
    }

    /// Refuses a layout, for what shares no queue: everything but a single lock that is held alone.
    pub(crate) fn refuse_layout(&self, path: &str) -> Result<(), InvalidLock> {
        match self.layout {
            Layout::Zklock => Ok(()),
            layout => Err(InvalidLock::Layout { path: path.to_owned(), layout }),
        }
    }

    /// Makes the settings of the lock at `path`, if this session allows the path and these options.
    pub(crate) fn settings(self, path: &str, session: &ZkSession) -> Result<Settings, InvalidLock> {
        let path = parse_path(path, session)?.with_layout(self.layout.queue());
        if path.layout().is_shared() && self.takeover_delay.is_none() {
            return Err(InvalidLock::NoDelay { path: path.to_string(), layout: self.layout });
        }
        let options = self.check(&path, session)?;
        Ok(Settings::new(Queue::of_lock(path), options))
    }

    /// Checks the options of what is at `path`, in this session.
    pub(crate) fn check(self, path: &LockPath, session: &ZkSession) -> Result<CheckedOptions, InvalidLock> {
        let lengths = session.lease.lengths();
        let stop_margin = self.stop_margin;
        let longest = lengths.longest_stop_margin();
        if stop_margin > longest {
            let timeout = lengths.timeout;
            return Err(InvalidLock::StopMargin { path: path.to_string(), stop_margin, longest, timeout });
        }
        if let Some(max_hold) = self.max_hold.filter(|longest| *longest <= stop_margin) {
            return Err(InvalidLock::MaxHold { path: path.to_string(), max_hold, stop_margin });
        }
        let checked = |option: &'static str, text: &str, longest: usize| {
            (text.len() <= longest).then_some(()).ok_or_else(|| InvalidLock::TooLong {
                path: path.to_string(),
                option,
                length: text.len(),
                longest,
            })
        };
        let owner = self.owner.unwrap_or_else(default_owner);
        checked("owner", &owner, LONGEST_OWNER)?;
        checked("data", self.data.as_deref().unwrap_or_default(), LONGEST_DATA)?;
        if self.fail_stop {
            fail_stop::start().map_err(|error| InvalidLock::FailStop {
                path: path.to_string(),
                reason: error.to_string(),
            })?;
        }
        Ok(CheckedOptions {
            longest_node: NodeData::longest(&owner, self.data.as_deref()),
            label: self.name,
            owner,
            data: self.data,
            acl: self.acl,
            ancestors_acl: self.ancestors_acl,
            creates_chroot: session.creates_chroot,
            stop_margin,
            takeover_delay: self.takeover_delay.unwrap_or_default(),
            max_hold: self.max_hold,
            fail_stop: self.fail_stop,
            places: self.places,
        })
    }
}

/// Checks the path that a caller gives for a lock, an election or a pool.
pub(crate) fn parse_path(path: &str, session: &ZkSession) -> Result<LockPath, InvalidLock> {
    LockPath::parse(path, &session.chroot).map_err(|problem| invalid_path(path, problem))
}

pub(crate) fn invalid_path(path: &str, problem: PathProblem) -> InvalidLock {
    InvalidLock::Path { path: path.to_owned(), problem }
}

/// Returns `host:pid`, by which an operator finds the process.
pub(crate) fn default_owner() -> String {
    let host = rustix::system::uname();
    format!("{}:{}", host.nodename().to_string_lossy(), std::process::id())
}
