//! The options of a session, and its beginning.

use std::fmt;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout_at};
use zklock_recipe::DEFAULT_DRIFT_PPM;
use zookeeper_client::{Client, Connector};

use super::Session;
use crate::zk::dialer::Dialer;
use crate::zk::establish::establish;
use crate::zk::servers::Servers;
use crate::zk::{ConnectError, Succession};

/// The session timeout unless told otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The shortest session timeout: a tenth of it is the shortest interval at which anything is checked.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(100);

/// The longest session timeout: the protocol has an `i32` of milliseconds.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

/// How much of the connect timeout goes to finding out why nobody took us: a fifth, and no more than this.
const LONGEST_DIAGNOSIS: Duration = Duration::from_secs(1);

/// The pause after each server was asked in vain.
const PAUSE: Duration = Duration::from_millis(100);

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
    drift: u32,
    least_grant: Option<Duration>,
    tls: bool,
    connector: Connector,
}

/// Connecting.
impl Session {
    /// Connects with the default options: a session timeout of 10 seconds, no authentication.
    ///
    /// `servers` is ZooKeeper's connect string: `host:port` pairs separated by commas (port 2181 if left out),
    /// and optionally a chroot behind the last one: `zk1:2181,zk2:2181/app`. A chroot that does not exist is
    /// created with the first lock.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    ///
    /// # Cancel safety
    ///
    /// Safe. A session that the server has established by then is left to expire; it owns no nodes.
    pub async fn connect(servers: impl Into<String>) -> Result<Self, ConnectError> {
        Self::builder(servers).connect().await
    }

    /// Connects with other options.
    pub fn builder(servers: impl Into<String>) -> SessionBuilder {
        SessionBuilder::new(servers.into())
    }
}

impl SessionBuilder {
    /// The [`clock_drift`](Self::clock_drift) unless told otherwise, in parts per million: 9%.
    pub const DEFAULT_CLOCK_DRIFT: u32 = DEFAULT_DRIFT_PPM;

    fn new(servers: String) -> Self {
        Self {
            servers,
            session_timeout: None,
            connect_timeout: None,
            tick: None,
            drift: DEFAULT_DRIFT_PPM,
            least_grant: None,
            tls: false,
            connector: Client::connector(),
        }
    }

