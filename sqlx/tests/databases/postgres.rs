//! A Postgres server of the test's own.

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use zklock_test_support::{Postgres, eventually};

pub(crate) struct Server(Postgres);

impl Server {
    pub(crate) async fn start() -> Self {
        let arguments = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=40"];
        let server = Self(Postgres::start(&arguments));
        eventually("Postgres answers", async || PgPool::connect_with(server.options()).await.is_ok()).await;
        server
    }

    pub(crate) fn options(&self) -> PgConnectOptions {
        PgConnectOptions::new().socket(self.0.directory()).username("postgres").database("postgres")
    }

    /// Opens so many connections at most, with these settings of the server.
    pub(crate) fn pool(&self, connections: u32, settings: &[(&str, &str)]) -> PgPool {
        let options = self.options().options(settings.iter().copied());
        PgPoolOptions::new().max_connections(connections).connect_lazy_with(options)
    }
}
