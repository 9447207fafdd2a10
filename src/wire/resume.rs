//! The connections of one ZooKeeper session, one after the other.
//!
//! This task holds the present connection. It resumes the session on another server when that connection is lost, and
//! closes the session in the end. Before anybody else uses a new connection, a quorum must acknowledge a write on it.
//! That confirms that the server which resumed the session belongs to a quorum. It also makes the server catch up, so
//! that no later read on this connection is older than what the session has seen before: a client that resumes a
//! session does not tell the server how far it has read.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};
use zklock_recipe::{Sent, SessionEnd};
use zookeeper_client::{Error, SessionInfo, SessionState};

use super::connection::Connection;
use super::dialer::{Dialer, Opened, ROUNDS, pauses, silence};
use super::link::Link;
use crate::wire::servers::Server;
use crate::wire::shared_lease::SharedLease;
use crate::{clock, requests};

/// The pause after the first round in which no server resumed the session. Each further pause is twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause is this part of the session timeout, and up to as much again by chance. It is short, because an
/// outage may end shortly before the session does.
const PAUSES: u32 = 40;

/// How the end of a session is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// A server has closed the session, so its nodes are gone.
    Confirmed,
    /// The client has ended the session, or a server said so that may be wrong.
    Unconfirmed,
}

/// The task that holds the connections.
pub(crate) struct Connections {
    pub(crate) session: SessionInfo,
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) lease: Arc<SharedLease>,
    pub(crate) link: watch::Sender<Link>,
    pub(crate) over: watch::Sender<Option<Closing>>,
}

/// A connection, served in a separate task. Dropping it stops the task at once: a client that is dropped while it is connected
/// would close the session.
struct Served {
    connection: Arc<Connection>,
    task: JoinSet<SessionState>,
}

impl Served {
    fn start(number: u64, opened: Opened) -> Self {
        let connection = Connection::new(number, Arc::new(opened.client));
        let mut task = JoinSet::new();
        task.spawn(opened.serving.with(connection.clone()));
        task.spawn(connection.clone().remove_watches());
        Self { connection, task }
    }

    /// Resolves to the client's last state once the connection is gone.
    async fn gone(&mut self) -> SessionState {
        // The task ends early only if its runtime shuts down.
        self.task.join_next().await.and_then(Result::ok).unwrap_or(SessionState::Disconnected)
    }
}

impl Connections {
    /// Runs until the session is over: a server says so, the session was closed, or zklock gives it up.
    ///
    /// What is seldom done is boxed, so that a session does not keep the memory for it all its life.
    pub(crate) async fn run(self, first: Opened) {
        let mut served = Served::start(0, first);
        let mut next_silence = Instant::now();
        let closing = loop {
            self.link.send_replace(Link::Up(served.connection.clone()));
            let state = tokio::select! {
                state = served.gone() => state,
                () = self.falls_silent(next_silence) => {
                    next_silence = Instant::now() + self.lease.lengths().timeout;
                    SessionState::Disconnected
                }
                end = self.lease.over() => break self.finish(end, Some(served)).boxed().await,
            };
            warn!("the connection to ZooKeeper is lost");
            self.link.send_replace(Link::Down);
            self.lease.disconnected();
            drop(served);
            if let Some(end @ SessionEnd::Expired) = requests::end(state) {
                break self.ended(end);
            }
            served = tokio::select! {
                resumed = self.resume().boxed() => match resumed {
                    Ok(served) => served,
                    Err(closing) => break closing,
                },
                end = self.lease.over() => break self.finish(end, None).boxed().await,
            };
            info!("connected to ZooKeeper");
        };
        self.over.send_replace(Some(closing));
    }

    /// Resolves once the server has left a heartbeat unanswered for a third of the session timeout or somewhat more, though
    /// another connection is answered. zookeeper-client waits for as long as any bytes come, and a server that lives only just
    /// sends some. A server is given up for this once a lease at most, and not before `next`: replies that are long are late, too.
    async fn falls_silent(&self, next: Instant) {
        let mut heard = self.lease.heard();
        loop {
            let lengths = self.lease.lengths();
            // The clients of one server do not all leave it together.
            let patience = silence(lengths.timeout).mul_f64(1.0 - fastrand::f64() / 5.0);
            if timeout(lengths.heartbeat + patience, heard.changed()).await.is_ok() {
                continue;
            }
            let answered = async {
                sleep_until(next).await;
                self.dialer.another_answers().await
            };
            tokio::select! {
                _ = heard.changed() => {}
                is_answered = answered => if is_answered {
                    warn!("the server answers no heartbeat, and another connection is answered");
                    return;
                }
            }
        }
    }

    /// Takes in that a server says that the session is over. Only a server that has closed the session has asked a
    /// quorum: a leader that is partitioned expires the sessions that it does not hear of.
    fn ended(&self, end: SessionEnd) -> Closing {
        self.lease.ended(end);
        match end {
            SessionEnd::Closed => Closing::Confirmed,
            SessionEnd::Expired => Closing::Unconfirmed,
        }
    }

    /// Cleans up a session whose lease has ended.
    async fn finish(&self, end: SessionEnd, served: Option<Served>) -> Closing {
        self.link.send_replace(Link::Over(end));
        match end {
            SessionEnd::Closed => self.close(served).await,
            // A server reported this end in an answer.
            end => self.ended(end),
        }
    }

