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
pub(crate) struct SetnxExpire(Redis);

impl Lock for SetnxExpire {
    async fn connect(place: &Place, server: &str) -> anyhow::Result<Self> {
        Ok(Self(Redis::connect(place, server, None).await?))
    }

    async fn acquire(&mut self) -> anyhow::Result<()> {
        while !self.0.call::<bool>("SETNX", &["locked"]).await? {
            tokio::time::sleep(POLL).await;
        }
        let lasts = self.0.lasts.clone();
        Ok(self.0.call("PEXPIRE", &[&lasts]).await?)
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let deleted: bool = self.0.call("DEL", &[]).await?;
        ensure!(deleted, "there was no key");
        Ok(())
    }
}
