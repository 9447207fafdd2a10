//! `SETNX`, then `EXPIRE`; released by `DEL`.
//!
//! From countless articles and code bases of the time before `SET` had options, and since. (Here it is `PEXPIRE`, because the
//! TTL of the run is given in milliseconds.)
//!
//! Weak spots: a client that crashes between the two commands leaves a key without an end. The key has no owner, so any
//! client that deletes it takes the lock from its holder. It also ends in the middle of the work, as all locks with a TTL do.

use std::time::Duration;

use zklock::FencingToken;

use super::client::{POLL, Redis};
use super::contract::{Failure, Lock};

/// `SETNX`, then `EXPIRE`.
pub struct SetnxExpire {
    redis: Redis,
}

impl Lock for SetnxExpire {
    async fn connect(server: &str, key: &str, ttl: Duration) -> anyhow::Result<Self> {
        Ok(Self { redis: Redis::connect(server, key, ttl, None).await? })
    }

    async fn acquire(&mut self) -> Result<Option<FencingToken>, Failure> {
        loop {
            let mut setnx = redis::cmd("SETNX");
            setnx.arg(&self.redis.key).arg("locked");
            let set: bool = setnx.query_async(&mut self.redis.connection).await?;
            if set {
                let mut expire = redis::cmd("PEXPIRE");
                expire.arg(&self.redis.key).arg(self.redis.ttl());
                let () = expire.query_async(&mut self.redis.connection).await?;
                return Ok(None);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let deleted: i64 =
            redis::cmd("DEL").arg(&self.redis.key).query_async(&mut self.redis.connection).await?;
        match deleted {
            0 => Err(Failure::NotHeld("there was no key".into())),
            _ => Ok(()),
        }
    }
}
