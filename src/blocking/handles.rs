//! Sessions, locks and guards whose calls block.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::owner::{Owner, wait};
use crate::acquire::options::LockOptions;
use crate::election::CampaignError;
use crate::error::{AcquireError, InvalidLock};
use crate::guard::lost::{LostReason, ReleaseError};
use crate::keys::error::KeyError;
use crate::keys::options::LocksOptions;
use crate::lock::multi_lock::{Access, InvalidMultiLock};
use crate::semaphore::error::{InvalidPool, PoolError};
use crate::session::{ConnectError, SessionBuilder};

/// A session, or what is acquired by it, whose calls block. It derefs to its namesake `T`.
#[derive(Clone)]
pub struct Blocking<T> {
    inner: T,
    owner: Arc<Owner>,
}

/// A guard, a permit, a slot or a leadership: it derefs to its namesake `G`. Dropping it releases what is held, and waits for that no longer than the guard's lease
/// would last.
#[must_use = "what is held is released as soon as this is dropped"]
pub struct Held<G> {
    // In this order: the guard is dropped first.
    inner: G,
    released: Released,
}

/// Waits, as it is dropped, until the session has released what was dropped before, if that is due.
struct Released {
    owner: Arc<Owner>,
    is_due: bool,
}

impl Drop for Released {
    fn drop(&mut self) {
        if self.is_due {
            wait(self.owner.session.left());
        }
    }
}

/// A guard of any kind, or a leadership.
trait Release: Sized {
    fn release(self) -> impl Future<Output = Result<(), ReleaseError>>;
    fn when_lost(&self) -> BoxFuture<'static, LostReason>;
}

impl<K: 'static> Release for crate::Guard<K> {
    fn release(self) -> impl Future<Output = Result<(), ReleaseError>> {
        self.release()
    }

    fn when_lost(&self) -> BoxFuture<'static, LostReason> {
        self.lost().boxed()
    }
}

impl Release for crate::Leadership {
    fn release(self) -> impl Future<Output = Result<(), ReleaseError>> {
        self.release()
    }

    fn when_lost(&self) -> BoxFuture<'static, LostReason> {
        self.lost().boxed()
    }
}

#[expect(private_bounds, reason = "nobody else makes guards")]
impl<G: Release> Held<G> {
    /// Releases what is held, and returns once ZooKeeper has confirmed that. As [`Guard::release`](crate::Guard::release) and
    /// [`Leadership::release`](crate::Leadership::release).
    pub fn release(self) -> Result<(), ReleaseError> {
        let Self { inner, mut released } = self;
        released.is_due = false;
        wait(inner.release())
    }

    /// Calls `act` once the guard is lost, with the reason, in a thread of its own. zklock does not call it if the hold is released
    /// before. `act` must not own the guard, which would then never be dropped. If `act` owns the last handle of the session, it
    /// closes the session, maybe later than `main` returns.
    ///
    /// ```no_run
    /// # fn example(guard: zklock::blocking::Guard) {
    /// guard.on_lost(|reason| {
    ///     eprintln!("the lock is lost: {reason}");
    ///     std::process::exit(75); // the work must not go on
    /// });
    /// # }
    /// ```
    pub fn on_lost(&self, act: impl FnOnce(LostReason) + Send + 'static) {
        let lost = self.inner.when_lost();
        let runtime = self.released.owner.runtime.clone();
        self.released.owner.runtime.spawn(async move {
            let reason = lost.await;
            // What `act` owns may be dropped elsewhere alone, because a drop may wait for this thread.
            runtime.spawn_blocking(move || {
                if reason != LostReason::Released {
                    act(reason);
                }
            });
        });
    }
}

impl<T> Deref for Blocking<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<G> Deref for Held<G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.inner
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Blocking<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl<G: std::fmt::Debug> std::fmt::Debug for Held<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T> Blocking<T> {
    fn with<U>(&self, inner: U) -> Blocking<U> {
        Blocking { inner, owner: self.owner.clone() }
    }

    fn hold<G>(&self, inner: G) -> Held<G> {
        Held { inner, released: Released { owner: self.owner.clone(), is_due: true } }
    }
}

impl Session {
    /// Connects with the default options; see [`Session::connect`](crate::Session::connect).
    pub fn connect(servers: impl Into<String>) -> Result<Self, ConnectError> {
        crate::Session::builder(servers).connect_blocking()
    }

    /// As [`Session::close`](crate::Session::close).
    pub fn close(&self) -> Result<(), ReleaseError> {
        wait(self.inner.close())
    }

    /// As [`Session::lock_all`](crate::Session::lock_all).
    pub fn lock_all(
        &self,
        locks: impl IntoIterator<Item = impl Into<Access>>,
    ) -> Result<MultiLock, InvalidMultiLock> {
        Ok(self.with(self.inner.lock_all(locks)?))
    }
}

