//! The store: SQLite, which keeps the highest token of each lock beside the data.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use zklock::FencingToken;

/// How long a writer waits for another one's transaction.
const PATIENCE: Duration = Duration::from_secs(10);

/// A store of one note under one lock. Each process opens the file for itself.
pub(crate) struct Store {
    connection: Connection,
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
    pub(crate) fn open(file: &Path, lock: &str) -> rusqlite::Result<Self> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(PATIENCE)?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS fences (lock TEXT PRIMARY KEY, zxid INTEGER NOT NULL, turn INTEGER NOT NULL);
             CREATE TABLE IF NOT EXISTS notes (lock TEXT PRIMARY KEY, text TEXT NOT NULL);",
        )?;
        Ok(Self { connection, lock: lock.to_owned() })
    }

    /// Writes the note, if the store has not seen a higher token. The comparison and the write are one transaction, so
    /// no other writer comes between them. The transaction also saves the token, so the rule still holds after a
    /// restart. Only a lock of `zklock::Locks` has turns other than 0; for the others `zxid` alone would do.
    pub(crate) fn write(&mut self, token: FencingToken, text: &str) -> rusqlite::Result<Written> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let admitted = transaction.execute(
            "INSERT INTO fences (lock, zxid, turn) VALUES (?1, ?2, ?3)
             ON CONFLICT (lock) DO UPDATE SET zxid = excluded.zxid, turn = excluded.turn
             WHERE (excluded.zxid, excluded.turn) >= (zxid, turn)",
            params![self.lock, token.zxid(), token.turn()],
        )?;
        if admitted == 0 {
            let sql = "SELECT zxid, turn FROM fences WHERE lock = ?1";
            let highest = transaction
                .query_row(sql, [&self.lock], |row| Ok(FencingToken::of_turn(row.get(0)?, row.get(1)?)))?;
            return Ok(Written::Refused { highest });
        }
        transaction.execute(
            "INSERT INTO notes (lock, text) VALUES (?1, ?2)
             ON CONFLICT (lock) DO UPDATE SET text = excluded.text",
            params![self.lock, text],
        )?;
        transaction.commit()?;
        Ok(Written::Yes)
    }

    /// Returns the note, if the store has one.
    pub(crate) fn read(&self) -> rusqlite::Result<Option<String>> {
        let sql = "SELECT text FROM notes WHERE lock = ?1";
        self.connection.query_row(sql, [&self.lock], |row| row.get(0)).optional()
    }
}
