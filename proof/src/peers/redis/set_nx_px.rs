//! `SET key uuid NX PX ttl`, and a script that deletes the key only if it still has the holder's value.
//!
//! From the page of `SET` in the Redis documentation ("Patterns"), since Redis 2.6.12; the building block of most locks on
//! Redis, Redlock included, which besides subtracts the time that acquiring took from the TTL; the recipe does not.
//!
//! Weak spot: the lock ends when its time is over, whatever its holder does, and nothing tells the holder: not when the
//! reply was late, not when it was stopped, not when its work took longer. It finds out when it releases.

use anyhow::ensure;
use uuid::Uuid;

use super::client::{POLL, Redis};
use crate::peers::contract::{Lock, Place};

const DELETE_OWN: &str = "
    if redis.call('get', KEYS[1]) == ARGV[1] then
        return redis.call('del', KEYS[1])
    end
    return 0";

/// `SET NX PX`, by polling.
pub(crate) struct SetNxPx {
    redis: Redis,
    /// Nobody else's value.
    value: String,
}

impl Lock for SetNxPx {
    async fn connect(place: &Place) -> anyhow::Result<Self> {
        let redis = Redis::connect(place, None).await?;
        Ok(Self { redis, value: Uuid::new_v4().to_string() })
    }

    async fn acquire(&mut self) -> anyhow::Result<()> {
        loop {
            let mut set = redis::cmd("SET");
            set.arg(&self.redis.key).arg(&self.value).arg("NX").arg("PX").arg(self.redis.ttl());
            let reply: Option<String> = set.query_async(&mut self.redis.connection).await?;
            if reply.is_some() {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let deleted: i64 = self.redis.eval(DELETE_OWN, &[], &[&self.value]).await?;
        ensure!(deleted != 0, "the key has expired, or is another's");
        Ok(())
    }
}
