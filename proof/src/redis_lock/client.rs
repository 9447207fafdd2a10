//! What all Redis locks are made with.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};

use super::contract::CONNECT;

/// How long who found the lock taken sleeps before it tries again, where a lock is polled: Spring's default. The
/// recipes leave it open.
pub(super) const POLL: Duration = Duration::from_millis(100);

/// What all Redis locks are made with.
#[derive(Clone)]
pub(super) struct Redis {
    pub(super) client: Client,
    pub(super) connection: MultiplexedConnection,
    pub(super) key: String,
    pub(super) ttl: Duration,
}

impl Redis {
    pub(super) async fn connect(
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

    pub(super) fn ttl(&self) -> u64 {
        milliseconds(self.ttl)
    }

    /// Runs a script on the lock's key and `keys`.
    pub(super) async fn eval<T: redis::FromRedisValue>(
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

pub(super) fn milliseconds(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}
