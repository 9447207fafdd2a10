//! The [`Fence`].

use std::collections::BTreeSet;

use sqlx::Pool;

use crate::database::{FenceDatabase, INSERT, UPDATE};
use crate::error::FenceError;
use crate::holder::{Holder, OneLock};
use crate::marks::Marks;
use crate::transaction::FencedTransaction;

/// How often [`Fence::begin`] looks for a row that it has written.
const ROUNDS: u32 = 10;

/// A fence in a database: it remembers the highest token that it has admitted, and refuses lower ones.
///
/// A fence is a row of the table `zklock_fences` ([`migrate`](crate::migrate)), found by its name. Each lock has a fence of
/// its own, and all programs that write under the lock use that fence, in one database. [`Fence::of`] names it by the
/// lock's path. The first transaction makes the row.
///
/// ```no_run
/// # async fn example(pool: sqlx::PgPool, guard: zklock::Guard) -> Result<(), zklock_sqlx::FenceError> {
/// use zklock_sqlx::Fence;
///
/// let fence = Fence::of(&guard);
/// let mut transaction = fence.begin(&pool, &guard).await?;
/// sqlx::query("UPDATE orders SET state = 'paid' WHERE id = 7").execute(&mut *transaction).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Why nothing comes between
///
/// 1. The first statement of each transaction locks the row and returns what the row says once it is locked. Nobody changes it
///    from then until the end of the transaction. A check that only reads (`SELECT`, `EXISTS`) does not have this: a later
///    holder may commit between the check and the write.
/// 2. If the token is lower than a mark of the row, the transaction is refused, by the rules of
///    [`FenceGate`](zklock::FenceGate).
/// 3. If the token is higher, the row gets it, *and that is committed before the transaction begins*. So a rollback does not
///    take it back. Otherwise a holder that read, rolled back and acted elsewhere would have acted on what an earlier
///    holder could still change.
///
/// So from the moment at which `begin` returns, no transaction of an earlier holder takes effect. The transaction sees all that
/// earlier holders have committed. If an earlier holder's transaction is open, `begin` waits for its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// In the order in which every transaction locks them, so that no two wait for each other.
    names: BTreeSet<String>,
}

impl Fence {
    /// The fence of the lock that this holder has. Its name is the lock's absolute path, with the connect string's chroot.
    /// So all sessions agree on the name, and each of several [locks by key](zklock::Locks) has a fence of its own.
    pub fn of(holder: &impl OneLock) -> Self {
        Self::new(holder.absolute_path())
    }

    /// The fence with this name. Two locks must not share a name: tokens of different locks say nothing about each other, so
    /// the fence would refuse the holder of one lock because of the holder of the other.
    pub fn new(name: impl Into<String>) -> Self {
        Self { names: BTreeSet::from([name.into()]) }
    }

    /// Adds a fence. A transaction then begins only if all of them admit its holder: for the holder of several locks.
    #[must_use]
    pub fn and(mut self, name: impl Into<String>) -> Self {
        self.names.insert(name.into());
        self
    }

    /// Begins a transaction of the holder. It waits while another transaction of this fence is open: as long as the database
    /// lets it, which is `lock_timeout` in Postgres (no limit by default), and `busy_timeout` in SQLite (5 s by sqlx's default).
    ///
    /// It costs one statement more than sqlx's `begin`. A token's first transaction also costs one committed transaction.
    ///
    /// # Errors
    ///
    /// * [`FenceError::Stale`] if a holder with a higher token has been here.
    /// * [`FenceError::Lost`] if the guard is lost.
    /// * [`FenceError::NameTooLong`] if the database cannot keep a fence of that name.
    /// * [`FenceError::Database`] else. Ask [`is_retryable`](FenceError::is_retryable). It is sqlx's `RowNotFound` if the row was
    ///   written and is not there: somebody deletes it again and again, or a policy hides it from the role.
    ///
    /// # Cancel safety
    ///
    /// As safe as sqlx's `begin`. The fence may have admitted the token, or not; begin again.
    pub async fn begin<'g, DB: FenceDatabase>(
        &self,
        pool: &Pool<DB>,
        holder: impl Into<Holder<'g>>,
    ) -> Result<FencedTransaction<'g, DB>, FenceError> {
        let holder = holder.into();
        let longest = DB::LONGEST_NAME;
        if let Some(name) = self.names.iter().find(|name| name.len() > longest) {
            return Err(FenceError::NameTooLong { length: name.len(), longest });
        }
        // The second round finds the token that the first one has committed, or a higher one. A row that others make at the same
        // time costs one more.
        for _ in 0..ROUNDS {
            holder.check()?;
            let mut transaction = pool.begin().await?;
            if self.admit::<DB>(&mut transaction, &holder).await? {
                return Ok(FencedTransaction::new(transaction, holder));
            }
            transaction.commit().await?;
        }
        Err(FenceError::Database(sqlx::Error::RowNotFound))
    }

    /// Has the database refuse all earlier holders from now on, without a transaction. For a holder that acts elsewhere by what
    /// it reads, before its first transaction.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    ///
    /// # Cancel safety
    ///
    /// As [`begin`](Self::begin).
    pub async fn claim<'g, DB: FenceDatabase>(
        &self,
        pool: &Pool<DB>,
        holder: impl Into<Holder<'g>>,
    ) -> Result<(), FenceError> {
        self.begin(pool, holder).await?.rollback().await
    }

    /// Locks the rows, and admits the holder or refuses it. Returns false if a row has changed by that, so that the
    /// transaction must be committed before anything rests on it.
    async fn admit<DB: FenceDatabase>(
        &self,
        connection: &mut DB::Connection,
        holder: &Holder<'_>,
    ) -> Result<bool, FenceError> {
        let mut unchanged = true;
        for name in &self.names {
            let row = DB::lock(connection, name).await?;
            let marks = row.unwrap_or(Marks::NONE);
            let admitted =
                marks.admit(holder).map_err(|stale| FenceError::Stale { fence: name.clone(), stale })?;
            match row {
                // Not locked: another transaction may make it first. Then the next round judges by that row.
                None => DB::write(connection, INSERT, name, admitted).await?,
                Some(_) if admitted != marks => DB::write(connection, UPDATE, name, admitted).await?,
                Some(_) => continue,
            }
            unchanged = false;
        }
        Ok(unchanged)
    }
}
