//! Spring Integration's `RedisLockRegistry`, as it is by default: a `SPIN_LOCK`, 60 s, not renewed.
//!
//! From `org.springframework.integration.redis.util.RedisLockRegistry`, versions 5 to 7. Threads of one process first contend
//! for a local lock. (A process has one thread that locks here, so nobody does.) Its owner obtains the key by a script, every 100 ms
//! until it has it. The value is the registry's, so the script extends what its own registry holds. Recent versions renew if they are
//! given a task scheduler; by default none is. There is also `PUB_SUB_LOCK`, which waits for a message instead of polling.
//!
//! Commands are answered within Lettuce's default of 60 s, or fail, so a reply that is later than the TTL makes no holder. One
//! that takes nearly as long leaves it nearly no time.
//!
//! Weak spot: the holder is told that its lock has expired when it unlocks: by an exception which says that the integrity of
//! the data may have been compromised. So it may.

use anyhow::ensure;

use super::client::{POLL, Redis};
use crate::peers::contract::{Lock, Place};

const OBTAIN: &str = "
    local owner = redis.call('GET', KEYS[1])
    if owner == ARGV[1] then
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return 1
    elseif not owner then
        redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
        return 1
    end
    return 0";

const UNLINK_OWN: &str = "
    if redis.call('GET', KEYS[1]) == ARGV[1] then
        redis.call('UNLINK', KEYS[1])
        return 1
    end
    return 0";

/// Spring Integration's `RedisLockRegistry`.
pub(crate) struct Spring {
    /// Its id is the registry's.
    redis: Redis,
    /// Whether this thread has passed the local stage, and obtained the key.
    held: bool,
}

impl Lock for Spring {
    async fn connect(place: &Place, server: &str) -> anyhow::Result<Self> {
        // Lettuce's reply, which Spring Data uses by default, may take 60 s: as long as the registry's TTL.
        Ok(Self { redis: Redis::connect(place, server, Some(place.timeout)).await?, held: false })
    }

    async fn acquire(&mut self) -> anyhow::Result<()> {
        let Redis { id, lasts, .. } = self.redis.clone();
        while !self.redis.eval::<bool>(OBTAIN, &[], &[&id, &lasts]).await? {
            tokio::time::sleep(POLL).await;
        }
        self.held = true;
        Ok(())
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        ensure!(std::mem::take(&mut self.held), "You do not own lock at {}", self.redis.key);
        let id = self.redis.id.clone();
        let unlinked: bool = self.redis.eval(UNLINK_OWN, &[], &[&id]).await?;
        ensure!(
            unlinked,
            "Lock was released in the store due to expiration. The integrity of data protected by this lock may have been compromised."
        );
        Ok(())
    }
}