    /// How long the ensemble keeps this session's nodes after it last heard from it. A crashed holder keeps the lock from
    /// others for so long, and for one and a half of the servers' ticks more at most. From 100 ms to `i32::MAX` ms; the default is 10 seconds.
    ///
    /// Servers have limits of their own, by default 2 to 20 ticks (4 s to 40 s). The default is adapted to them
    /// ([`Session::timeout`] tells); a timeout set here is granted as it is, or `connect` fails.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = Some(timeout);
        self
    }

    /// How long [`connect`](Self::connect) takes at most. The default is the session timeout. If no server has established a
    /// session by then, less a fifth of it and a second at most, the rest goes into finding out why.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// The servers' `tickTime`. The leader asks its followers every half tick which sessions they have heard of, so a
    /// lease ends that much earlier. A tick that is shorter than the true one makes guards valid for too long.
    ///
    /// Unless it is set, `connect` learns it from a server: from its answer to `conf`, if that word is whitelisted there and
    /// the connection is without TLS, else from the limits of its session timeouts, which are 2 and 20 ticks by default. If
    /// the two limits disagree, one of them was set by hand. Then the longer tick is taken, or, where no lease can be kept
    /// with that, `connect` fails with [`ConnectError::TickUnknown`]. Set the tick if both limits were set by hand, since
    /// they may agree by chance.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = Some(tick);
        self
    }

    /// How much faster or slower than true time a clock may run, here or on the leader, in parts per million. The default
    /// is 90,000, which is 9%: chrony slews a clock by up to 83,333 parts per million unless it is told otherwise
    /// (`maxslewrate`), and oscillators add some hundred. That part of the session timeout is the lease's margin.
    ///
    /// Lower it only if you know how clocks are kept on every server and here: 1,000 where nothing slews faster than the
    /// kernel's 500 parts per million.
    pub fn clock_drift(mut self, parts_per_million: u32) -> Self {
        self.drift = parts_per_million;
        self
    }

    /// The least session timeout that any server may grant this session. Each server clips the session timeout by its own
    /// limits when the session gets there, and the leader then expires the session by that. The lease reckons with the
    /// least that any server was seen to grant: each is asked at the start, and again by each connection. Set this if
    /// servers may come to grant less than that later on, as during a rolling change of their limits.
    pub fn least_session_timeout(mut self, timeout: Duration) -> Self {
        self.least_grant = Some(timeout);
        self
    }

    /// Authenticates the session, for servers and nodes with an ACL; may be called more than once. For the scheme
    /// `digest` the credentials are `user:password`.
    pub fn auth(mut self, scheme: &str, credentials: impl AsRef<[u8]>) -> Self {
        self.connector = self.connector.with_auth(scheme, credentials.as_ref());
        self
    }

    /// Connects by TLS, with zookeeper-client's options, to every server. An address that begins with `tcp://` is an error
    /// then, so nothing is ever sent in clear text.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn tls(mut self, options: crate::TlsOptions) -> Self {
        self.connector = self.connector.with_tls(options);
        self.tls = true;
        self
    }

    /// Authenticates the connection by SASL, with zookeeper-client's options.
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    #[cfg_attr(docsrs, doc(cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))))]
    pub fn sasl(mut self, options: impl Into<crate::SaslOptions>) -> Self {
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
        let patience = self.connect_timeout;
        let (dialer, runtime) = self.dialer()?;
        let patience = patience.unwrap_or(dialer.timeout);
        let started = Instant::now();
        let diagnosis = LONGEST_DIAGNOSIS.min(patience / 5);
        let far = started + Duration::from_secs(86_400 * 365);
        let deadline = started.checked_add(patience - diagnosis).unwrap_or(far);
        let established = timeout_at(deadline, async {
            loop {
                match establish(&dialer).await.map_err(|refused| refused.error) {
                    Err(ConnectError::Unreachable { .. }) if Instant::now() < deadline => sleep(PAUSE).await,
                    result => return result,
                }
            }
        });
        match established.await {
            Ok(Ok(established)) => Ok(Session::new(Succession::start(Some(established), dialer, runtime))),
            Err(_) | Ok(Err(ConnectError::Unreachable { .. })) => {
                let servers = dialer.servers.to_string();
                let found = dialer.servers.diagnose(started.checked_add(patience).unwrap_or(far)).await;
                Err(if found.any_is_read_only {
                    ConnectError::ReadOnly { servers }
                } else {
                    ConnectError::Unreachable { servers, timeout: patience - diagnosis, causes: found.causes }
                })
            }
            Ok(Err(error)) => Err(error),
        }
    }

    /// A session at once, whether or not a server can be reached: the first ZooKeeper session is opened in the background, as
    /// every later one is. A service that starts while ZooKeeper is away so comes up, and its acquisitions wait.
    ///
    /// Until then the session is [`SessionState::Connecting`](crate::SessionState::Connecting), its
    /// [`id`](Session::id) is 0, and its lengths are those of the session timeout that was asked for and a tick of 2 seconds.
    /// A lock's stop margin is checked against them, and cut later on if the servers allow less. Servers that refuse such a
    /// session for as long as a session timeout make it [`Failed`](crate::SessionState::Failed).
    ///
    /// ```no_run
    /// # fn example() -> Result<(), zklock::ConnectError> {
    /// use zklock::Session;
    ///
    /// let session = Session::builder("zk1:2181,zk2:2181,zk3:2181").connect_lazy()?;
    /// # drop(session);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError`] for what no server can mend: a malformed connect string, a session timeout out of range, no tokio
    /// runtime.
    pub fn connect_lazy(self) -> Result<Session, ConnectError> {
        let (dialer, runtime) = self.dialer()?;
        Ok(Session::new(Succession::start(None, dialer, runtime)))
    }

    /// Checks the options.
    fn dialer(self) -> Result<(Dialer, Handle), ConnectError> {
        let runtime = Handle::try_current().map_err(|_| ConnectError::NoRuntime)?;
        let asked = self.session_timeout.unwrap_or(DEFAULT_TIMEOUT);
        if !(SHORTEST_TIMEOUT..=LONGEST_TIMEOUT).contains(&asked) {
            return Err(ConnectError::SessionTimeout {
                timeout: asked,
                shortest: SHORTEST_TIMEOUT,
                longest: LONGEST_TIMEOUT,
            });
        }
        let dialer = Dialer {
            servers: Servers::parse(self.servers, self.tls)?,
            timeout: asked,
            exact: self.session_timeout.is_some(),
            tick: self.tick.map_or_else(OnceLock::new, OnceLock::from),
            drift_ppm: self.drift,
            least: self.least_grant,
            connector: self.connector,
            seen: Mutex::default(),
        };
        Ok((dialer, runtime))
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
