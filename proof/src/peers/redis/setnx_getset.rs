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

use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
        now().saturating_add(as_milliseconds(self.redis.ttl)).saturating_add(1)
    }

    /// When the lock expires, if this process took it just now.
    async fn take(&mut self) -> redis::RedisResult<Option<i64>> {
        let expires = self.expiry();
        if self.redis.call("SETNX", &[&expires.to_string()]).await? {
            return Ok(Some(expires));
        }
        // If it was deleted meanwhile, the next attempt is a `SETNX` again.
        let Some(found) = self.redis.call::<Option<i64>>("GET", &[]).await? else { return Ok(None) };
        if found >= now() {
            return Ok(None);
        }
        let expires = self.expiry();
        let old: Option<i64> = self.redis.call("GETSET", &[&expires.to_string()]).await?;
        Ok(old.is_none_or(|old| old < now()).then_some(expires))
    }
}

impl Lock for SetnxGetset {
    async fn connect(place: &Place, server: &str) -> anyhow::Result<Self> {
        Ok(Self { redis: Redis::connect(place, server, None).await?, expires: None })
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
        Ok(self.redis.call("DEL", &[]).await?)
    }
}

/// Milliseconds since 1970, by this machine's wall clock.
fn now() -> i64 {
    as_milliseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn as_milliseconds(time: Duration) -> i64 {
    time.as_millis().try_into().unwrap_or(i64::MAX)
}
