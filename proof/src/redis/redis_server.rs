//! A redis-server of our own: on a free port of loopback, without persistence.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use redis::Client;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{interval, timeout};

/// How long a server may take to answer.
const START: Duration = Duration::from_secs(30);

/// Somebody else may take the port that was free; so many times another one is tried.
const ATTEMPTS: usize = 5;

/// Arguments: the server's command line. The server ends with the pipe to its shell: when the conductor does, however that
/// came about.
const KEEPER: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- >/dev/null 2>&1 &
server=$!
( read -r _ <&3; kill -9 $server ) >/dev/null 2>&1 &
guard=$!
exec 3<&-
wait $server
kill $guard
"#;

/// The server. Dropping it ends it.
pub(crate) struct RedisServer {
    /// Its shell; dropping this closes the pipe.
    _keeper: Child,
    _directory: TempDir,
    address: String,
    version: String,
}

impl RedisServer {
    /// Starts a server, and returns once it answers.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        for _ in 0..ATTEMPTS {
            if let Some(server) = Self::try_start().await? {
                return Ok(server);
            }
        }
        bail!("redis-server does not start; is it installed? (scripts/have-redis.sh)")
    }

    /// `None` if the server ended at once.
    async fn try_start() -> anyhow::Result<Option<Self>> {
        let directory = tempfile::Builder::new().prefix("redis-").tempdir()?;
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "redis-keeper", "redis-server"])
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for us: the server ends when we do.
            .process_group(0)
            .spawn()
            .context("cannot start a shell for redis-server")?;
        let address = format!("127.0.0.1:{port}");
        let client = Client::open(format!("redis://{address}"))?;
        let answered = async {
            let mut looks = interval(Duration::from_millis(20));
            loop {
                looks.tick().await;
                if keeper.try_wait()?.is_some() {
                    return anyhow::Ok(None);
                }
                if let Ok(mut connection) = client.get_multiplexed_async_connection().await {
                    let about: redis::RedisResult<String> =
                        redis::cmd("INFO").arg("server").query_async(&mut connection).await;
                    if let Ok(about) = about {
                        return Ok(Some(about));
                    }
                }
            }
        };
        let Some(about) = timeout(START, answered).await.context("redis-server does not answer")?? else {
            return Ok(None);
        };
        let version = about.lines().find_map(|line| line.strip_prefix("redis_version:"));
        let version = version.unwrap_or("of unknown version").trim().to_owned();
        Ok(Some(Self { _keeper: keeper, _directory: directory, address, version }))
    }

    /// As `host:port`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }
}
