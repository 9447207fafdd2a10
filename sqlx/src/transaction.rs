//! The [`FencedTransaction`].

use std::fmt;
use std::ops::{Deref, DerefMut};

use sqlx::{Database, Transaction};
use zklock::FencingToken;

use crate::error::FenceError;
use crate::holder::Holder;

/// A database transaction of a lock's holder, begun by [`Fence::begin`](crate::Fence::begin) and by nothing else. Let the
/// functions that write take a `&mut FencedTransaction`: then none of them can be called without the lock's token.
///
/// It dereferences to the connection, so it is used as sqlx's own [`Transaction`] is: `query.execute(&mut *transaction)`, and
/// `transaction.begin()` for a savepoint. Dropping it rolls back, once the connection is used again or is back in the pool.
///
/// Until it ends, the fence's rows are locked, and no other transaction of the same fence begins. Do not send `COMMIT` or
/// `ROLLBACK` as statements of your own: what follows them is not fenced.
#[must_use = "the transaction is rolled back as soon as it is dropped"]
pub struct FencedTransaction<'g, DB: Database> {
    transaction: Transaction<'static, DB>,
    holder: Holder<'g>,
}

impl<'g, DB: Database> FencedTransaction<'g, DB> {
    pub(crate) fn new(transaction: Transaction<'static, DB>, holder: Holder<'g>) -> Self {
        Self { transaction, holder }
    }

    /// Returns the token of the holder.
    pub fn token(&self) -> FencingToken {
        self.holder.token()
    }

    /// Returns sqlx's transaction, for functions that take it. Do not put another one in its place.
    pub fn as_transaction(&mut self) -> &mut Transaction<'static, DB> {
        &mut self.transaction
    }

    /// Commits. If the transaction began with a guard, it first asks the guard. That is no more than an early answer: the
    /// fence is what refuses a late holder.
    ///
    /// As with sqlx's own: if a statement failed and you went on all the same, Postgres rolls back, and the call returns `Ok`.
    ///
    /// # Errors
    ///
    /// [`FenceError::Lost`] if the guard is lost; the transaction is rolled back. [`FenceError::Database`] if the database did
    /// not confirm the commit.
    ///
    /// # Cancel safety
    ///
    /// Not safe: if the future is dropped, the transaction may have been committed.
    pub async fn commit(self) -> Result<(), FenceError> {
        self.holder.check()?;
        Ok(self.transaction.commit().await?)
    }

    /// Rolls back. The fence keeps the token: earlier holders stay refused.
    ///
    /// # Errors
    ///
    /// [`FenceError::Database`] if the database did not confirm it. It rolls back all the same, at the latest when the
    /// connection ends.
    pub async fn rollback(self) -> Result<(), FenceError> {
        Ok(self.transaction.rollback().await?)
    }
}

impl<DB: Database> Deref for FencedTransaction<'_, DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.transaction
    }
}

impl<DB: Database> DerefMut for FencedTransaction<'_, DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.transaction
    }
}

impl<DB: Database> fmt::Debug for FencedTransaction<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedTransaction").field("holder", &self.holder).finish_non_exhaustive()
    }
}
