//! The options of a session, and connecting it.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;
use zklock_recipe::DEFAULT_DRIFT_PPM;

use super::Session;
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
use super::security::SaslOptions;
use super::security::Security;
#[cfg(feature = "tls")]
use super::security::TlsOptions;
use crate::mutex::Mutex;
use crate::wire::ConnectError;
use crate::wire::dialer::Dialer;
use crate::wire::servers::Servers;
use crate::zk::Succession;
use crate::zk::succession::survey::establish;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The shortest session timeout that zklock asks the servers for. `Lengths` decides later whether heartbeats can keep a
/// lease with it.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(100);

/// The longest session timeout: the protocol sends it as an `i32` of milliseconds.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

/// The longest time that `connect` spends on finding out why no server established a session. It takes this from the
/// connect timeout, and never more than a fifth of it.
const LONGEST_DIAGNOSIS: Duration = Duration::from_secs(1);

/// The pause after a round in which no server established a session.
const PAUSE: Duration = Duration::from_millis(100);

/// The options of a [`Session`] that is about to be connected. [`Session::builder`] makes them.
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
    creates_chroot: bool,
    security: Security,
    secured_by: Option<SecuredBy>,
}

type SecuredBy = Box<dyn Fn() -> Security + Send + Sync>;

/// Connecting.
impl Session {
    /// Connects with the default options: a session timeout of 10 seconds and no authentication.
    ///
    /// `servers` is ZooKeeper's connect string: `host:port` pairs separated by commas, where a missing port means 2181.
    /// A chroot may follow the last pair: `zk1:2181,zk2:2181/app`. The chroot must exist
    /// ([`create_chroot`](SessionBuilder::create_chroot)).
    ///
    /// Errors and cancel safety: as [`SessionBuilder::connect`].
    pub async fn connect(servers: impl Into<String>) -> Result<Self, ConnectError> {
        Self::builder(servers).connect().await
    }

    /// Connects as [`connect`](Self::connect), does `work` with the session, and closes the session however `work` ends: with
    /// `Ok`, by a `?`, or by a panic, which goes on once the session is closed. So the program leaves no lock behind, and the
    /// next contender has it at once. A program that ends without its scope leaves its locks for up to 13 s by default: by
    /// [`exit`](std::process::exit), or by a signal. Await signals inside `work`.
    ///
    /// Guards that `work` has dropped are released before the session is closed. Guards that are kept elsewhere, in a task or in
    /// the value that `work` returns, are lost then. With other options, call [`SessionBuilder::with`].
    ///
    /// ```no_run
    /// # async fn migrate() -> Result<(), std::io::Error> { Ok(()) }
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use zklock::Session;
    ///
    /// Session::with("zk1:2181,zk2:2181,zk3:2181", async |session| {
    ///     let guard = session.lock("/lock/migration")?.acquire().await?;
    ///     guard.run(migrate()).await??;
    ///     Ok(guard.release().await?)
    /// })
    /// .await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What `work` returns, or the [`ConnectError`] if the session cannot be connected. A session that cannot be closed in time is
    /// logged. `with` waits as long as [`close`](Self::close) does, which goes on in the background.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, `work` is dropped, and zklock closes the session in the background as soon as nothing uses it.
    pub async fn with<T, E: From<ConnectError>>(
        servers: impl Into<String>,
        work: impl AsyncFnOnce(Self) -> Result<T, E>,
    ) -> Result<T, E> {
        Self::builder(servers).with(work).await
    }

    /// Returns a builder, for connecting with other options.
    pub fn builder(servers: impl Into<String>) -> SessionBuilder {
        SessionBuilder::new(servers.into())
    }
}

impl SessionBuilder {
    /// The default [`clock_drift`](Self::clock_drift), in parts per million: 9%.
    pub const DEFAULT_CLOCK_DRIFT: u32 = DEFAULT_DRIFT_PPM;

    fn new(servers: String) -> Self {
        Self {
            servers,
            session_timeout: None,
            connect_timeout: None,
            tick: None,
            drift: DEFAULT_DRIFT_PPM,
            creates_chroot: false,
            security: Security::new(),
            secured_by: None,
        }
    }

