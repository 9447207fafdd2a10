//! Clients, their sessions, the network and the server.

use std::hash::{Hash, Hasher};

use super::contender::{Contender, Pending};
use super::follower::Follower;
use super::foreigner::Foreigner;
use super::nodes::Party;
use super::server::Server;
use super::session::{Number, Session};
use super::setup::{Actor, Setup};
use super::tree::{Node, Path, Tree};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) leader: Server,
    pub(crate) follower: Option<Follower>,
    /// Time by the clients' clock, if the setup has one.
    pub(crate) now: u8,
    /// How far the leader's clock is ahead of that.
    pub(crate) ahead: u8,
    /// When the leader last pinged its follower.
    pub(crate) pinged: u8,
    pub(crate) sessions: Vec<Session>,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) foreigners: Vec<Foreigner>,
    /// The highest tokens granted so far, in each queue.
    pub(crate) tokens: Vec<Tokens>,
}

/// The numbers of connections are compared only with that of the present one. So it is enough which of them are equal to it.
impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { leader, follower, now, ahead, pinged, sessions, contenders, foreigners, tokens } = self;
        (leader, follower, now, ahead, pinged, sessions, contenders, foreigners, tokens).hash(state);
        for session in sessions {
            let is_present = |number: Number| session.connection() == Some(number.0);
            session.down.iter().for_each(|(.., number)| is_present(*number).hash(state));
        }
        for contender in contenders {
            let present = sessions[contender.session].connection();
            let sights = contender.acquisition.sights();
            sights.for_each(|seen| (seen.is_some() && seen == present).hash(state));
        }
    }
}

/// The highest token granted so far: to anybody, and to an exclusive contender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tokens {
    pub(crate) any: i64,
    pub(crate) exclusive: i64,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let sessions = setup.contenders.iter().map(|actor| actor.session + 1).max().unwrap_or(0);
        let leader = Server::new(Tree::new(setup.queues(), setup.directory));
        let contender = |actor: &Actor| Contender::new(actor, actor.seats.iter().map(|_| setup.takeover));
        Self {
            follower: (!setup.following.is_empty()).then(|| Follower::new(leader.clone())),
            now: 0,
            ahead: 0,
            pinged: 0,
            sessions: (0..sessions).map(|session| Session::new(setup, session)).collect(),
            contenders: setup.contenders.iter().map(contender).collect(),
            foreigners: setup.foreigners.iter().copied().map(Foreigner::new).collect(),
            tokens: vec![Tokens::default(); setup.queues()],
            leader,
        }
    }

    /// The server that the session is connected to, or was last.
    pub(crate) fn server_of(&self, session: usize) -> &Server {
        match &self.follower {
            Some(follower) if self.sessions[session].follows => &follower.server,
            _ => &self.leader,
        }
    }

    pub(crate) fn server_of_mut(&mut self, session: usize) -> &mut Server {
        match &mut self.follower {
            Some(follower) if self.sessions[session].follows => &mut follower.server,
            _ => &mut self.leader,
        }
    }

    /// Time by the leader's clock.
    pub(crate) fn leader_time(&self) -> u8 {
        self.now + self.ahead
    }

    /// Whether the lease is there that the contender waits for.
    pub(crate) fn is_assured(&self, party: Party) -> bool {
        let contender = &self.contenders[party];
        contender.joint == Some(Pending::Lease)
            && self.sessions[contender.session].present(self.now).term.is_ok()
    }

    pub(crate) fn contenders_of(&self, session: usize) -> impl Iterator<Item = Party> + use<> {
        let of_session =
            self.contenders.iter().enumerate().filter(move |(_, contender)| contender.session == session);
        of_session.map(|(party, _)| party).collect::<Vec<_>>().into_iter()
    }

    /// A node that a late create has made, and that nobody knows.
    pub(crate) fn late_node(&self, session: usize) -> Option<Path> {
        let tree = &self.leader.tree;
        let nodes = self.sessions[session].late.iter().filter_map(|(party, queue)| {
            let contender = &self.contenders[*party];
            let own = contender.seat_in(*queue).and_then(|seat| contender.acquisition.own(seat));
            let unknown = |node: &Node| own.is_none_or(|own| own.czxid != node.czxid);
            let is_late = |node: &Node| node.data.creator == *party && node.data.late && unknown(node);
            tree.find(*queue, is_late).map(|late| Path::Child(*queue, late.place))
        });
        nodes.into_iter().next()
    }

    /// The queue of a contender's seat.
    pub(crate) fn queue(&self, party: Party, seat: usize) -> usize {
        self.contenders[party].seats[seat].seat.queue
    }
}
