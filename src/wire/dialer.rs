//! Makes connections to the servers, and learns which session timeouts the servers grant.

use std::iter;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select, select_ok};
use tokio::time::timeout;
use zklock_recipe::{Lease, Lengths, Moment, Reckoning};
use zookeeper_client::{Client, Connector, Error, SessionInfo, SessionState};

use super::connection::{Serving, open};
use crate::clock;
use crate::mutex::Mutex;
use crate::wire::error::ConnectError;
use crate::wire::servers::{Server, Servers};

/// The `tickTime` in the configuration that comes with ZooKeeper.
const DEFAULT_TICK: Duration = Duration::from_secs(2);

/// The least time that a server gets for its answer to a request to resume a session.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(500);

/// The number of rounds of growing patience: in each further round, each server gets twice the time for its answer.
pub(crate) const ROUNDS: u32 = 3;

/// The servers that are asked for a session, and the session that they are asked for.
pub(crate) struct Dialer {
    pub(crate) servers: Servers,
    /// Whether the first lock creates the chroot, if the chroot does not exist.
    pub(crate) creates_chroot: bool,
    /// Whether the chroot was there once. A typing error in it was not.
    pub(crate) found_chroot: AtomicBool,
    /// The last refusal of a server, for a caller whose time ends before every server has answered.
    pub(crate) refusal: Mutex<Option<ConnectError>>,
    /// The session timeout that the servers are asked for.
    pub(crate) timeout: Duration,
    /// Whether the servers must grant exactly this session timeout.
    pub(crate) exact: bool,
    /// The servers' tick, once it is known.
    pub(crate) tick: Mutex<Option<Duration>>,
    /// How far clocks may drift, in parts per million.
    pub(crate) drift_ppm: u32,
    /// Makes what secures the next connection.
    pub(crate) connector: Box<dyn Fn() -> Connector + Send + Sync>,
}

/// A connection that was just made, and the session timeout that its server granted.
pub(crate) struct Opened {
    pub(crate) client: Client,
    pub(crate) serving: Serving,
    /// The instant before the request for the connection was sent.
    pub(crate) asked: Moment,
    pub(crate) granted: Duration,
}

/// Why no server gave a new session.
pub(crate) struct Refused {
    pub(crate) error: ConnectError,
    /// Whether every server answered and refused.
    pub(crate) unanimous: bool,
}

impl Opened {
    /// Asks the server to close the session. If it does not within this time, the session expires.
    async fn close(self, patience: Duration) {
        drop(self.client);
        let _state = timeout(patience, self.serving).await;
    }
}

/// A ZooKeeper session that was just established.
pub(crate) struct Established {
    pub(crate) opened: Opened,
    pub(crate) lease: Lease,
}

impl Dialer {
    /// The numbers that leases are computed with. Until the tick is known, this is ZooKeeper's default tick.
    pub(crate) fn reckoning(&self) -> Reckoning {
        Reckoning { tick: self.tick.lock().unwrap_or(DEFAULT_TICK), drift_ppm: self.drift_ppm }
    }

    /// How long a server may be silent before another one is asked.
    pub(crate) fn silence(&self) -> Duration {
        silence(self.timeout)
    }

    /// Asks each server for a new session, once. If one server refuses for good and another one does not answer, the
    /// refusal is the error, because it says more.
    pub(crate) async fn dial(&self) -> Result<Established, Refused> {
        let mut refusal = None;
        let mut unanimous = true;
        for server in self.servers.last_one_first() {
            match self.establish(server).await {
                Ok(established) => return Ok(established),
                Err(ConnectError::Unreachable { .. }) => unanimous = false,
                // Another reason says more than that one server rejects the credentials.
                Err(ConnectError::AuthFailed) if refusal.is_some() => {}
                Err(error) => {
                    *self.refusal.lock() = Some(error.clone());
                    refusal = Some(error);
                }
            }
        }
        Err(Refused { error: refusal.unwrap_or_else(|| self.unreachable()), unanimous })
    }

    async fn establish(&self, server: &Server) -> Result<Established, ConnectError> {
        let opened = self.open(server, self.timeout, None, self.silence()).await;
        let mut opened = opened.map_err(|error| self.failure(error))?;
        server.learn(opened.granted);
        let granted = opened.granted;
        let lease = match Lease::established(self.reckoning(), granted, opened.asked) {
            _ if self.exact && granted != self.timeout => {
                Err(ConnectError::TimeoutNotGranted { asked: self.timeout, granted })
            }
            lease => lease.map_err(too_short),
        };
        let lease = match lease {
            Ok(lease) => self.find_chroot(&mut opened).await.map(|()| lease),
            Err(error) => Err(error),
        };
        match lease {
            Ok(lease) => {
                self.servers.served(Some(server));
                Ok(Established { opened, lease })
            }
            Err(error) => {
                opened.close(self.silence()).await;
                Err(error)
            }
        }
    }

    /// Refuses a chroot that does not exist, unless the first lock creates it. A server that does not know the chroot
    /// may be behind the leader, so it catches up before its answer counts. Once the chroot was there, later sessions are opened
    /// without it, too: acquisitions say that it is gone, and find it again when it is back.
    async fn find_chroot(&self, opened: &mut Opened) -> Result<(), ConnectError> {
        let chroot = &self.servers.chroot;
        if chroot.is_empty() || self.creates_chroot || self.found_chroot.load(Ordering::Relaxed) {
            return Ok(());
        }
        let client = &opened.client;
        let look = pin!(async {
            if client.check_stat("/").await?.is_some() {
                return Ok(true);
            }
            client.sync("/").await?;
            Ok(client.check_stat("/").await?.is_some())
        });
        // Nobody else polls the client's task yet.
        let found = select(look, &mut opened.serving);
        match timeout(self.silence(), found).await {
            Ok(Either::Left((Ok(true), _))) => {
                self.found_chroot.store(true, Ordering::Relaxed);
                Ok(())
            }
            Ok(Either::Left((Ok(false), _))) => Err(ConnectError::NoChroot { chroot: chroot.clone() }),
            Ok(Either::Left((Err(error), _))) => Err(self.failure(error)),
            Ok(Either::Right((SessionState::AuthFailed, _))) => Err(ConnectError::AuthFailed),
            Ok(Either::Right(_)) | Err(_) => Err(self.unreachable()),
        }
    }

