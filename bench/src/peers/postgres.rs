//! A session's advisory lock of PostgreSQL, which a blocking call acquires.

use anyhow::ensure;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_postgres::{NoTls, Statement};

use super::client::{Client, Held};

pub(super) struct Postgres {
    client: tokio_postgres::Client,
    key: i64,
    lock: Statement,
    unlock: Statement,
}

impl Postgres {
    pub(super) async fn connect(address: &str, name: &str) -> anyhow::Result<Self> {
        let url = format!("postgres://postgres@{address}/postgres");
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        let key = client.query_one("SELECT hashtextextended($1, 0)", &[&name]).await?.try_get(0)?;
        let lock = client.prepare("SELECT pg_advisory_lock($1)").await?;
        let unlock = client.prepare("SELECT pg_advisory_unlock($1)").await?;
        Ok(Self { client, key, lock, unlock })
    }
}

impl Client for Postgres {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Held<'_>>> {
        async {
            self.client.execute(&self.lock, &[&self.key]).await?;
            Ok(Held::untold(async {
                let unlocked: bool = self.client.query_one(&self.unlock, &[&self.key]).await?.try_get(0)?;
                ensure!(unlocked, "the lock was not held");
                Ok(())
            }))
        }
        .boxed()
    }
}