impl SessionBuilder {
    /// As [`connect`](Self::connect), for a program that is not async: see [`blocking`](crate::blocking).
    #[cfg_attr(docsrs, doc(cfg(feature = "blocking")))]
    pub fn connect_blocking(self) -> Result<Session, ConnectError> {
        let owner = Owner::connect(self)?;
        Ok(Blocking { inner: owner.session.clone(), owner })
    }
}

/// Declares the namesakes of what the crate's root has.
macro_rules! namesakes {
    ($($handle:ident<$name:ident>),*) => {
        $(
            #[doc = concat!("As [`", stringify!($name), "`](crate::", stringify!($name), "), with calls that block.")]
            pub type $name = $handle<crate::$name>;
        )*
    };
}

/// Forwards calls of a type to its namesake: what these return is `with` or `hold` of this; the last ones return it in an `Option`.
macro_rules! forwards {
    ($($name:ident { $($call:ident($($argument:ident: $type:ty),*) $how:ident $made:ty, $error:ty;)* })*) => {
        $(impl $name {
            $(
                #[doc = concat!(
                    "As [`", stringify!($name), "::", stringify!($call), "`](crate::", stringify!($name), "::", stringify!($call), ")."
                )]
                pub fn $call(&self, $($argument: $type),*) -> Result<forwards!(@returns $how $made), $error> {
                    forwards!(@$how self, self.inner.$call($($argument),*))
                }
            )*
        })*
    };
    (@returns option $made:ty) => { Option<$made> };
    (@returns $how:ident $made:ty) => { $made };
    (@with $self:ident, $call:expr) => { Ok($self.with($call?)) };
    (@hold $self:ident, $call:expr) => { Ok($self.hold(wait($call)?)) };
    (@option $self:ident, $call:expr) => { Ok(wait($call)?.map(|guard| $self.hold(guard))) };
}

namesakes! {
    Blocking<Session>, Blocking<Lock>, Blocking<RwLock>, Blocking<MultiLock>, Blocking<Locks>, Blocking<Election>, Blocking<Semaphore>,
    Blocking<Slots>, Held<Guard>, Held<ReadGuard>, Held<MultiGuard>, Held<Leadership>, Held<Permit>, Held<Slot>
}

forwards! {
    Session {
        lock(path: &str) with Lock, InvalidLock;
        rw_lock(path: &str) with RwLock, InvalidLock;
        locks(root: &str) with Locks, InvalidLock;
        election(path: &str) with Election, InvalidLock;
        semaphore(path: &str, capacity: u32) with Semaphore, InvalidPool;
        slots(path: &str, count: u32) with Slots, InvalidPool;
    }
    Lock {
        with_options(options: LockOptions) with Lock, InvalidLock;
        acquire() hold Guard, AcquireError;
        try_acquire() option Guard, AcquireError;
        acquire_timeout(timeout: Duration) option Guard, AcquireError;
    }
    RwLock {
        with_options(options: LockOptions) with RwLock, InvalidLock;
        read() hold ReadGuard, AcquireError;
        try_read() option ReadGuard, AcquireError;
        read_timeout(timeout: Duration) option ReadGuard, AcquireError;
        write() hold Guard, AcquireError;
        try_write() option Guard, AcquireError;
        write_timeout(timeout: Duration) option Guard, AcquireError;
    }
    MultiLock {
        with_options(options: LockOptions) with MultiLock, InvalidMultiLock;
        acquire() hold MultiGuard, AcquireError;
        try_acquire() option MultiGuard, AcquireError;
        acquire_timeout(timeout: Duration) option MultiGuard, AcquireError;
    }
    Locks {
        with_options(options: LocksOptions) with Locks, InvalidLock;
        acquire(key: &str) hold Guard, KeyError;
        try_acquire(key: &str) option Guard, KeyError;
        acquire_timeout(key: &str, timeout: Duration) option Guard, KeyError;
    }
    Election {
        with_options(options: LockOptions) with Election, InvalidLock;
        campaign(value: impl Into<String>) hold Leadership, CampaignError;
        try_campaign(value: impl Into<String>) option Leadership, CampaignError;
        campaign_timeout(value: impl Into<String>, timeout: Duration) option Leadership, CampaignError;
    }
    Semaphore {
        with_options(options: LockOptions) with Semaphore, InvalidPool;
        acquire() hold Permit, PoolError;
        acquire_many(weight: u32) hold Permit, PoolError;
        try_acquire() option Permit, PoolError;
        try_acquire_many(weight: u32) option Permit, PoolError;
        acquire_timeout(timeout: Duration) option Permit, PoolError;
        acquire_many_timeout(weight: u32, timeout: Duration) option Permit, PoolError;
    }
    Slots {
        with_options(options: LockOptions) with Slots, InvalidPool;
        acquire() hold Slot, PoolError;
        try_acquire() option Slot, PoolError;
        acquire_timeout(timeout: Duration) option Slot, PoolError;
    }
}
