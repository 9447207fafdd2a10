//! Requests that wait for a commit, and what waits behind them.

use std::collections::{BTreeMap, VecDeque};

use crate::{id::ConnectionId, operation::Operation, prep::Asker};

#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Who gets the reply, if the client is connected to this server.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) asker: Asker,
    pub(crate) operation: Operation,
    /// The leader refuses to read for this session.
    pub(crate) refused: Option<i32>,
}

#[derive(Debug, Default)]
pub(crate) struct CommitQueue {
    /// Every request of this server's clients that waits for its commit, by session and number.
    writes: VecDeque<(i64, i32)>,
    sessions: BTreeMap<i64, VecDeque<(bool, Request)>>,
}

impl CommitQueue {
    /// (f) A request waits for its own commit, or behind another one of its session that does: pings, too. A request
    /// that does not wait comes back.
    pub(crate) fn push(&mut self, request: Request, waits: bool) -> Option<Request> {
        let session = request.asker.session;
        if waits {
            self.writes.push_back((session, request.asker.xid));
        } else if !self.sessions.contains_key(&session) {
            return Some(request);
        }
        self.sessions.entry(session).or_default().push_back((waits, request));
        None
    }

    /// A transaction is committed. If it is the first request that this server waits for, the request comes back.
    pub(crate) fn commit(&mut self, session: i64, xid: i32) -> Option<Request> {
        if self.writes.front() != Some(&(session, xid)) {
            return None;
        }
        self.writes.pop_front();
        self.sessions.get_mut(&session)?.pop_front().map(|(_, request)| request)
    }

    /// What no longer waits in this session.
    pub(crate) fn release(&mut self, session: i64) -> Option<Request> {
        let requests = self.sessions.get_mut(&session)?;
        match requests.front() {
            None => {
                self.sessions.remove(&session);
                None
            }
            Some((true, _)) => None,
            Some((false, _)) => requests.pop_front().map(|(_, request)| request),
        }
    }
}
