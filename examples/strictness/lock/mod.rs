//! The locks: what their users call, as the originals have it.

mod redisson;
mod set_nx_px;
mod setnx_expire;
mod setnx_getset;
mod spring;
mod zookeeper;

use std::time::Duration;

pub(crate) use redisson::Redisson;
pub(crate) use set_nx_px::SetNxPx;
pub(crate) use setnx_expire::SetnxExpire;
pub(crate) use setnx_getset::SetnxGetset;
pub(crate) use spring::Spring;
pub(crate) use zookeeper::{TICK as ZOOKEEPER_TICK, Zklock};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};
use thiserror::Error;

/// How long who found the lock taken sleeps before it tries again, where a lock is polled: Spring's default. The
/// recipes leave it open.
const POLL: Duration = Duration::from_millis(100);

/// How long connecting may take, on a busy machine too: it is not what is measured.
const CONNECT: Duration = Duration::from_secs(30);

/// A lock as one process has it.
pub(crate) trait Lock {
    /// Waits until it is held; the fencing token, if the lock has any.
    async fn acquire(&mut self) -> Result<Option<i64>, Failure>;

    /// Gives it back, whether this process holds it or not.
    async fn release(&mut self) -> Result<(), Failure>;

    /// What the lock tells its holder without being asked over the network; `None` if it tells nothing.
    fn check(&self) -> Option<bool> {
        None
    }

    /// Asks the servers whether it is held; `None` if there is no such question.
    async fn inquire(&mut self) -> Result<Option<bool>, Failure> {
        Ok(None)
    }
}

/// What an acquisition or a release throws.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Redis(#[from] redis::RedisError),
    #[error(transparent)]
    Acquire(#[from] zklock::AcquireError),
    #[error(transparent)]
    Release(#[from] zklock::ReleaseError),
    /// Whoever releases does not hold it, in the original's words where it has any.
    #[error("{0}")]
    NotHeld(String),
}

/// What all Redis locks are made with.
pub(crate) struct Redis {
    client: Client,
    connection: MultiplexedConnection,
    key: String,
    ttl: Duration,
}

impl Redis {
    pub(crate) async fn connect(
        address: &str,
        key: &str,
        ttl: Duration,
        response_timeout: Option<Duration>,
    ) -> redis::RedisResult<Self> {
        let client = Client::open(format!("redis://{address}"))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(response_timeout);
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self { client, connection, key: key.to_owned(), ttl })
    }

    fn ttl(&self) -> u64 {
        milliseconds(self.ttl)
    }

    /// Runs a script on the lock's key and `keys`.
    async fn eval<T: redis::FromRedisValue>(
        &mut self,
        script: &str,
        keys: &[&str],
        arguments: &[&str],
    ) -> redis::RedisResult<T> {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(1 + keys.len()).arg(&self.key).arg(keys).arg(arguments);
        command.query_async(&mut self.connection).await
    }
}

fn milliseconds(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}
