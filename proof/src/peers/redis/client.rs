//! What all Redis locks are made with.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};

use crate::peers::contract::{CONNECT, Place};

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
        place: &Place,
        response_timeout: Option<Duration>,
    ) -> redis::RedisResult<Self> {
        let client = Client::open(format!("redis://{}", place.server))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(response_timeout);
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self { client, connection, key: place.path.clone(), ttl: place.timeout })
    }

    /// In milliseconds.
    pub(super) fn ttl(&self) -> u64 {
        self.ttl.as_millis().try_into().unwrap_or(u64::MAX)
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
