//! What the tests do with either database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Executor, PgPool, Pool, Postgres, Sqlite};
use tempfile::TempDir;
use zklock::FencingToken;
use zklock_sqlx::{FenceDatabase, migrate};

use crate::postgres::Server;

/// The statement that the README gives to those who do not use this crate.
pub(crate) const BY_HAND: &str = "\
INSERT INTO zklock_fences (name, zxid, turn) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET zxid = excluded.zxid, turn = excluded.turn
WHERE (excluded.zxid, excluded.turn) >= (zklock_fences.zxid, zklock_fences.turn)
  AND (excluded.zxid, excluded.turn) >= (zklock_fences.shared_zxid, zklock_fences.shared_turn)";

/// Writes the token, whatever is there.
pub(crate) const BLINDLY: &str = "\
INSERT INTO zklock_fences (name, zxid, turn) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET zxid = $2, turn = $3";

/// Writes the token behind the others in the ledger.
pub(crate) const WRITE: &str = "\
INSERT INTO ledger VALUES ($1, CAST($2 AS TEXT) || '.' || CAST($3 AS TEXT) || ' ')
ON CONFLICT (name) DO UPDATE SET entries = ledger.entries || excluded.entries";

/// A database with the fences' table and a ledger, which is what the lock protects.
pub(crate) trait Place: Send + Sync + 'static {
    type DB: FenceDatabase;

    /// Opens a connection for one contender. `busy` counts how often the database was busy.
    fn connect(&self) -> impl Future<Output = Link<Self::DB>> + Send;

    /// Whether a call that this contender has under way waits for another transaction. It was busy so often when the others had
    /// done what they have done.
    fn is_waiting(&self, link: &Link<Self::DB>, busy: u32) -> impl Future<Output = bool> + Send;

    /// Has a call fail at once where the database would make it wait, or not.
    fn set_patient(
        connection: &mut <Self::DB as sqlx::Database>::Connection,
        patient: bool,
    ) -> impl Future<Output = ()> + Send;

    /// The highest token, as one who only looks sees it.
    fn highest(
        connection: &mut <Self::DB as sqlx::Database>::Connection,
        name: &str,
    ) -> impl Future<Output = sqlx::Result<Option<FencingToken>>> + Send;

    /// Executes a statement with the name of a fence and the two numbers of a token. Returns how many rows it has written.
    fn execute(
        connection: &mut <Self::DB as sqlx::Database>::Connection,
        sql: &'static str,
        name: &str,
        token: FencingToken,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    fn entries(&self, name: &str) -> impl Future<Output = Vec<FencingToken>> + Send;
}

/// A contender's connection.
pub(crate) struct Link<DB: sqlx::Database> {
    pub(crate) pool: Pool<DB>,
    /// Postgres's number of the connection.
    process: i32,
    /// How often SQLite was busy.
    pub(crate) busy: Arc<AtomicU32>,
}

impl<DB: sqlx::Database> Clone for Link<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), process: self.process, busy: self.busy.clone() }
    }
}

const LEDGER: &str = "CREATE TABLE ledger (name TEXT PRIMARY KEY, entries TEXT NOT NULL)";

macro_rules! statements {
    ($connection:ty) => {
        async fn highest(connection: &mut $connection, name: &str) -> sqlx::Result<Option<FencingToken>> {
            let sql = "SELECT zxid, turn FROM zklock_fences WHERE name = $1";
            let row: Option<(i64, i64)> = sqlx::query_as(sql).bind(name).fetch_optional(connection).await?;
            Ok(row.map(|(zxid, turn)| FencingToken::of_turn(zxid, turn.try_into().expect("a turn"))))
        }

        async fn execute(
            connection: &mut $connection,
            sql: &'static str,
            name: &str,
            token: FencingToken,
        ) -> sqlx::Result<u64> {
            let query = sqlx::query(sql).bind(name).bind(token.zxid()).bind(i64::from(token.turn()));
            Ok(query.execute(connection).await?.rows_affected())
        }

        async fn entries(&self, name: &str) -> Vec<FencingToken> {
            let sql = "SELECT entries FROM ledger WHERE name = $1";
            let query = sqlx::query_scalar(sql).bind(name);
            let text: Option<String> = query.fetch_optional(&self.observer).await.expect("the ledger");
            let text = text.unwrap_or_default();
            text.split_whitespace().map(|entry| entry.parse().expect("a token")).collect()
        }
    };
}

/// Postgres, whose transactions have this isolation.
pub(crate) struct InPostgres {
    pub(crate) server: Server,
    pub(crate) observer: PgPool,
    pub(crate) isolation: &'static str,
}

impl InPostgres {
    pub(crate) async fn start(isolation: &'static str) -> Self {
        let server = Server::start().await;
        let observer = server.pool(2, &[]);
        migrate(&observer).await.expect("the table");
        observer.execute(LEDGER).await.expect("a table");
        Self { server, observer, isolation }
    }
}

impl Place for InPostgres {
    type DB = Postgres;

    async fn connect(&self) -> Link<Postgres> {
        let pool = self.server.pool(1, &[("default_transaction_isolation", self.isolation)]);
        let process = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&pool).await.expect("a number");
        Link { pool, process, busy: Arc::default() }
    }

    async fn is_waiting(&self, link: &Link<Postgres>, _: u32) -> bool {
        let sql = "SELECT cardinality(pg_blocking_pids($1)) > 0";
        sqlx::query_scalar(sql).bind(link.process).fetch_one(&self.observer).await.expect("an answer")
    }

    async fn set_patient(_: &mut sqlx::PgConnection, _: bool) {}

    statements!(sqlx::PgConnection);
}

/// SQLite, in a file of its own.
pub(crate) struct InSqlite {
    directory: TempDir,
    journal: SqliteJournalMode,
    observer: sqlx::SqlitePool,
}

impl InSqlite {
    pub(crate) async fn create(journal: SqliteJournalMode) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let observer = Self::open(&directory, journal);
        migrate(&observer).await.expect("the table");
        observer.execute(LEDGER).await.expect("a table");
        Self { directory, journal, observer }
    }

    fn open(directory: &TempDir, journal: SqliteJournalMode) -> sqlx::SqlitePool {
        let file = directory.path().join("database.sqlite");
        let options =
            SqliteConnectOptions::new().filename(file).create_if_missing(true).journal_mode(journal);
        let options = options.synchronous(sqlx::sqlite::SqliteSynchronous::Off);
        SqlitePoolOptions::new().max_connections(1).connect_lazy_with(options)
    }
}

impl Place for InSqlite {
    type DB = Sqlite;

    async fn connect(&self) -> Link<Sqlite> {
        let pool = Self::open(&self.directory, self.journal);
        Link { pool, process: 0, busy: Arc::default() }
    }

    async fn is_waiting(&self, link: &Link<Sqlite>, busy: u32) -> bool {
        tokio::time::sleep(Duration::from_millis(1)).await;
        // The first refusal may be of an attempt that is older.
        link.busy.load(Ordering::Relaxed) >= busy + 2
    }

    async fn set_patient(connection: &mut sqlx::SqliteConnection, patient: bool) {
        let sql = if patient { "PRAGMA busy_timeout = 60000" } else { "PRAGMA busy_timeout = 0" };
        connection.execute(sql).await.expect("the setting");
    }

    statements!(sqlx::SqliteConnection);
}
