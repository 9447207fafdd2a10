//! One server: what happens to it, and when.

use std::{collections::VecDeque, time::Duration};

use crate::config::Config;
use crate::connection::Connections;
use crate::disk::Disk;
use crate::election::Standing;
use crate::event::{Effect, Event};
use crate::id::{Now, ServerId};
use crate::message::PeerMessage;
use crate::operation::{Operation, Write};
use crate::prep::{Asker, Preparation};
use crate::queue::{CommitQueue, Request};
use crate::role::{Leading, Role};
use crate::sessions::{Owner, milliseconds};
use crate::tree::{Ephemeral, Tree};
use crate::watches::Watches;

/// The pause between the deletions of two containers: ten thousand a minute.
const CONTAINER_PAUSE: Duration = Duration::from_millis(6);

/// A simulated ZooKeeper server. It does nothing by itself: see the [crate].
#[derive(Debug)]
pub struct Server {
    pub(crate) config: Config,
    pub(crate) disk: Disk,
    pub(crate) tree: Tree,
    pub(crate) role: Role,
    pub(crate) connections: Connections,
    pub(crate) watches: Watches,
    pub(crate) queue: CommitQueue,
    pub(crate) numbers: Numbers,
    /// Followers that have heard before this server that it leads.
    pub(crate) early: Vec<(ServerId, PeerMessage)>,
    /// Whether it has too much to do for what clients ask.
    pub(crate) throttles: bool,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// Numbers that a server goes on from, whatever happens to it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) session: i64,
    /// The first session id since the server served last.
    pub(crate) first: i64,
    /// Of the connection to a leader.
    pub(crate) link: u64,
}

