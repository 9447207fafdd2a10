//! A session's advisory lock of PostgreSQL, which a blocking call acquires.

use anyhow::ensure;
use tokio_postgres::{Client, NoTls, Statement};

use super::contract::{Lock, Place};

pub(super) struct Postgres {
    client: Client,
    key: i64,
    lock: Statement,
    unlock: Statement,
}

impl Lock for Postgres {
    async fn connect(place: &Place, server: &str) -> anyhow::Result<Self> {
        let url = format!("postgres://postgres@{}/postgres", server);
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        let key = client.query_one("SELECT hashtextextended($1, 0)", &[&place.path]).await?.try_get(0)?;
        let lock = client.prepare("SELECT pg_advisory_lock($1)").await?;
        let unlock = client.prepare("SELECT pg_advisory_unlock($1)").await?;
        Ok(Self { client, key, lock, unlock })
    }

    async fn acquire(&mut self) -> anyhow::Result<()> {
        self.client.execute(&self.lock, &[&self.key]).await?;
        Ok(())
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let unlocked: bool = self.client.query_one(&self.unlock, &[&self.key]).await?.try_get(0)?;
        ensure!(unlocked, "the lock was not held");
        Ok(())
    }
}
