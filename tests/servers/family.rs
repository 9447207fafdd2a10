//! The members of the family, as the tests of all of them see each.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use support::within;
use zklock::ask::Asks;
use zklock::election::CampaignError;
use zklock::inspect::PathKind;
use zklock::once::{Claim, ClaimError};
use zklock::semaphore::PoolError;
use zklock::{
    AcquireError, AnyGuard, Guard, KeyError, Leadership, LockOptions, LocksOptions, LostReason, OnceOptions,
    ReleaseError, Session,
};

/// What a member grants, without its kind.
pub(crate) struct Held(AnyGuard);

impl<K> From<Guard<K>> for Held {
    fn from(guard: Guard<K>) -> Self {
        Self(guard.into_any())
    }
}

impl From<Leadership> for Held {
    fn from(leadership: Leadership) -> Self {
        Self(leadership.into_any())
    }
}

impl From<Claim> for Held {
    fn from(claim: Claim) -> Self {
        match claim {
            Claim::Run(run) => run.into_guard().into(),
            Claim::Recorded(record) => panic!("nobody completes it: {record:?}"),
        }
    }
}

impl Held {
    pub(crate) fn guard(&self) -> &AnyGuard {
        &self.0
    }

    pub(crate) fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// The nodes that it stands on.
    pub(crate) fn nodes(&self) -> Vec<String> {
        self.0.nodes().collect()
    }

    /// Those who ask it to let go.
    pub(crate) fn asks(&self) -> Asks {
        self.0.asks()
    }

    /// Another guard of the same hold.
    pub(crate) fn another(&self) -> Self {
        Self(self.0.another())
    }

    pub(crate) async fn lost(&self) -> LostReason {
        self.0.lost().await
    }

    pub(crate) async fn release(self) -> Result<(), ReleaseError> {
        self.0.release().await
    }
}

/// An error that every member can meet.
trait Common {
    fn common(self) -> AcquireError;
}

impl Common for AcquireError {
    fn common(self) -> AcquireError {
        self
    }
}

/// The members' own errors say of the common one that they hold what it says itself.
macro_rules! common {
    ($($error:ty),*) => {$(
        impl Common for $error {
            fn common(self) -> AcquireError {
                let said = self.to_string();
                let advice = (self.is_retryable(), self.needs_new_session());
                let Self::Acquire(error) = self else { panic!("no other member can meet it: {said}") };
                assert_eq!((said, advice), (error.to_string(), (error.is_retryable(), error.needs_new_session())));
                error
            }
        }
    )*};
}

common!(KeyError, CampaignError, PoolError, ClaimError);

/// How a member is asked.
#[derive(Clone, Copy)]
enum Wish {
    Wait,
    Try,
    WaitFor(Duration),
}

type Granted = Result<Option<Held>, AcquireError>;

/// A handle of a member. It acquires as often as it is asked, and remembers what it has seen.
#[derive(Clone)]
pub(crate) struct Handle(Arc<dyn Fn(Wish) -> BoxFuture<'static, Granted> + Send + Sync>);

impl Handle {
    pub(crate) fn acquire(&self) -> BoxFuture<'static, Result<Held, AcquireError>> {
        self.0(Wish::Wait).map_ok(|held| held.expect("it waits")).boxed()
    }

    pub(crate) fn try_acquire(&self) -> BoxFuture<'static, Granted> {
        self.0(Wish::Try)
    }

    pub(crate) fn acquire_timeout(&self, timeout: Duration) -> BoxFuture<'static, Granted> {
        self.0(Wish::WaitFor(timeout))
    }
}

/// A member of the family: what it acquires, and what excludes that.
#[derive(Clone, Copy)]
pub(crate) struct Member {
    pub(crate) name: &'static str,
    /// What its path is used as.
    pub(crate) kind: PathKind,
    handle: Make,
    rival: Make,
}

impl Member {
    /// What it acquires at this path, or below it.
    pub(crate) fn handle(&self, session: &Session, path: &str) -> Handle {
        self.handle_with(session, path, LockOptions::new())
    }

    pub(crate) fn handle_with(&self, session: &Session, path: &str, options: LockOptions) -> Handle {
        (self.handle)(session, path, options)
    }

    /// Takes all that this member may hold.
    pub(crate) fn rival(&self, session: &Session, path: &str) -> Handle {
        self.rival_with(session, path, LockOptions::new())
    }

    pub(crate) fn rival_with(&self, session: &Session, path: &str, options: LockOptions) -> Handle {
        (self.rival)(session, path, options)
    }

