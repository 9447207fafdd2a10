//! One client's connection through a link: its two sockets, its two lanes, and the requests that wait for replies.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use super::kind::RequestKind;
use super::lane::Lane;
use super::rule::{Rule, Stage};
use crate::listener::abort;

/// Which of its two ends a connection passes bytes to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Toward {
    Server,
    Client,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) id: u64,
    client: TcpStream,
    server: OnceLock<TcpStream>,
    /// Toward the server, and toward the client.
    lanes: [Lane; 2],
    closed: AtomicBool,
    /// Requests whose replies are still to come, each with its transaction id.
    pending: Mutex<VecDeque<(i32, Pending)>>,
}

/// A request whose reply is still to come.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) kind: RequestKind,
    /// The rule for the reply.
    pub(super) rule: Option<Arc<Rule>>,
}

impl Connection {
    pub(super) fn new(id: u64, client: TcpStream) -> Arc<Self> {
        Arc::new(Self {
            id,
            client,
            server: OnceLock::new(),
            lanes: Default::default(),
            closed: AtomicBool::new(false),
            pending: Mutex::default(),
        })
    }

    pub(super) fn set_server(&self, server: TcpStream) {
        let _ = self.server.set(server);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Closes both sockets, and wakes every thread of this connection except those that wait on the link's state.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.lanes.iter().for_each(Lane::close);
        abort(&self.client);
        if let Some(server) = self.server.get() {
            abort(server);
        }
    }

    pub(super) fn lane(&self, toward: Toward) -> &Lane {
        &self.lanes[toward as usize]
    }

    /// The socket that bytes come from.
    pub(crate) fn source(&self, toward: Toward) -> Option<&TcpStream> {
        match toward {
            Toward::Server => Some(&self.client),
            Toward::Client => self.server.get(),
        }
    }

    /// The socket that bytes go to.
    pub(super) fn target(&self, toward: Toward) -> Option<&TcpStream> {
        match toward {
            Toward::Server => self.server.get(),
            Toward::Client => Some(&self.client),
        }
    }

    pub(super) fn expect_reply(&self, xid: i32, request: Pending) {
        self.pending().push_back((xid, request));
    }

    /// The request that a reply belongs to. Several may have one transaction id, as pings do.
    pub(super) fn take_request(&self, xid: i32) -> Option<Pending> {
        let mut pending = self.pending();
        let index = pending.iter().position(|(of, _)| *of == xid)?;
        pending.remove(index).map(|(_, request)| request)
    }

    /// Rules that wait for a reply which this connection will not see any more.
    pub(super) fn take_unmet_rules(&self) -> Vec<Arc<Rule>> {
        let mut pending = self.pending();
        let rules = pending.drain(..).filter_map(|(_, request)| request.rule);
        rules.filter(|rule| rule.stage() == Stage::Armed).collect()
    }

    fn pending(&self) -> MutexGuard<'_, VecDeque<(i32, Pending)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
