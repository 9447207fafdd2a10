//! The statements on a fence's row, in each database.

use sqlx::{Executor, Pool};

use crate::error::FenceError;
use crate::marks::Marks;

/// A database that can keep fences: `sqlx::Postgres` with the feature `postgres`, `sqlx::Sqlite` with the feature `sqlite`.
/// Nothing else can implement it.
pub trait FenceDatabase: sealed::Rows {}

/// Creates the table of the fences, `zklock_fences`, if it is not there. Any number of programs may call it at once.
///
/// The role needs the right to create tables. If yours has it only while you migrate, copy the file for your database from
/// `migrations/` into your own migrations instead, and do not call this.
///
/// # Errors
///
/// [`FenceError::Database`].
pub async fn migrate<DB: FenceDatabase>(pool: &Pool<DB>) -> Result<(), FenceError> {
    let mut transaction = pool.begin().await?;
    DB::create(&mut transaction).await?;
    Ok(transaction.commit().await?)
}

pub(crate) mod sealed {
    use super::Marks;

    /// What a fence does in a transaction.
    pub trait Rows: sqlx::Database {
        /// The longest name of a fence, in bytes: an index has to have it.
        const LONGEST_NAME: usize;

        fn create(connection: &mut Self::Connection) -> impl Future<Output = sqlx::Result<()>> + Send;

        /// Locks the row until the transaction's end, and then reads it. `None` if there is no such row, and so no lock.
        fn lock(
            connection: &mut Self::Connection,
            name: &str,
        ) -> impl Future<Output = sqlx::Result<Option<Marks>>> + Send;

        /// Writes the row with this name, by [`INSERT`](super::INSERT) or [`UPDATE`](super::UPDATE).
        fn write(
            connection: &mut Self::Connection,
            statement: &'static str,
            name: &str,
            marks: Marks,
        ) -> impl Future<Output = sqlx::Result<()>> + Send;
    }
}

/// Makes a row. If there is one by now, it stays as it is.
pub(crate) const INSERT: &str = "INSERT INTO zklock_fences (name, zxid, turn, shared_zxid, shared_turn) \
                                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO NOTHING";

/// Changes a row that is [locked](sealed::Rows::lock).
pub(crate) const UPDATE: &str =
    "UPDATE zklock_fences SET zxid = $2, turn = $3, shared_zxid = $4, shared_turn = $5 WHERE name = $1";

#[cfg(any(feature = "postgres", feature = "sqlite"))]
macro_rules! rows {
    ($database:ty, $connection:ty, $longest:expr, $migration:literal, $lock:literal) => {
        impl FenceDatabase for $database {}

        impl sealed::Rows for $database {
            const LONGEST_NAME: usize = $longest;

            async fn create(connection: &mut $connection) -> sqlx::Result<()> {
                connection.execute(include_str!($migration)).await?;
                Ok(())
            }

            async fn lock(connection: &mut $connection, name: &str) -> sqlx::Result<Option<Marks>> {
                let row = sqlx::query_as($lock).bind(name).fetch_optional(connection).await?;
                row.map(Marks::from_columns).transpose()
            }

            async fn write(
                connection: &mut $connection,
                statement: &'static str,
                name: &str,
                marks: Marks,
            ) -> sqlx::Result<()> {
                let (zxid, turn, shared_zxid, shared_turn) = marks.columns();
                let query = sqlx::query(statement).bind(name).bind(zxid).bind(turn);
                query.bind(shared_zxid).bind(shared_turn).execute(connection).await?;
                Ok(())
            }
        }
    };
}

// An entry of a B-tree of Postgres has 2,704 bytes at most.
// A SELECT .. FOR UPDATE that had to wait returns the row as the other transaction has left it (READ COMMITTED), or fails
// with 40001 if that transaction changed it (REPEATABLE READ, SERIALIZABLE). It never returns what was before.
#[cfg(feature = "postgres")]
rows!(
    sqlx::Postgres,
    sqlx::PgConnection,
    2600,
    "../migrations/postgres.sql",
    "SELECT zxid, turn, shared_zxid, shared_turn FROM zklock_fences WHERE name = $1 FOR UPDATE"
);

// An UPDATE takes the write lock of the whole file before it looks for rows, also if it finds none. As the transaction's
// first statement it does what BEGIN IMMEDIATE does. sqlx's `begin_with` is not used: a caller that drops it midway can
// leave its connection with that lock.
#[cfg(feature = "sqlite")]
rows!(
    sqlx::Sqlite,
    sqlx::SqliteConnection,
    usize::MAX,
    "../migrations/sqlite.sql",
    "UPDATE zklock_fences SET zxid = zxid WHERE name = $1 RETURNING zxid, turn, shared_zxid, shared_turn"
);
