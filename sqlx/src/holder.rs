//! The [`Holder`]: for whom a transaction begins.

use std::fmt;

use zklock::guard::{Exclusive, Shared};
use zklock::{FencingToken, Guard, Leadership, Lost, ReadGuard, Sequencer};

/// The holder of a lock for whom a transaction begins. You need not name it: [`Fence::begin`](crate::Fence::begin) takes any
/// of these.
///
/// | from | stands for |
/// |---|---|
/// | `&Guard`, `&Leadership` | a holder in this process. The transaction borrows the guard, so the guard cannot be released before the transaction has ended |
/// | `&ReadGuard` | a reader in this process |
/// | `&Sequencer` | a holder or a reader in another process, whose request this one serves |
/// | `FencingToken` | a holder that held its lock, or all its locks, alone. A token that came by the network |
/// | `Holder::reader(token)` | a reader whose token came by the network |
///
/// The guards of several locks, permits and slots are refused by their type. The guard of several locks may hold some of them
/// as a reader: if it holds all of them alone, give its token. Permits are held together, so their tokens order nothing. A
/// slot has its own fence for each index: give the slot's token and a name with the index.
///
/// ```compile_fail,E0277
/// # async fn example(pool: sqlx::PgPool, permit: zklock::Permit) -> Result<(), zklock_sqlx::FenceError> {
/// zklock_sqlx::Fence::new("orders").begin(&pool, &permit).await?;
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0505
/// # async fn example(pool: sqlx::PgPool, guard: zklock::Guard) -> Result<(), Box<dyn std::error::Error>> {
/// let transaction = zklock_sqlx::Fence::new("orders").begin(&pool, &guard).await?;
/// guard.release().await?; // not yet
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Holder<'g> {
    token: FencingToken,
    is_reader: bool,
    guard: Option<&'g (dyn Check + Sync)>,
}

impl Holder<'_> {
    /// The reader of a read-write lock that has this token.
    pub const fn reader(token: FencingToken) -> Self {
        Self { token, is_reader: true, guard: None }
    }

    /// Returns the holder's token.
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns whether the holder is a reader.
    pub const fn is_reader(&self) -> bool {
        self.is_reader
    }

    /// Asks the guard, if it is in this process.
    pub(crate) fn check(&self) -> Result<(), Lost> {
        self.guard.map_or(Ok(()), Check::check)
    }
}

/// A holder of one lock, whose path can name the lock's fence: `Guard`, `ReadGuard`, `Leadership` or `Sequencer`. Nothing else
/// can implement it.
pub trait OneLock: sealed::AbsolutePath {}

pub(crate) mod sealed {
    pub trait AbsolutePath {
        /// The path of the lock with the chroot of the holder's session.
        fn absolute_path(&self) -> String;
    }
}

macro_rules! one_lock {
    ($($holder:ty),*) => {$(
        impl OneLock for $holder {}

        impl sealed::AbsolutePath for $holder {
            fn absolute_path(&self) -> String {
                // Of the guard: a leadership is one, too.
                let guard: &Guard<_> = self;
                guard.absolute_path()
            }
        }
    )*};
}

one_lock!(Guard<Exclusive>, Guard<Shared>, Leadership);

impl OneLock for Sequencer {}

impl sealed::AbsolutePath for Sequencer {
    fn absolute_path(&self) -> String {
        self.path().to_owned()
    }
}

trait Check: fmt::Debug {
    fn check(&self) -> Result<(), Lost>;
}

impl<K> Check for Guard<K> {
    fn check(&self) -> Result<(), Lost> {
        self.check()
    }
}

impl<'g> From<&'g Guard<Exclusive>> for Holder<'g> {
    fn from(guard: &'g Guard<Exclusive>) -> Self {
        Self { token: guard.token(), is_reader: false, guard: Some(guard) }
    }
}

impl<'g> From<&'g Guard<Shared>> for Holder<'g> {
    fn from(guard: &'g ReadGuard) -> Self {
        Self { token: guard.token(), is_reader: true, guard: Some(guard) }
    }
}

impl<'g> From<&'g Leadership> for Holder<'g> {
    fn from(leadership: &'g Leadership) -> Self {
        Self::from(&**leadership)
    }
}

impl From<FencingToken> for Holder<'_> {
    fn from(token: FencingToken) -> Self {
        Self { token, is_reader: false, guard: None }
    }
}

impl From<&Sequencer> for Holder<'_> {
    fn from(sequencer: &Sequencer) -> Self {
        Self { token: sequencer.token(), is_reader: sequencer.is_shared(), guard: None }
    }
}
