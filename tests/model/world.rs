//! Clients, their sessions, the network and the server.

use crate::contender::Contender;
use crate::findings::Breach;
use crate::server::{Party, Server};
use crate::session::Session;
use crate::setup::{Faults, Setup};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) sessions: Vec<Session>,
    pub(crate) contenders: Vec<Contender>,
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
            sessions: vec![Session::new(); sessions],
            contenders: setup.contenders.iter().map(contender).collect(),
            faults: setup.faults,
            last_token: 0,
            breach: None,
        }
    }

    pub(crate) fn members(&self, session: usize) -> impl Iterator<Item = Party> + use<> {
        let members =
            self.contenders.iter().enumerate().filter(move |(_, contender)| contender.session == session);
        members.map(|(party, _)| party).collect::<Vec<_>>().into_iter()
    }
}
