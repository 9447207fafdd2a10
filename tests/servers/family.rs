//! The members of the family, as the tests of all of them see each.

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock::guard::AnyKind;
use zklock::once::{Claim, OnceOptions};
use zklock::{AcquireError, Guard, Leadership, LockOptions, LocksOptions, ReleaseError, Session};

/// What a member grants, without its kind.
pub(crate) struct Held {
    hold: Hold,
    /// The nodes that it stands on.
    pub(crate) nodes: Vec<String>,
}

enum Hold {
    Guard(Guard<AnyKind>),
    Leads(Leadership),
}

impl Held {
    fn new<K>(nodes: impl IntoIterator<Item = String>, guard: Guard<K>) -> Self {
        Self { nodes: nodes.into_iter().collect(), hold: Hold::Guard(guard.into_any()) }
    }

    pub(crate) fn is_held(&self) -> bool {
        match &self.hold {
            Hold::Guard(guard) => guard.is_held(),
            Hold::Leads(leadership) => leadership.is_held(),
        }
    }

    pub(crate) async fn lost(&self) -> zklock::LostReason {
        match &self.hold {
            Hold::Guard(guard) => guard.lost().await,
            Hold::Leads(leadership) => leadership.lost().await,
        }
    }

    pub(crate) async fn release(self) -> Result<(), ReleaseError> {
        match self.hold {
            Hold::Guard(guard) => guard.release().await,
            Hold::Leads(leadership) => leadership.resign().await,
        }
    }
}

type Acquired = Result<Held, AcquireError>;

/// A member of the family: what it acquires, and what excludes that.
#[derive(Clone, Copy)]
pub(crate) struct Member {
    pub(crate) name: &'static str,
    acquire: fn(Session, String, LockOptions) -> BoxFuture<'static, Acquired>,
    /// Takes all that this member may hold, in another session.
    rival: fn(Session, String, LockOptions) -> BoxFuture<'static, Acquired>,
    /// Whether it waits for room in a pool, where a waiter cannot tell a release from a holder that vanished.
    pub(crate) is_pooled: bool,
}

impl Member {
    pub(crate) fn acquire(
        &self,
        session: &Session,
        path: &str,
        options: LockOptions,
    ) -> BoxFuture<'static, Acquired> {
        (self.acquire)(session.clone(), path.to_owned(), options)
    }

    /// Acquires what excludes this member.
    pub(crate) async fn rival(&self, session: &Session, path: &str) -> Held {
        let rival = (self.rival)(session.clone(), path.to_owned(), LockOptions::new());
        zklock_test_support::within(self.name, rival).await.expect("the rival's hold")
    }
}

macro_rules! acquire {
    (|$session:ident, $path:ident, $options:ident| $acquired:expr) => {
        |$session, $path, $options| async move { Ok($acquired) }.boxed()
    };
}

/// What excludes itself.
macro_rules! member {
    ($name:literal, $is_pooled:literal, |$session:ident, $path:ident, $options:ident| $acquired:expr) => {
        Member {
            name: $name,
            acquire: acquire!(|$session, $path, $options| $acquired),
            rival: acquire!(|$session, $path, $options| $acquired),
            is_pooled: $is_pooled,
        }
    };
}

/// Each member. A semaphore is acquired as a whole, and of the slots there is one.
pub(crate) const FAMILY: &[Member] = &[
    member!("lock", false, |session, path, options| {
        let guard = session.lock(&path).unwrap().with_options(options).unwrap().acquire().await?;
        Held::new([guard.node()], guard)
    }),
    Member {
        name: "reader",
        acquire: acquire!(|session, path, options| {
            let guard = session.rw_lock(&path).unwrap().with_options(options).unwrap().read().await?;
            Held::new([guard.node()], guard)
        }),
        rival: acquire!(|session, path, options| {
            let guard = session.rw_lock(&path).unwrap().with_options(options).unwrap().write().await?;
            Held::new([guard.node()], guard)
        }),
        is_pooled: false,
    },
    member!("writer", false, |session, path, options| {
        let guard = session.rw_lock(&path).unwrap().with_options(options).unwrap().write().await?;
        Held::new([guard.node()], guard)
    }),
    member!("several", false, |session, path, options| {
        let locks = session.lock_all([format!("{path}/a"), format!("{path}/b")]).unwrap();
        let guard = locks.with_options(options).unwrap().acquire().await?;
        Held::new(guard.nodes().collect::<Vec<_>>(), guard)
    }),
    member!("key", false, |session, path, options| {
        let options = LocksOptions::new().lock(options);
        let guard = session.locks(&path).unwrap().with_options(options).unwrap().lock("key").await?;
        Held::new([guard.node()], guard)
    }),
    member!("election", false, |session, path, options| {
        let election = session.election(&path).unwrap().with_options(options).unwrap();
        let leadership = election.campaign("me").await?;
        Held { nodes: vec![leadership.node()], hold: Hold::Leads(leadership) }
    }),
    member!("semaphore", true, |session, path, options| {
        let semaphore = session.semaphore(&path, 2).unwrap().with_options(options).unwrap();
        let permit = semaphore.acquire_many(2).await?;
        Held::new([permit.node()], permit)
    }),
    member!("slots", true, |session, path, options| {
        let slot = session.slots(&path, 1).unwrap().with_options(options).unwrap().acquire().await?;
        Held::new([slot.node()], slot)
    }),
    member!("once", false, |session, path, options| {
        let options = OnceOptions::new().retry(true).lock(options);
        match session.once(&path).unwrap().with_options(options).unwrap().claim("run").await? {
            Claim::Run(run) => Held::new([run.guard().node()], run.into_guard()),
            Claim::Done(record) => panic!("nobody completes it: {record:?}"),
        }
    }),
];