    /// How long a server that is asked to resume a session may be silent, in this round of [`ROUNDS`].
    ///
    /// The session does not live for long, so zklock soon leaves a silent server for the next one: if a packet was
    /// lost, TCP may repeat it late. But a server may be far away, so in later rounds each server gets more time.
    fn patience(&self, server: &Server, round: u32) -> Duration {
        let timeout = server.granted().map_or(self.timeout, |granted| granted.min(self.timeout));
        let share = timeout / 2_u32.pow(ROUNDS - round);
        share.max(SHORTEST_PATIENCE).min(silence(timeout))
    }

    /// The least session timeout that this server may grant. zklock asks a server that has not said what it grants; `None`
    /// if that server does not answer.
    pub(crate) async fn least_grant(&self, server: &Server, round: u32) -> Option<Duration> {
        if server.granted().is_none() {
            // Closing this session would take another quorum write. It owns no node, so it may expire.
            let opened = self.open(server, self.timeout, None, self.patience(server, round)).await.ok()?;
            server.learn(opened.granted);
        }
        server.granted()
    }

    /// Asks one server to resume a session, in this round of [`ROUNDS`]. If the server gives another session in its place,
    /// as some servers other than ZooKeeper do, the one that was asked for is over there, and the other one is closed.
    pub(crate) async fn resume(
        &self,
        server: &Server,
        session: &SessionInfo,
        round: u32,
    ) -> Result<Opened, Error> {
        let patience = self.patience(server, round);
        let opened = self.open(server, self.timeout, Some(session), patience).await?;
        server.learn(opened.granted);
        if opened.client.session_id() != session.id() {
            opened.close(patience).await;
            return Err(Error::SessionExpired);
        }
        self.servers.served(Some(server));
        Ok(opened)
    }

    /// Asks one server which session timeout it grants, by a session that is closed at once.
    pub(crate) async fn probe(&self, server: &Server, timeout: Duration) -> Result<Duration, Error> {
        let opened = self.open(server, timeout, None, self.silence()).await?;
        let granted = opened.granted;
        opened.close(self.silence()).await;
        Ok(granted)
    }

    /// Whether a server but the one that serves now gives a session. A name may stand for several servers.
    pub(crate) async fn another_answers(&self) -> bool {
        let mut servers = self.servers.last_one_first();
        if servers.len() > 1 || servers[0].is_single() {
            servers.remove(0);
        }
        let asked = servers.into_iter().map(|server| self.probe(server, self.timeout).boxed());
        let asked = asked.collect::<Vec<_>>();
        !asked.is_empty() && select_ok(asked).await.is_ok()
    }

    async fn open(
        &self,
        server: &Server,
        ask: Duration,
        resume: Option<&SessionInfo>,
        patience: Duration,
    ) -> Result<Opened, Error> {
        let asked = clock::now();
        let mut connector = (self.connector)().with_session_timeout(ask).with_fail_eagerly();
        if let Some(session) = resume {
            connector = connector.with_session(session.clone());
        }
        let connecting = open(server.connect(connector, &self.servers.chroot));
        let (client, serving) = timeout(patience, connecting).await.map_err(|_| Error::Timeout)??;
        Ok(Opened { granted: client.session_timeout(), client, serving, asked })
    }

    pub(crate) fn unreachable(&self) -> ConnectError {
        let servers = self.servers.to_string();
        ConnectError::Unreachable { servers, timeout: self.timeout, causes: Vec::new() }
    }

    pub(crate) fn failure(&self, error: Error) -> ConnectError {
        match error {
            Error::BadArguments(cause) => {
                ConnectError::Servers { servers: self.servers.to_string(), cause: (*cause).to_owned() }
            }
            Error::AuthFailed => ConnectError::AuthFailed,
            Error::Timeout | Error::NoHosts | Error::ConnectionLoss | Error::SessionExpired => {
                self.unreachable()
            }
            error => ConnectError::Client { cause: error.to_string() },
        }
    }
}

/// How long a server may be silent in a session with this timeout: two fifths of it, by the rule of ZooKeeper's clients.
pub(crate) fn silence(timeout: Duration) -> Duration {
    timeout * 2 / 5
}

/// The pauses between rounds in which no server helped; the caller says how long they are. Each is twice as long as the one
/// before, up to the longest one, and each is longer by up to as much again by chance.
pub(crate) fn pauses(shortest: Duration, longest: Duration) -> impl Iterator<Item = Duration> + Send {
    let pauses = iter::successors(Some(shortest), move |pause| Some(pause.saturating_mul(2).min(longest)));
    pauses.map(|pause| pause.mul_f64(1.0 + fastrand::f64()))
}

pub(crate) fn too_short(lengths: Lengths) -> ConnectError {
    ConnectError::LeaseTooShort {
        timeout: lengths.timeout,
        lag: lengths.lag,
        margin: lengths.margin,
        heartbeat: lengths.heartbeat,
    }
}
