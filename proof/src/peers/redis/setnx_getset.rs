//! `SETNX key timestamp`, and `GETSET` once the timestamp has passed: it says when the lock expires, by the clock of whoever
//! took it.
//!
//! From the page of `SETNX` in the Redis documentation ("Design pattern: Locking with SETNX", "Handling deadlocks"), which
//! advises against it by now. The key never expires by itself. Of those who find it expired, the one to whom `GETSET`
//! answers an expired timestamp has it; the others have written theirs over it, which prolongs the lock a little. As
//! that page asks, a holder compares its clock before it deletes the key, and leaves it alone if its time is over.
//!
//! Weak spots: it is as good as the clocks agree; the comparison and the `DEL` are two steps; and the lock ends in the
//! middle of the work, as all locks with a TTL do.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};

use super::client::{POLL, Redis};
use crate::peers::contract::{Lock, Place};

/// `SETNX`, then `GETSET`.
pub(crate) struct SetnxGetset {
    redis: Redis,
    /// When the lock that this process took expires, by its own clock.
    expires: Option<i64>,
}

impl SetnxGetset {
    /// When a lock that is taken now expires.
    fn expiry(&self) -> i64 {
        now().saturating_add_unsigned(self.redis.ttl()).saturating_add(1)
    }

    /// When the lock expires, if this process took it just now.
    async fn take(&mut self) -> redis::RedisResult<Option<i64>> {
        let (key, connection) = (self.redis.key.clone(), &mut self.redis.connection.clone());
        let expires = self.expiry();
        if redis::cmd("SETNX").arg(&key).arg(expires).query_async(connection).await? {
            return Ok(Some(expires));
        }
        let found: Option<i64> = redis::cmd("GET").arg(&key).query_async(connection).await?;
        // If it was deleted meanwhile, the next attempt is a `SETNX` again.
        let Some(found) = found else { return Ok(None) };
        if found >= now() {
            return Ok(None);
        }
        let expires = self.expiry();
        let old: Option<i64> = redis::cmd("GETSET").arg(&key).arg(expires).query_async(connection).await?;
        Ok(old.is_none_or(|old| old < now()).then_some(expires))
    }
}

impl Lock for SetnxGetset {
    async fn connect(place: &Place) -> anyhow::Result<Self> {
        Ok(Self { redis: Redis::connect(place, None).await?, expires: None })
    }

    async fn acquire(&mut self) -> anyhow::Result<()> {
        loop {
            if let Some(expires) = self.take().await? {
                self.expires = Some(expires);
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let expires = self.expires.take().context("it was not acquired")?;
        ensure!(now() < expires, "its time is over");
        Ok(redis::cmd("DEL").arg(&self.redis.key).query_async(&mut self.redis.connection).await?)
    }
}

/// Milliseconds since 1970, by this machine's wall clock.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(i64::MAX)
}