/// What happens now, and what the server does about it.
pub(crate) struct Turn<'a> {
    pub(crate) now: Now,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Server {
    /// A server with an empty disk. A standalone server serves from its first event on, one of an ensemble once it has heard
    /// of a leader.
    pub fn new(config: Config) -> Self {
        let disk = Disk::new(&config);
        Self::start(config, disk, Numbers::default())
    }

    /// The server after a crash: what is logged on its disk survives, and nothing else. Its connections are gone
    /// without a word; the driver tells the other ends.
    pub fn restart(self) -> Self {
        Self::start(self.config, self.disk, self.numbers)
    }

    /// The server after a loss of its disk.
    pub fn lose_disk(self) -> Self {
        let disk = Disk::new(&self.config);
        Self::start(self.config, disk, self.numbers)
    }

    fn start(config: Config, disk: Disk, numbers: Numbers) -> Self {
        Self {
            tree: disk.load(),
            role: if config.voters == 1 { Role::Starting } else { Role::Looking },
            connections: Connections::new(),
            watches: Watches::new(config.version),
            queue: CommitQueue::default(),
            numbers,
            early: Vec::new(),
            throttles: false,
            received: 0,
            sent: 0,
            config,
            disk,
        }
    }

    /// What the server was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The last transaction that the server has applied. If it serves clients, that is committed.
    pub fn zxid(&self) -> i64 {
        self.tree.zxid
    }

    /// Whether the server serves clients.
    pub fn serves(&self) -> bool {
        self.role.serves()
    }

    /// Whether the server serves clients, and leads.
    pub fn leads(&self) -> bool {
        self.role.serves() && matches!(self.role, Role::Leading(_))
    }

    /// The nodes that go with a session, as far as the server has applied.
    pub fn ephemerals(&self) -> impl Iterator<Item = Ephemeral<'_>> {
        self.tree.ephemeral_nodes()
    }

    /// Whether the tree has a node that was created by this transaction, as far as the server has applied it.
    pub fn has_node(&self, czxid: i64) -> bool {
        self.tree.was_created(czxid)
    }

    /// Until when a session lasts if nobody touches it, if this server leads and serves, and has not expired it: one timeout after the
    /// last touch, by the server's monotonic clock. The leader expires it by its next tick.
    pub fn lasts(&self, session: i64) -> Option<Duration> {
        match &self.role {
            Role::Leading(leading) if self.role.serves() => leading.preparation.sessions.lasts(session),
            _ => None,
        }
    }

    /// The sessions that this leader has expired since this was asked last, and those that it expires sooner than it would have,
    /// because of a touch with a shorter timeout. Each with what [`lasts`](Self::lasts) says of it, or said last.
    pub fn sooner(&mut self) -> Vec<(i64, Duration)> {
        match &mut self.role {
            Role::Leading(leading) => leading.preparation.sessions.sooner(),
            Role::Starting | Role::Looking | Role::Following(_) => Vec::new(),
        }
    }

    /// What the server brings to an election.
    pub fn standing(&self) -> Standing {
        let leader = match &self.role {
            Role::Starting | Role::Looking => None,
            Role::Leading(_) => Some(self.config.id),
            Role::Following(following) => Some(following.leader),
        };
        let (accepted, current) = (self.disk.accepted, self.disk.current);
        Standing { id: self.config.id, leader, accepted, current, logged: self.disk.logged() }
    }

    /// The monotonic time of the next [`Event::Wake`] that the server wants.
    pub fn next_wake(&self) -> Option<Duration> {
        let role = match &self.role {
            Role::Starting => Some(Duration::ZERO),
            Role::Looking => None,
            Role::Following(following) => Some(following.deadline),
            Role::Leading(leading) => match &leading.reign {
                Some(reign) if !reign.established => Some(reign.patience),
                reign => {
                    let containers = self.tree.has_containers() || !leading.dying.is_empty();
                    let check = containers.then_some(leading.container_check);
                    let half = reign.as_ref().map(|reign| reign.next_half);
                    let commit =
                        reign.as_ref().and_then(|reign| reign.committed.front()).map(|(due, _)| *due);
                    let waiting = leading.waiting.front().map(|(due, _)| *due);
                    let sessions = leading.preparation.sessions.next();
                    let followers = reign.iter().flat_map(|reign| reign.followers.values());
                    let silent = followers.map(|follower| follower.patience).min();
                    [sessions, waiting, check, half, commit, silent].into_iter().flatten().min()
                }
            },
        };
        [role, self.connections.next_idle()].into_iter().flatten().min()
    }

    /// Handles one event, and appends what the server does. `now` may not go back, except for the wall clock, and except
    /// after a restart.
    ///
    /// What is due is done by [`Event::Wake`] and [`Event::Expiry`], and by no other event.
    pub fn handle(&mut self, now: Now, event: Event, effects: &mut Vec<Effect>) {
        let turn = &mut Turn { now, effects };
        if matches!(self.role, Role::Starting) {
            self.lead_alone(turn);
        }
        match event {
            Event::Accepted(connection) => {
                self.connections.accept(connection, &self.config.client_address, now.monotonic);
            }
            Event::Received(connection, bytes) => {
                self.connections.receive(connection, &bytes, now.monotonic);
                self.read(connection, turn);
            }
            Event::Closed(connection) => self.forget(connection),
            Event::FromPeer(peer, message) => self.hear(peer, message, turn),
            Event::PeerGone(peer) => self.peer_gone(peer, turn),
            Event::Elected(appointment) => self.appoint(appointment, turn),
            Event::Expire(session) => self.expire(session, turn),
            Event::Delete(paths) => self.delete(paths, turn),
            Event::Throttle(throttles) => self.throttles = throttles,
            Event::Expiry => self.expire_silent(turn),
            Event::Wake => {
                self.expire_silent(turn);
                self.delete_containers(turn);
                self.pass_time(turn);
            }
        }
    }

    fn lead_alone(&mut self, turn: &Turn<'_>) {
        self.number_sessions(turn);
        self.role = Role::Leading(Box::new(self.leading(self.tree.zxid, turn)));
    }

    /// A leader without followers, whose next transaction is behind this one.
    pub(crate) fn leading(&self, zxid: i64, turn: &Turn<'_>) -> Leading {
        Leading {
            preparation: Preparation::new(zxid, &self.config, turn.now, &self.tree),
            container_check: turn.now.monotonic + self.config.container_check,
            dying: Vec::new(),
            waiting: VecDeque::new(),
            reign: None,
        }
    }

    /// Session ids begin at the uptime, with the server's number before it. So they may come again once the machine, with
    /// its monotonic clock, has started again. No real server starts twice in a millisecond: then they go on here.
    pub(crate) fn number_sessions(&mut self, turn: &Turn<'_>) {
        let id = i64::from(self.config.id.0);
        let uptime = milliseconds(turn.now.monotonic) as i64;
        let first = ((uptime << 24) as u64 >> 8) as i64 | id << 56;
        if self.numbers.first != first {
            (self.numbers.first, self.numbers.session) = (first, first);
        }
    }

    fn expire(&mut self, session: i64, turn: &mut Turn<'_>) {
        if self.role.serves()
            && let Role::Leading(leading) = &mut self.role
            && leading.preparation.sessions.end(session)
        {
            self.submit(self.internal(session, Write::CloseSession), turn);
        }
    }

    fn delete(&mut self, paths: Vec<String>, turn: &mut Turn<'_>) {
        if self.leads() {
            let deletes = paths.into_iter().map(|path| Write::Delete { path, version: -1 });
            self.submit(self.internal(0, Write::Multi(deletes.collect())), turn);
        }
    }

    /// (a) Expires what was silent for too long: sessions and connections.
    fn expire_silent(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.monotonic;
        // A leader that has no majority yet expires nobody.
        while self.role.serves() {
            let Role::Leading(leading) = &mut self.role else { break };
            let Some(session) = leading.preparation.sessions.expire(now) else { break };
            self.submit(self.internal(session, Write::CloseSession), turn);
        }
        while let Some(connection) = self.connections.expire(now) {
            self.close(connection, turn);
        }
    }

    /// (n) Containers that have become empty are deleted some time later, each in a transaction of its own. One of them
    /// may have got a child meanwhile, or be gone: then its deletion fails.
    fn delete_containers(&mut self, turn: &mut Turn<'_>) {
        let (interval, now, serves) = (self.config.container_check, turn.now, self.role.serves());
        let Self { role: Role::Leading(leading), tree, .. } = self else { return };
        if !serves || leading.container_check > now.monotonic {
            return;
        }
        if leading.dying.is_empty() {
            leading.dying = tree.dying();
            leading.dying.reverse();
        }
        let dying = leading.dying.pop();
        let more = !leading.dying.is_empty();
        leading.container_check = now.monotonic + if more { CONTAINER_PAUSE } else { interval };
        if let Some(path) = dying {
            self.submit(self.internal(0, Write::DeleteContainer(path)), turn);
        }
    }

    /// By whom the requests of this server's clients come, if it leads.
    pub(crate) fn itself(&self) -> Owner {
        Owner { server: self.config.id, link: 0 }
    }

    /// A request of this server itself.
    pub(crate) fn internal(&self, session: i64, write: Write) -> Request {
        let asker = Asker { session, xid: 0, by: self.itself(), identities: Vec::new() };
        Request { connection: None, asker, operation: Operation::Write(write), refused: None }
    }
}