    /// Asks a server to close the session. After a session timeout the session has expired by itself.
    async fn close(&self, mut served: Option<Served>) -> Closing {
        let closing = async {
            loop {
                let mut present = match served.take() {
                    Some(served) => served,
                    None => {
                        debug!("the session has no connection, so zklock opens another one to close it");
                        match self.ask_servers(&[]).await {
                            // Nobody sends requests on this connection, so its number does not matter.
                            Ok((_, opened)) => Served::start(u64::MAX, opened),
                            Err(end) => return self.ended(end),
                        }
                    }
                };
                present.connection.finish_requests().await;
                // A client that is dropped asks its server to close the session.
                present.connection.give_up();
                match requests::end(present.gone().await) {
                    Some(end) => return self.ended(end),
                    None => drop(present),
                }
            }
        };
        timeout(self.lease.lengths().timeout, closing).await.unwrap_or(Closing::Unconfirmed)
    }

    /// Resumes the session. If no server has resumed it for a session timeout after its connection was lost, zklock
    /// gives it up: the ensemble has expired it by then, or the whole ensemble is away.
    async fn resume(&self) -> Result<Served, Closing> {
        match timeout(self.lease.lengths().timeout, self.reconnect()).await {
            Ok(Ok(served)) => Ok(served),
            Ok(Err(end)) => Err(self.ended(end)),
            Err(_) => {
                warn!(
                    "no server has resumed the ZooKeeper session for a session timeout; zklock gives it up"
                );
                self.lease.ended(SessionEnd::Expired);
                Err(Closing::Unconfirmed)
            }
        }
    }

    /// Resumes the session on a server, and returns once a quorum has acknowledged a write through that server.
    async fn reconnect(&self) -> Result<Served, SessionEnd> {
        let mut refused = Vec::<&Server>::new();
        loop {
            let (server, opened) = self.ask_servers(&refused).await?;
            if opened.granted < self.lease.lengths().timeout {
                debug!(granted = ?opened.granted, "a server grants less than the one before, as it resumes the session");
            }
            let Ok(number) = self.lease.resumed(opened.granted) else {
                // Heartbeats cannot keep a lease in this session any more, whichever server resumes it. The next
                // session may find a server that grants more, or reports the problem to the user.
                warn!(granted = ?opened.granted, "the server grants a session timeout that is too short for a lease");
                return Err(SessionEnd::Expired);
            };
            let mut served = Served::start(number, opened);
            let sent = Sent { connection: number, at: clock::now() };
            let barrier = async {
                let wire = served.connection.wire()?;
                wire.request(|wire| requests::heartbeat(wire.client)).await
            };
            if let Ok(Some(answer)) = timeout(silence(self.lease.lengths().timeout), barrier).await {
                self.lease.credit(&answer, sent);
                if answer.is_ok() {
                    return Ok(served);
                }
            }
            debug!("a server has resumed the session, and no quorum acknowledges a write there");
            self.lease.disconnected();
            let state = timeout(Duration::ZERO, served.gone()).await;
            if let Some(end @ SessionEnd::Expired) = state.ok().and_then(requests::end) {
                return Err(end);
            }
            drop(served);
            refused.retain(|other| !ptr::eq(*other, server));
            refused.push(server);
            sleep(SHORTEST_PAUSE).await;
        }
    }

    /// Asks one server after the other, again and again, until one of them resumes the session. The refused ones resumed it before, and
    /// then took no write. They come last and in this order, so a server of which nothing is known comes before them.
    async fn ask_servers(&self, refused: &[&Server]) -> Result<(&Server, Opened), SessionEnd> {
        let longest = SHORTEST_PAUSE.max(self.lease.lengths().timeout / PAUSES);
        let mut pauses = pauses(SHORTEST_PAUSE, longest);
        // The one that served last may be silent still.
        let mut servers = self.dialer.servers.last_one_first();
        servers.reverse();
        self.dialer.servers.served(None);
        let mut round = 0;
        loop {
            servers.sort_by_key(|server| {
                let refused = refused.iter().position(|it| ptr::eq(*it, *server));
                (refused.map_or(0, |position| position + 1), server.granted().is_none())
            });
            let number = servers.len();
            let mut rejections = 0;
            for server in &servers {
                // Once the request reaches the server, the leader goes by the timeout that this server grants, even if
                // the answer is lost. So the session goes to no server before that timeout is known.
                let Some(least) = self.dialer.least_grant(server, round).await else { continue };
                if !self.lease.attempting(least) {
                    debug!(
                        ?least,
                        "no request to resume the session is sent now: it might bring the end of the lease nearer"
                    );
                    continue;
                }
                match self.dialer.resume(server, &self.session, round).await {
                    Ok(opened) => return Ok((server, opened)),
                    Err(Error::SessionExpired) => {
                        debug!("a server says that the session has expired");
                        return Err(SessionEnd::Expired);
                    }
                    Err(error) => {
                        debug!(%error, "a server does not resume the session");
                        rejections += usize::from(matches!(error, Error::AuthFailed));
                        self.lease.attempt_failed();
                    }
                }
            }
            // Each of these answers has touched the session, so it would live on for as long as zklock asks.
            if rejections == number {
                return Err(SessionEnd::Expired);
            }
            sleep(pauses.next().unwrap_or(SHORTEST_PAUSE)).await;
            round = (round + 1) % ROUNDS;
        }
    }
}

impl Drop for Connections {
    /// Without this task nobody holds a connection: the session is over, or its runtime is shutting down.
    fn drop(&mut self) {
        self.lease.ended(SessionEnd::Closed);
        let end = self.lease.end().unwrap_or(SessionEnd::Closed);
        self.link.send_replace(Link::Over(end));
    }
}
