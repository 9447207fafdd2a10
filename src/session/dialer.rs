//! How one ZooKeeper session after the other is established.

use std::io::ErrorKind;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tracing::warn;
use zookeeper_client::{Client, Connector, Error};

use crate::clock;
use crate::error::ConnectError;
use crate::lease::{DEFAULT_DRIFT_PPM, Lease, Moment, Reckoning};

/// The pause after the first attempt that failed; each further one is twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two attempts, without its jitter.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Whom to ask for a session, and for which.
pub(super) struct Dialer {
    pub(super) servers: String,
    /// The session timeout to ask for.
    pub(super) timeout: Duration,
    /// Whether no other session timeout will do.
    pub(super) exact: bool,
    pub(super) tick: Option<Duration>,
    pub(super) connector: Connector,
}

/// A ZooKeeper session that was just established.
pub(super) struct Established {
    pub(super) client: Client,
    pub(super) lease: Lease,
    /// When it was asked for.
    pub(super) connecting: Moment,
}

impl Dialer {
    /// Asks every server, again and again; [`ConnectError::Unreachable`] after a session timeout at most.
    pub(super) async fn dial(&self) -> Result<Established, ConnectError> {
        self.ask(self.connector.clone()).await
    }

    async fn ask(&self, connector: Connector) -> Result<Established, ConnectError> {
        let connecting = clock::now();
        let connector = connector.with_session_timeout(self.timeout);
        let client = connector.connect(&self.servers).await.map_err(|error| self.failure(error))?;
        let granted = client.session_timeout();
        if self.exact && granted != self.timeout {
            return Err(ConnectError::TimeoutNotGranted { asked: self.timeout, granted });
        }
        let tick = self.tick.unwrap_or(Duration::from_secs(2).min(granted / 2));
        let reckoning = Reckoning { tick, drift_ppm: DEFAULT_DRIFT_PPM };
        let lease = Lease::established(reckoning, granted, connecting).map_err(|lengths| {
            ConnectError::LeaseTooShort {
                timeout: lengths.timeout,
                lag: lengths.lag,
                margin: lengths.margin,
                heartbeat: lengths.heartbeat,
            }
        })?;
        Ok(Established { client, lease, connecting })
    }

    /// Asks every server, again and again, with longer and longer pauses; `None` once the credentials are rejected.
    /// The pauses are jittered, so that those who lost their sessions together do not come back together.
    pub(super) async fn redial(&self) -> Option<Established> {
        let pauses = ExponentialBuilder::new()
            .with_min_delay(SHORTEST_PAUSE)
            .with_max_delay(LONGEST_PAUSE)
            .without_max_times()
            .with_jitter();
        let mut pauses = pauses.build();
        loop {
            // Eagerly: the client's own pauses have no longest one.
            match self.ask(self.connector.clone().with_fail_eagerly()).await {
                Ok(established) => return Some(established),
                Err(ConnectError::AuthFailed) => return None,
                Err(error) => {
                    let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
                    warn!(%error, ?pause, "ZooKeeper gives no new session");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    fn failure(&self, error: Error) -> ConnectError {
        match error {
            Error::BadArguments(cause) => {
                ConnectError::Servers { servers: self.servers.clone(), cause: (*cause).to_owned() }
            }
            Error::AuthFailed => ConnectError::AuthFailed,
            Error::Timeout | Error::NoHosts | Error::ConnectionLoss | Error::SessionExpired => {
                ConnectError::Unreachable { servers: self.servers.clone(), timeout: self.timeout }
            }
            error => ConnectError::Client { cause: error.to_string() },
        }
    }
}

/// Whether one of these servers says that it takes only reads.
pub(super) async fn any_is_read_only(servers: &str) -> bool {
    let answers = servers.split(',').map(is_read_only);
    futures::future::join_all(answers).await.contains(&Ok(true))
}

/// Asks a server of the connect string whether it takes only reads. A server that can come to that answers `isro`
/// without being told to (`FourLetterCommands` whitelists it then).
async fn is_read_only(server: &str) -> Result<bool, ErrorKind> {
    let address = server.strip_prefix("tcp://").unwrap_or(server);
    let address = address.split('/').next().unwrap_or(address);
    let mut connection = TcpStream::connect(address).await.map_err(|error| error.kind())?;
    connection.write_all(b"isro").await.map_err(|error| error.kind())?;
    let mut answer = String::new();
    connection.take(16).read_to_string(&mut answer).await.map_err(|error| error.kind())?;
    Ok(answer.trim() == "ro")
}
