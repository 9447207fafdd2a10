//! The store: SQLite, which keeps the highest token of the lock beside the data. `zklock-sqlx` compares.

use std::path::Path;
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;
use zklock::FencingToken;
use zklock::fence::StaleToken;
use zklock_sqlx::{Fence, FenceError};

/// How long a writer waits for another one's transaction.
const PATIENCE: Duration = Duration::from_secs(10);

/// A store of one note under one lock. Each process opens the file for itself.
pub(crate) struct Store {
    pool: SqlitePool,
    lock: String,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    /// The store refused the write, because it has seen this higher token.
    Refused {
        highest: FencingToken,
    },
}

impl Store {
    pub(crate) async fn open(file: &Path, lock: &str) -> Result<Self, FenceError> {
        let options =
            SqliteConnectOptions::new().filename(file).create_if_missing(true).busy_timeout(PATIENCE);
        let pool = SqlitePool::connect_with(options).await?;
        zklock_sqlx::migrate(&pool).await?;
        sqlx::query("CREATE TABLE IF NOT EXISTS notes (lock TEXT PRIMARY KEY, text TEXT NOT NULL)")
            .execute(&pool)
            .await?;
        Ok(Self { pool, lock: lock.to_owned() })
    }

    /// Writes the note, if the store has not seen a higher token. The token alone decides, as in a service that the
    /// holder calls: a guard that is lost would refuse before the store does.
    pub(crate) async fn write(&self, token: FencingToken, text: &str) -> Result<Written, FenceError> {
        let mut transaction = match Fence::new(&self.lock).begin(&self.pool, token).await {
            Err(FenceError::Stale { stale: StaleToken { highest, .. }, .. }) => {
                return Ok(Written::Refused { highest });
            }
            begun => begun?,
        };
        sqlx::query(
            "INSERT INTO notes (lock, text) VALUES ($1, $2) ON CONFLICT (lock) DO UPDATE SET text = $2",
        )
        .bind(&self.lock)
        .bind(text)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(Written::Yes)
    }

    /// Returns the note, if the store has one.
    pub(crate) async fn read(&self) -> Result<Option<String>, FenceError> {
        let sql = "SELECT text FROM notes WHERE lock = $1";
        Ok(sqlx::query_scalar(sql).bind(&self.lock).fetch_optional(&self.pool).await?)
    }
}
