//! zklock. The guard is asked as its users ask it; the token goes with the writes if the register compares tokens.

use std::time::Duration;

use anyhow::Context;
use zklock::{FencingToken, Guard, Session};

use super::contract::{CONNECT, Failure, Lock};

/// zklock, beside the others.
pub struct Zklock {
    lock: zklock::Lock,
    guard: Option<Guard>,
}

/// The servers' tick.
pub const TICK: Duration = Duration::from_millis(500);

impl Lock for Zklock {
    async fn connect(servers: &str, path: &str, ttl: Duration) -> anyhow::Result<Self> {
        let builder = Session::builder(servers).session_timeout(ttl).tick(TICK).connect_timeout(CONNECT);
        let session = builder.connect().await.context("cannot connect to ZooKeeper")?;
        Ok(Self { lock: session.lock(path)?, guard: None })
    }

    async fn acquire(&mut self) -> Result<Option<FencingToken>, Failure> {
        let guard = self.lock.acquire().await?;
        let token = guard.token();
        self.guard = Some(guard);
        Ok(Some(token))
    }

    async fn release(&mut self) -> Result<(), Failure> {
        match self.guard.take() {
            Some(guard) => Ok(guard.release().await?),
            None => Err(Failure::NotHeld("only a guard can be released, and there is none".into())),
        }
    }

    fn check(&self) -> Option<bool> {
        self.guard.as_ref().map(Guard::is_held)
    }

    async fn inquire(&mut self) -> Result<Option<bool>, Failure> {
        match &self.guard {
            Some(guard) => Ok(Some(guard.verify().await.is_ok())),
            None => Ok(None),
        }
    }
}