    /// How long the ensemble keeps this session's nodes after it last heard from the session. A holder that crashes
    /// keeps the lock from others for this time, and for one and a half of the servers' ticks more at most. The timeout
    /// must be between 100 ms and `i32::MAX` ms. The default is 10 seconds.
    ///
    /// A server that stands still, for instance by a slow disk, may cost guards. The longest stall that you expect, plus
    /// the stop margin, must be below a fifth of the timeout, and the timeout must be four ticks or more.
    ///
    /// The servers limit session timeouts to between 2 and 20 ticks by default (4 s to 40 s). If you set no timeout,
    /// zklock accepts the one that the servers grant instead of the default; [`Session::timeout`] returns it. If you
    /// set a timeout, the servers must grant exactly that one, or `connect` fails.
    pub fn session_timeout(self, timeout: Duration) -> Self {
        Self { session_timeout: Some(timeout), ..self }
    }

    /// How long [`connect`](Self::connect) takes at most. The default is the session timeout. `connect` keeps the last
    /// fifth of this time, but at most one second, for finding out why no server established a session.
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: Some(timeout), ..self }
    }

    /// The servers' `tickTime`. The leader asks its followers every half tick which sessions they have heard of, so a
    /// lease ends earlier by about that time. If you set a tick that is shorter than the servers' tick, guards stay
    /// valid for too long.
    ///
    /// If you set no tick, `connect` learns it from the servers. A server includes it in its answer to `conf`, if that
    /// word is whitelisted there and the connection does not use TLS. Otherwise, or if that answer takes longer than 150 ms,
    /// `connect` infers the tick from the shortest and the longest session timeout that the server grants, which are 2 and 20
    /// ticks by default. If these two limits
    /// do not fit one tick, somebody set one of them by hand. `connect` then takes the longer of the two possible
    /// ticks. If no lease can be kept with that tick, `connect` fails with [`ConnectError::TickUnknown`]. If both
    /// limits were set by hand, set the tick: two such limits may fit one tick by chance.
    pub fn tick(self, tick: Duration) -> Self {
        Self { tick: Some(tick), ..self }
    }

    /// How much faster or slower than true time a clock may run, on this machine or on the leader's, in parts per
    /// million. The default is 90,000, which is 9%: chrony slews a clock by up to 83,333 parts per million by default
    /// (`maxslewrate`), and oscillators add a few hundred. A lease ends earlier by this part of the session timeout;
    /// that is its margin.
    ///
    /// Lower it only if you know how the clocks of every server and of this machine are kept. Where nothing slews a
    /// clock faster than the kernel's 500 parts per million, 1,000 is enough.
    pub fn clock_drift(self, parts_per_million: u32) -> Self {
        Self { drift: parts_per_million, ..self }
    }

    /// Has the first lock create the connect string's chroot, if the chroot does not exist. The nodes get the ACL of the
    /// lock's [ancestors](crate::LockOptions::ancestors_acl), and they stay.
    ///
    /// Without this option, `connect` refuses a chroot that does not exist, with [`ConnectError::NoChroot`]: a chroot with a
    /// typing error would give each service a lock of its own. ZooKeeper removes a chroot that somebody else created as a
    /// container node, as Curator's namespaces are, once it has been empty for a minute. Set the option for such a chroot.
    pub fn create_chroot(self) -> Self {
        Self { creates_chroot: true, ..self }
    }

    /// Authenticates the session, for servers and nodes with an ACL. You may call it more than once. For the scheme
    /// `digest`, the credentials are `user:password`.
    pub fn auth(self, scheme: &str, credentials: impl AsRef<[u8]>) -> Self {
        Self { security: self.security.auth(scheme, credentials), ..self }
    }

    /// Connects to every server over TLS. The name of each server must be in its certificate. An address that begins with `tcp://` is then
    /// an error, so zklock never sends anything in clear text.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn tls(self, options: TlsOptions) -> Self {
        Self { security: self.security.tls(options), ..self }
    }

    /// Authenticates each connection with SASL.
    ///
    /// A server without SASL answers as if it had taken the credentials, and gives the session no identity
    /// (`ZooKeeperServer.processSasl`). zklock does not notice it.
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    #[cfg_attr(docsrs, doc(cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))))]
    pub fn sasl(self, options: SaslOptions) -> Self {
        Self { security: self.security.sasl(options), ..self }
    }

    /// Secures each connection with what `make` returns, in place of [`auth`](Self::auth) and its like. zklock calls `make`
    /// once for the connect string, and before each connection, also the later ones of a session. So a process that runs for
    /// long takes certificates and credentials that are renewed on disk.
    ///
    /// `make` must return soon, because no connection is made meanwhile: read small local files, and ask no other server. If it
    /// returns TLS options at first, the session never connects without TLS.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::{error::Error, fs::read_to_string as read};
    /// use zklock::{Session, session::{Security, TlsOptions}};
    ///
    /// let tls = TlsOptions::from_pem(&read("ca.pem")?, Some((&read("client.pem")?, &read("client.key")?)))?;
    /// let renew = |tls: &TlsOptions| -> Result<(), Box<dyn Error>> {
    ///     Ok(tls.renew(&read("ca.pem")?, Some((&read("client.pem")?, &read("client.key")?)))?)
    /// };
    /// let session = Session::builder("zk1:2281,zk2:2281").secured_by(move || {
    ///     // While the key is not yet that of the certificate, the former ones stay.
    ///     if let Err(error) = renew(&tls) {
    ///         eprintln!("the certificates were not renewed: {error}");
    ///     }
    ///     Security::new().tls(tls.clone())
    /// });
    /// # drop(session);
    /// # Ok(())
    /// # }
    /// ```
    pub fn secured_by(self, make: impl Fn() -> Security + Send + Sync + 'static) -> Self {
        Self { secured_by: Some(Box::new(make)), ..self }
    }

    /// Establishes the session.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    ///
    /// # Cancel safety
    ///
    /// Safe. If a server has established a session by then, that session expires. It owns no nodes.
    pub async fn connect(self) -> Result<Session, ConnectError> {
        let patience = self.connect_timeout;
        let (dialer, runtime) = self.dialer()?;
        let patience = patience.unwrap_or(dialer.timeout);
        // The caller may be polled elsewhere, and outlive the runtime whose timers this needs.
        let mut opening = JoinSet::new();
        opening.spawn_on(open(dialer, runtime.clone(), patience), &runtime);
        match opening.join_next().await {
            Some(Ok(opened)) => opened,
            Some(Err(error)) if error.is_panic() => Err(ConnectError::panicked(&*error.into_panic())),
            Some(Err(_)) | None => Err(ConnectError::RuntimeGone),
        }
    }

    /// Connects, does `work` with the session, and closes the session however `work` ends. See [`Session::with`].
    pub async fn with<T, E: From<ConnectError>>(
        self,
        work: impl AsyncFnOnce(Session) -> Result<T, E>,
    ) -> Result<T, E> {
        let session = self.connect().await?;
        let ended = AssertUnwindSafe(async { work(session.clone()).await }).catch_unwind().await;
        if let Err(error) = session.close().await {
            warn!(%error, "the session of a scope was not closed in time");
        }
        ended.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Returns a session at once, whether or not a server can be reached. zklock opens the first ZooKeeper session in
    /// the background, as it opens every later one. So a service can start while no server can be reached, and its
    /// acquisitions wait.
    ///
    /// Until that first ZooKeeper session is established, the state is
    /// [`SessionState::Connecting`](crate::SessionState::Connecting) and the [`id`](Session::id) is 0. The session's
    /// lengths are then those of the session timeout that you asked for and of a tick of 2 seconds, unless you set the
    /// tick. zklock checks a lock's stop margin against these lengths, and shortens the margin later if the servers
    /// allow less. If the servers refuse such a session for as long as a session timeout, the state becomes
    /// [`Failed`](crate::SessionState::Failed).
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
    /// [`ConnectError`] if no server could help: the connect string is malformed, the session timeout is out of range,
    /// or no tokio runtime is running.
    pub fn connect_lazy(self) -> Result<Session, ConnectError> {
        let (dialer, runtime) = self.dialer()?;
        Ok(Session::new(Succession::start(None, dialer, runtime)))
    }

    /// Checks the options, and makes the dialer that they describe.
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
        let security = self.security;
        let secured_by = self.secured_by.unwrap_or_else(|| Box::new(move || security.clone()));
        let dialer = Dialer {
            servers: Servers::parse(self.servers, secured_by().tls)?,
            timeout: asked,
            exact: self.session_timeout.is_some(),
            tick: Mutex::new(self.tick),
            drift_ppm: self.drift,
            creates_chroot: self.creates_chroot,
            found_chroot: AtomicBool::default(),
            refusal: Mutex::default(),
            connector: Box::new(move || secured_by().connector),
        };
        Ok((dialer, runtime))
    }
}

/// Establishes a session within this time.
async fn open(dialer: Dialer, runtime: Handle, patience: Duration) -> Result<Session, ConnectError> {
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
            let refusal = dialer.refusal.lock().take();
            if let Some(refusal) = refusal.filter(|error| !matches!(error, ConnectError::Unreachable { .. }))
            {
                return Err(refusal);
            }
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

debug_shows!(SessionBuilder, it, {
    servers: it.servers,
    session_timeout: it.session_timeout,
    connect_timeout: it.connect_timeout
});
