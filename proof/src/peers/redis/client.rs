//! What all Redis locks are made with.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisResult};
use uuid::Uuid;

use crate::peers::contract::{CONNECT, Place};

/// How long who found the lock taken sleeps before it tries again, where a lock is polled: Spring's default. The
/// recipes leave it open.
pub(super) const POLL: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(super) struct Redis {
    pub(super) client: Client,
    connection: MultiplexedConnection,
    pub(super) key: String,
    /// Nobody else's.
    pub(super) id: String,
    pub(super) ttl: Duration,
    /// That, in milliseconds.
    pub(super) lasts: String,
}

impl Redis {
    pub(super) async fn connect(
        place: &Place,
        server: &str,
        response_timeout: Option<Duration>,
    ) -> RedisResult<Self> {
        let client = Client::open(format!("redis://{server}"))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(response_timeout);
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self {
            client,
            connection,
            key: place.path.clone(),
            id: Uuid::new_v4().to_string(),
            ttl: place.timeout,
            lasts: place.timeout.as_millis().to_string(),
        })
    }

    /// Has a command done with the lock's key.
    pub(super) async fn call<T: FromRedisValue>(
        &mut self,
        command: &str,
        arguments: &[&str],
    ) -> RedisResult<T> {
        redis::cmd(command).arg(&self.key).arg(arguments).query_async(&mut self.connection).await
    }

    /// Runs a script on the lock's key and `keys`.
    pub(super) async fn eval<T: FromRedisValue>(
        &mut self,
        script: &str,
        keys: &[&str],
        arguments: &[&str],
    ) -> RedisResult<T> {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(1 + keys.len()).arg(&self.key).arg(keys).arg(arguments);
        command.query_async(&mut self.connection).await
    }
}
