//! Redisson's `RLock`, by `lock()` and `unlock()`: with the watchdog, which renews what is held.
//!
//! From `org.redisson.RedissonLock` and `org.redisson.renewal.LockTask`, versions 3.45 to 4. The key is a hash with one field,
//! `uuid:thread`, that counts re-entries. A loser is told the remaining TTL; it subscribes to the lock's channel and tries
//! again when something is published there or that time has passed. The watchdog renews every third of
//! `lockWatchdogTimeout` (30 s by default). Left out is what only matters to other uses: fixed lease times, replicas,
//! and the latch by which a repeated `unlock` is recognised.
//!
//! A command is answered within `timeout` (3 s by default), or fails; the script that acquires is not repeated.
//!
//! Weak spot: a holder whose renewals fail, or come too late because it was stopped, is not told. A renewal that finds the
//! lock gone ends the watchdog without a word: `LockRenewalFailureListener`, where there is one, hears only of renewals
//! that failed with an error. Who asks `isHeldByCurrentThread` is told, by a round trip; who does not is told by the
//! exception of `unlock`.

use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use redis::aio::PubSub;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::Redis;
use crate::peers::contract::{Lock, Place};

/// `nil` if it is acquired, else the remaining TTL.
const ACQUIRE: &str = "
    if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
        redis.call('hincrby', KEYS[1], ARGV[2], 1)
        redis.call('pexpire', KEYS[1], ARGV[1])
        return nil
    end
    return redis.call('pttl', KEYS[1])";

/// `nil` if it is not held by this owner, 0 if it is held still, 1 if it is free.
const UNLOCK: &str = "
    if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
        return nil
    end
    if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
        redis.call('pexpire', KEYS[1], ARGV[1])
        return 0
    end
    redis.call('del', KEYS[1])
    redis.call('publish', KEYS[2], 0)
    return 1";

const RENEW: &str = "
    if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
        redis.call('pexpire', KEYS[1], ARGV[1])
        return 1
    end
    return 0";

/// Redisson's `RLock`.
pub(crate) struct Redisson {
    redis: Redis,
    /// `uuid:thread`. A process has one thread that locks here.
    owner: String,
    channel: String,
    /// A connection for subscriptions, once one was needed. The original has a pool of them.
    subscription: Option<PubSub>,
    /// Ends when this is dropped.
    watchdog: JoinSet<()>,
}

impl Redisson {
    /// The remaining TTL of another's lock, negative if it has none; `None` if this process has it now.
    async fn try_acquire(&mut self) -> redis::RedisResult<Option<i64>> {
        let lasts = self.redis.lasts.clone();
        let remaining: Option<i64> = self.redis.eval(ACQUIRE, &[], &[&lasts, &self.owner]).await?;
        if remaining.is_none() {
            self.watchdog.spawn(watch(self.redis.clone(), self.owner.clone()));
        }
        Ok(remaining)
    }

    /// Tries again whenever something is published or the remaining time is over.
    async fn wait(&mut self, subscription: &mut PubSub) -> redis::RedisResult<()> {
        subscription.subscribe(&self.channel).await?;
        let mut unlocked = pin!(subscription.on_message());
        while let Some(remaining) = self.try_acquire().await? {
            match u64::try_from(remaining) {
                Ok(remaining) => {
                    let _ = timeout(Duration::from_millis(remaining), unlocked.next()).await;
                }
                Err(_) => {
                    unlocked.next().await;
                }
            }
        }
        Ok(())
    }
}

impl Lock for Redisson {
    async fn connect(place: &Place, server: &str) -> anyhow::Result<Self> {
        // A reply may take 3 s, of a TTL of 30 s.
        let redis = Redis::connect(place, server, Some(place.timeout / 10)).await?;
        let owner = format!("{}:1", redis.id);
        let channel = format!("redisson_lock__channel:{{{}}}", redis.key);
        Ok(Self { redis, owner, channel, subscription: None, watchdog: JoinSet::new() })
    }

    async fn acquire(&mut self) -> anyhow::Result<()> {
        if self.try_acquire().await?.is_none() {
            return Ok(());
        }
        let mut subscription = match self.subscription.take() {
            Some(subscription) => subscription,
            None => self.redis.client.get_async_pubsub().await?,
        };
        self.wait(&mut subscription).await?;
        subscription.unsubscribe(&self.channel).await?;
        self.subscription = Some(subscription);
        Ok(())
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let lasts = self.redis.lasts.clone();
        let unlocked = self.redis.eval::<Option<i64>>(UNLOCK, &[&self.channel], &[&lasts, &self.owner]).await;
        // Whatever came of it.
        self.watchdog.abort_all();
        let owner = &self.owner;
        unlocked?.with_context(|| {
            format!("attempt to unlock lock, not locked by current thread by node id: {owner}")
        })?;
        Ok(())
    }
}

/// Renews a lock until this finds it gone.
async fn watch(mut redis: Redis, owner: String) {
    let lasts = redis.lasts.clone();
    loop {
        tokio::time::sleep(redis.ttl / 3).await;
        // A renewal that failed is logged by the original, and the next one comes in its turn.
        if redis.eval(RENEW, &[], &[&lasts, &owner]).await.is_ok_and(|renewed: bool| !renewed) {
            return;
        }
    }
}
