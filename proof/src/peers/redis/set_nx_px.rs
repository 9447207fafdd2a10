//! `SET key uuid NX PX ttl`, and a script that deletes the key only if it still has the holder's value.
//!
//! From the page of `SET` in the Redis documentation ("Patterns"), since Redis 2.6.12; the building block of most locks on
//! Redis, Redlock included, which besides subtracts the time that acquiring took from the TTL; the recipe does not.
//!
//! Weak spot: the lock ends when its time is over, whatever its holder does, and nothing tells the holder: not when the
//! reply was late, not when it was stopped, not when its work took longer. It finds out when it releases.

use anyhow::ensure;

use super::client::{POLL, Redis};
use crate::peers::contract::{Lock, Place};

const DELETE_OWN: &str = "
    if redis.call('get', KEYS[1]) == ARGV[1] then
        return redis.call('del', KEYS[1])
    end
    return 0";

/// `SET NX PX`, by polling.
pub(crate) struct SetNxPx(Redis);

impl Lock for SetNxPx {
    async fn connect(place: &Place, server: &str) -> anyhow::Result<Self> {
        Ok(Self(Redis::connect(place, server, None).await?))
    }

    async fn acquire(&mut self) -> anyhow::Result<()> {
        let Redis { id, lasts, .. } = self.0.clone();
        while self.0.call::<Option<String>>("SET", &[&id, "NX", "PX", &lasts]).await?.is_none() {
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let id = self.0.id.clone();
        let deleted: bool = self.0.eval(DELETE_OWN, &[], &[&id]).await?;
        ensure!(deleted, "the key has expired, or is another's");
        Ok(())
    }
}
