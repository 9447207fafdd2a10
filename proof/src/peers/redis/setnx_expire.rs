//! `SETNX`, then `EXPIRE`; released by `DEL`.
//!
//! From countless articles and code bases of the time before `SET` had options, and since. (Here it is `PEXPIRE`, because the
//! TTL of the run is given in milliseconds.)
//!
//! Weak spots: a client that crashes between the two commands leaves a key without an end. The key has no owner, so any
//! client that deletes it takes the lock from its holder. It also ends in the middle of the work, as all locks with a TTL do.

use anyhow::ensure;

use super::client::{POLL, Redis};
use crate::peers::contract::{Lock, Place};

/// `SETNX`, then `EXPIRE`.
pub(crate) struct SetnxExpire {
    redis: Redis,
}

impl Lock for SetnxExpire {
    async fn connect(place: &Place) -> anyhow::Result<Self> {
        Ok(Self { redis: Redis::connect(place, None).await? })
    }

    async fn acquire(&mut self) -> anyhow::Result<()> {
        loop {
            let mut setnx = redis::cmd("SETNX");
            setnx.arg(&self.redis.key).arg("locked");
            let set: bool = setnx.query_async(&mut self.redis.connection).await?;
            if set {
                let mut expire = redis::cmd("PEXPIRE");
                expire.arg(&self.redis.key).arg(self.redis.ttl());
                let () = expire.query_async(&mut self.redis.connection).await?;
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let deleted: i64 =
            redis::cmd("DEL").arg(&self.redis.key).query_async(&mut self.redis.connection).await?;
        ensure!(deleted != 0, "there was no key");
        Ok(())
    }
}
