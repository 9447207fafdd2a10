//! Clients, their sessions, the network and the server.

use crate::contender::{Contender, Pending};
use crate::findings::Breach;
use crate::follower::Follower;
use crate::foreigner::Foreigner;
use crate::server::{Party, Server};
use crate::session::Session;
use crate::setup::{Faults, Setup};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// The leader.
    pub(crate) server: Server,
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
    pub(crate) faults: Faults,
    /// The highest token granted so far.
    pub(crate) last_token: i64,
    /// The first rule that a step has broken.
    pub(crate) breach: Option<Breach>,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let sessions = setup.contenders.iter().map(|(session, _)| session + 1).max().unwrap_or(0);
        let contender = |&(session, patience)| Contender::new(session, patience, setup.takeover);
        Self {
            server: Server::new(setup.directory),
            follower: (!setup.following.is_empty()).then(|| Follower::new(Server::new(setup.directory))),
            now: 0,
            ahead: 0,
            pinged: 0,
            sessions: (0..sessions).map(|session| Session::new(setup, session)).collect(),
            contenders: setup.contenders.iter().map(contender).collect(),
            foreigners: setup.foreigners.iter().copied().map(Foreigner::new).collect(),
            faults: setup.faults,
            last_token: 0,
            breach: None,
        }
    }

    /// The server that the session is connected to, or was last.
    pub(crate) fn server_of(&self, session: usize) -> &Server {
        match &self.follower {
            Some(follower) if self.sessions[session].follows => &follower.server,
            _ => &self.server,
        }
    }

    pub(crate) fn server_of_mut(&mut self, session: usize) -> &mut Server {
        match &mut self.follower {
            Some(follower) if self.sessions[session].follows => &mut follower.server,
            _ => &mut self.server,
        }
    }

    /// Time by the leader's clock.
    pub(crate) fn leader_time(&self) -> u8 {
        self.now + self.ahead
    }

    /// Whether the lease is there that the contender waits for.
    pub(crate) fn is_assured(&self, party: Party) -> bool {
        let contender = &self.contenders[party];
        contender.pending == Some(Pending::Lease)
            && self.sessions[contender.session].assurance.is_valid(self.now)
    }

    pub(crate) fn members(&self, session: usize) -> impl Iterator<Item = Party> + use<> {
        let members =
            self.contenders.iter().enumerate().filter(move |(_, contender)| contender.session == session);
        members.map(|(party, _)| party).collect::<Vec<_>>().into_iter()
    }
}
