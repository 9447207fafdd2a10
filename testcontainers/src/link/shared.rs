//! What the threads of a link share: its connections, its rules, its counts, and whether bytes may pass.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::connection::{Connection, Toward};
use super::counts::Tally;
use super::frame::Framer;
use super::kind::RequestKind;
use super::rule::{Action, Rule, Stage};
use crate::listener::abort;

#[derive(Debug)]
pub(crate) struct Shared {
    /// Cuts what passes into frames.
    pub(super) framer: Framer,
    control: Mutex<Control>,
    /// Signalled when a thread that waits on `control` should look again.
    changed: Condvar,
}

/// What a link is told to do, and what it has seen.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Where new connections lead.
    pub(crate) upstream: String,
    /// Half the added round trip.
    pub(super) one_way: Duration,
    pub(super) black_hole: bool,
    /// Whether nothing passes toward the server, and toward the client.
    pub(super) stalled: [bool; 2],
    pub(super) refuse: bool,
    pub(super) renew_sessions: bool,
    /// The pause between two bytes toward clients.
    pub(super) drip: Option<Duration>,
    pub(super) rules: Vec<Arc<Rule>>,
    pub(super) tally: Tally,
    next_id: u64,
    connections: HashMap<u64, Arc<Connection>>,
    /// Connections accepted during a black hole. The server never hears of them.
    stillborn: Vec<TcpStream>,
}

impl Control {
    pub(super) fn connections(&self) -> usize {
        self.connections.len() + self.stillborn.len()
    }

    pub(super) fn end_stillborn(&mut self) {
        for client in self.stillborn.drain(..) {
            abort(&client);
        }
    }
}

impl Shared {
    pub(super) fn new(upstream: String, framer: Framer) -> Arc<Self> {
        Arc::new(Self {
            framer,
            control: Mutex::new(Control { upstream, ..Control::default() }),
            changed: Condvar::new(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Control> {
        // The state is consistent at every step, so a panic elsewhere does not spoil it.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what the link is told, and wakes the threads that wait for such a change.
    pub(super) fn change(&self, change: impl FnOnce(&mut Control)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Takes a client's connection in. Returns it if it is to be served now.
    pub(super) fn admit(&self, client: TcpStream) -> Option<Arc<Connection>> {
        let mut control = self.lock();
        if control.refuse {
            abort(&client);
            return None;
        }
        if control.black_hole {
            control.stillborn.push(client);
            return None;
        }
        let connection = Connection::new(control.next_id, client);
        control.next_id += 1;
        control.connections.insert(connection.id, connection.clone());
        Some(connection)
    }

    pub(super) fn cut(&self) {
        let mut control = self.lock();
        let connections: Vec<_> = control.connections.values().cloned().collect();
        control.end_stillborn();
        drop(control);
        for connection in connections {
            self.close(&connection);
        }
    }

    /// Closes a connection. Rules that waited for its replies wait for other requests again.
    pub(super) fn close(&self, connection: &Connection) {
        connection.close();
        let unmet = connection.take_unmet_rules();
        self.change(|control| {
            control.connections.remove(&connection.id);
            control.rules.splice(0..0, unmet);
        });
    }

    /// Waits until bytes may pass toward this end. Returns false once the connection is closed.
    pub(crate) fn wait_open(&self, connection: &Connection, toward: Toward) -> bool {
        self.wait_while(connection, |control| control.black_hole || control.stalled[toward as usize])
    }

    /// Waits until the next byte toward a client is due. Returns false if it need not wait, because nothing drips.
    pub(super) fn wait_drip(&self, connection: &Connection) -> bool {
        let control = self.lock();
        let Some(pause) = control.drip else { return false };
        let goes_on = |control: &mut Control| control.drip.is_some() && !connection.is_closed();
        drop(self.changed.wait_timeout_while(control, pause, goes_on));
        true
    }

    /// Waits until the test lets go of `rule`. Returns false once the connection is closed.
    pub(super) fn wait_released(&self, connection: &Connection, rule: &Rule) -> bool {
        self.wait_while(connection, |_| rule.stage() < Stage::Over)
    }

    fn wait_while(&self, connection: &Connection, is_so: impl Fn(&Control) -> bool) -> bool {
        let waits = |control: &mut Control| is_so(control) && !connection.is_closed();
        drop(self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner));
        !connection.is_closed()
    }

    /// Ends a rule, met or not.
    pub(super) fn finish(&self, rule: &Arc<Rule>) {
        self.change(|control| {
            control.rules.retain(|it| !Arc::ptr_eq(it, rule));
            rule.advance(Stage::Over);
        });
    }

    /// Counts a request, and takes the rules that want it: one for the request itself, one for its reply.
    pub(super) fn note_request(
        &self,
        kind: RequestKind,
        length: usize,
    ) -> (Option<Arc<Rule>>, Option<Arc<Rule>>) {
        let mut control = self.lock();
        control.tally.request(kind, length);
        let mut take = |of_request: bool| {
            let wants = |rule: &Arc<Rule>| {
                (rule.action == Action::HoldRequest) == of_request && rule.kind.matches(kind)
            };
            let index = control.rules.iter().position(wants)?;
            Some(control.rules.remove(index))
        };
        (take(true), take(false))
    }
}