    /// Whether it waits for room in a pool, where a waiter cannot tell a release from a holder that vanished.
    pub(crate) fn is_pooled(&self) -> bool {
        matches!(self.kind, PathKind::Semaphore | PathKind::Slots)
    }
}

/// A handle, and its calls that wait, try, and wait for so long.
macro_rules! handle {
    ($handle:ident: $waits:expr, $tries:expr, |$timeout:ident| $waits_for:expr) => {
        Handle(Arc::new(move |wish| {
            let $handle = $handle.clone();
            async move {
                Ok(match wish {
                    Wish::Wait => Some($waits.await.map_err(Common::common)?.into()),
                    Wish::Try => $tries.await.map_err(Common::common)?.map(Held::from),
                    Wish::WaitFor($timeout) => $waits_for.await.map_err(Common::common)?.map(Held::from),
                })
            }
            .boxed()
        }))
    };
}

type Make = fn(&Session, &str, LockOptions) -> Handle;

/// What excludes itself.
const fn member(name: &'static str, kind: PathKind, handle: Make) -> Member {
    Member { name, kind, handle, rival: handle }
}

const WRITER: Make = |session, path, options| {
    let lock = session.rw_lock(path).unwrap().with_options(options).unwrap();
    handle!(lock: lock.write(), lock.try_write(), |timeout| lock.write_timeout(timeout))
};

const READER: Make = |session, path, options| {
    let lock = session.rw_lock(path).unwrap().with_options(options).unwrap();
    handle!(lock: lock.read(), lock.try_read(), |timeout| lock.read_timeout(timeout))
};

/// Each member. A semaphore is acquired as a whole, and of the slots there is one.
pub(crate) const FAMILY: &[Member] = &[
    member("lock", PathKind::Lock, |session, path, options| {
        let lock = session.lock(path).unwrap().with_options(options).unwrap();
        handle!(lock: lock.acquire(), lock.try_acquire(), |timeout| lock.acquire_timeout(timeout))
    }),
    Member { name: "reader", kind: PathKind::Lock, handle: READER, rival: WRITER },
    member("writer", PathKind::Lock, WRITER),
    member("several", PathKind::Lock, |session, path, options| {
        let locks = session.lock_all([path.to_owned(), format!("{path}-too")]).unwrap();
        let locks = locks.with_options(options).unwrap();
        handle!(locks: locks.acquire(), locks.try_acquire(), |timeout| locks.acquire_timeout(timeout))
    }),
    member("key", PathKind::Lock, |session, path, options| {
        let (root, key) = path.rsplit_once('/').unwrap();
        let options = LocksOptions::new().lock(options);
        let locks = session.locks(root).unwrap().with_options(options).unwrap();
        let key = (locks, key.to_owned());
        handle!(key: key.0.acquire(&key.1), key.0.try_acquire(&key.1), |timeout| key.0.acquire_timeout(&key.1, timeout))
    }),
    member("election", PathKind::Election, |session, path, options| {
        let it = session.election(path).unwrap().with_options(options).unwrap();
        handle!(it: it.campaign("me"), it.try_campaign("me"), |timeout| it.campaign_timeout("me", timeout))
    }),
    member("semaphore", PathKind::Semaphore, |session, path, options| {
        let all = session.semaphore(path, 2).unwrap().with_options(options).unwrap();
        handle!(all: all.acquire_many(2), all.try_acquire_many(2), |timeout| all.acquire_many_timeout(2, timeout))
    }),
    member("slots", PathKind::Slots, |session, path, options| {
        let slots = session.slots(path, 1).unwrap().with_options(options).unwrap();
        handle!(slots: slots.acquire(), slots.try_acquire(), |timeout| slots.acquire_timeout(timeout))
    }),
    member("once", PathKind::Lock, |session, path, options| {
        let options = OnceOptions::new().retry(true).lock(options);
        let it = session.once(path).unwrap().with_options(options).unwrap();
        handle!(it: it.claim("run"), it.try_claim("run"), |timeout| it.claim_timeout("run", timeout))
    }),
];

/// Acquires what is free, or soon is.
pub(crate) async fn acquired(handle: &Handle) -> Held {
    within("a hold", handle.acquire()).await.expect("a hold")
}

/// Takes what excludes the member.
pub(crate) async fn rival(member: Member, other: &Session, path: &str) -> Held {
    acquired(&member.rival(other, path)).await
}

/// The next one gets all of it.
pub(crate) async fn is_free(member: Member, other: &Session, path: &str) {
    rival(member, other, path).await.release().await.expect("its release");
}

/// The number of a node.
pub(crate) fn number(node: &str) -> u32 {
    node[node.len() - 10..].parse().expect("a number")
}
