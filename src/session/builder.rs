//! The options of a session, and its beginning.

use std::fmt;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use zookeeper_client::{Client, Connector};

use super::dialer::{Dialer, any_is_read_only};
use super::{Generations, Session};
use crate::error::ConnectError;

/// The session timeout unless told otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The shortest session timeout: a tenth of it is the shortest interval at which anything is checked.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(100);

/// The longest session timeout: the protocol has an `i32` of milliseconds.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

/// How much of the connect timeout goes to finding out why nobody took us: a fifth, and no more than this.
const LONGEST_DIAGNOSIS: Duration = Duration::from_secs(1);

/// Options of a [`Session`] to be; made by [`Session::builder`].
///
/// ```no_run
/// # async fn example() -> Result<(), zklock::ConnectError> {
/// use std::time::Duration;
/// use zklock::Session;
///
/// let session = Session::builder("zk1:2181,zk2:2181,zk3:2181/app")
///     .session_timeout(Duration::from_secs(6))
///     .auth("digest", "service:secret")
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until `connect` is awaited"]
pub struct SessionBuilder {
    servers: String,
    session_timeout: Option<Duration>,
    connect_timeout: Option<Duration>,
    tick: Option<Duration>,
    connector: Connector,
}

impl SessionBuilder {
    pub(super) fn new(servers: String) -> Self {
        Self {
            servers,
            session_timeout: None,
            connect_timeout: None,
            tick: None,
            connector: Client::connector(),
        }
    }

    /// How long the ensemble keeps this session's nodes after it last heard from it: the longest a crashed holder
    /// keeps the lock from others. From 100 ms to `i32::MAX` ms; the default is 10 seconds.
    ///
    /// Servers have limits of their own, by default 2 to 20 ticks (4 s to 40 s). The default is adapted to them
    /// ([`Session::timeout`] tells); a timeout set here is granted as it is, or `connect` fails.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = Some(timeout);
        self
    }

    /// How long [`connect`](Self::connect) tries. The default is the session timeout.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// The servers' `tickTime`, on which depends how soon the leader asks for this session's heartbeats. The default is
    /// the smaller of 2 seconds (the servers' default) and half the session timeout (which is the most a server with
    /// default limits can have). Set it if the servers have `minSessionTimeout` below two ticks: a tick that is
    /// longer than reckoned with makes guards valid for too long.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = Some(tick);
        self
    }

    /// Authenticates the session, for servers and nodes with an ACL; may be called more than once. For the scheme
    /// `digest` the credentials are `user:password`.
    pub fn auth(mut self, scheme: &str, credentials: impl AsRef<[u8]>) -> Self {
        self.connector = self.connector.with_auth(scheme, credentials.as_ref());
        self
    }

    /// Connects by TLS, with zookeeper-client's options, to servers whose address begins with `tcp+tls://`.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, options: zookeeper_client::TlsOptions) -> Self {
        self.connector = self.connector.with_tls(options);
        self
    }

    /// Authenticates the connection by SASL, with zookeeper-client's options.
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    pub fn sasl(mut self, options: impl Into<zookeeper_client::SaslOptions>) -> Self {
        self.connector = self.connector.with_sasl(options);
        self
    }

    /// Establishes the session.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    ///
    /// # Cancel safety
    ///
    /// Safe. A session that the server has established by then is left to expire; it owns no nodes.
    pub async fn connect(self) -> Result<Session, ConnectError> {
        let runtime = Handle::try_current().map_err(|_| ConnectError::NoRuntime)?;
        let asked = self.session_timeout.unwrap_or(DEFAULT_TIMEOUT);
        if !(SHORTEST_TIMEOUT..=LONGEST_TIMEOUT).contains(&asked) {
            return Err(ConnectError::SessionTimeout {
                timeout: asked,
                shortest: SHORTEST_TIMEOUT,
                longest: LONGEST_TIMEOUT,
            });
        }
        let patience = self.connect_timeout.unwrap_or(asked);
        let dialer = Dialer {
            servers: self.servers,
            timeout: asked,
            exact: self.session_timeout.is_some(),
            tick: self.tick,
            connector: self.connector,
        };
        let started = Instant::now();
        let diagnosis = LONGEST_DIAGNOSIS.min(patience / 5);
        let far = started + Duration::from_secs(86_400 * 365);
        let deadline = started.checked_add(patience - diagnosis).unwrap_or(far);
        let established = timeout_at(deadline, async {
            loop {
                // The client gives up after a session timeout; our own deadline may be later.
                match dialer.dial().await {
                    Err(ConnectError::Unreachable { .. }) if Instant::now() < deadline => {}
                    result => return result,
                }
            }
        });
        match established.await {
            Ok(Ok(established)) => Ok(Session::new(Generations::start(established, dialer, runtime))),
            Err(_) | Ok(Err(ConnectError::Unreachable { .. })) => {
                let deadline = started.checked_add(patience).unwrap_or(far);
                let read_only = timeout_at(deadline, any_is_read_only(&dialer.servers)).await;
                Err(if read_only == Ok(true) {
                    ConnectError::ReadOnly { servers: dialer.servers }
                } else {
                    ConnectError::Unreachable { servers: dialer.servers, timeout: patience }
                })
            }
            Ok(Err(error)) => Err(error),
        }
    }
}

impl fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionBuilder")
            .field("servers", &self.servers)
            .field("session_timeout", &self.session_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}
