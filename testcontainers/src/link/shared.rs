//! What the threads of a link share: its connections, its rules, its counts, and whether bytes may pass.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};
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
    /// Half the added round trip, in nanoseconds.
    one_way: AtomicU64,
    control: Mutex<Control>,
    /// Signalled when a thread that waits on `control` should look again.
    changed: Condvar,
}

/// What a link is told to do, and what it has seen.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Where new connections lead.
    pub(crate) upstream: String,
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

    fn end_stillborn(&mut self) {
        for client in self.stillborn.drain(..) {
            abort(&client);
        }
    }
}

impl Shared {
    pub(super) fn new(upstream: String, framer: Framer) -> Arc<Self> {
        Arc::new(Self {
            framer,
            one_way: AtomicU64::new(0),
            control: Mutex::new(Control { upstream, ..Control::default() }),
            changed: Condvar::new(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Control> {
        // The state is consistent at every step, so a panic elsewhere does not spoil it.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn one_way(&self) -> Duration {
        Duration::from_nanos(self.one_way.load(Ordering::SeqCst))
    }

    pub(super) fn set_one_way(&self, delay: Duration) {
        self.one_way.store(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
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

    /// Ends a black hole, and the connections that were made meanwhile.
    pub(super) fn restore(&self) {
        let mut control = self.lock();
        control.black_hole = false;
        control.end_stillborn();
        drop(control);
        self.changed.notify_all();
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
        let mut control = self.lock();
        control.connections.remove(&connection.id);
        control.rules.splice(0..0, unmet);
        drop(control);
        self.changed.notify_all();
    }

    /// Holds back what goes toward one end, or passes it on.
    pub(super) fn set_stalled(&self, toward: Toward, stalled: bool) {
        self.lock().stalled[toward as usize] = stalled;
        self.changed.notify_all();
    }

    /// Slows what goes toward clients, or no more.
    pub(super) fn set_drip(&self, pause: Option<Duration>) {
        self.lock().drip = pause;
        self.changed.notify_all();
    }

    /// Waits until bytes may pass toward this end. Returns false once the connection is closed.
    pub(crate) fn wait_open(&self, connection: &Connection, toward: Toward) -> bool {
        let control = self.changed.wait_while(self.lock(), |it| {
            (it.black_hole || it.stalled[toward as usize]) && !connection.is_closed()
        });
        drop(control.unwrap_or_else(PoisonError::into_inner));
        !connection.is_closed()
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
        let control = self.lock();
        let control =
            self.changed.wait_while(control, |_| rule.stage() < Stage::Over && !connection.is_closed());
        drop(control.unwrap_or_else(PoisonError::into_inner));
        !connection.is_closed()
    }

    /// Ends a rule, met or not.
    pub(super) fn finish(&self, rule: &Arc<Rule>) {
        let mut control = self.lock();
        control.rules.retain(|it| !Arc::ptr_eq(it, rule));
        rule.advance(Stage::Over);
        drop(control);
        self.changed.notify_all();
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
