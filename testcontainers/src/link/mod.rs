//! A TCP proxy between a client and a server that misbehaves on request and counts what passes.

mod connection;
mod frame;
mod kind;
mod lane;
mod rule;

use std::{
    collections::HashMap,
    net::{Ipv4Addr, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use connection::Connection;
use rule::{Action, Rule, Stage};

pub use kind::RequestKind;
pub use rule::{HeldReply, HeldRequest, LostReply};

use crate::{
    Error,
    listener::{Listener, abort, spawn},
};

/// A client's way to one server: a TCP proxy on loopback that can delay, lose, hold and count.
///
/// Connect to [`address`](Self::address) in place of the server. Dropping the link cuts its connections and frees its
/// port.
///
/// The proxy reads ZooKeeper's protocol, so it can name requests. A stream it cannot read, such as TLS or a four-letter
/// word, passes through uncounted.
#[derive(Debug)]
pub struct Link {
    shared: Arc<Shared>,
    listener: Listener,
}

/// What passed through a [`Link`] since it started, or since [`Link::reset_counts`].
///
/// Handshakes, pings and authentication are in none of the numbers but `pings`. A message counts when the link has read
/// it, also when it is then held or lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Requests from clients.
    pub requests: u64,
    /// Replies to them, errors included.
    pub replies: u64,
    /// Watch events.
    pub events: u64,
    /// Bytes of requests, with the four bytes of length in front of each.
    pub request_bytes: u64,
    /// Bytes of replies and watch events, with the four bytes of length in front of each.
    pub reply_bytes: u64,
    /// Pings from clients.
    pub pings: u64,
}

impl Link {
    /// Starts a proxy to `upstream`, a server's `host:port`.
    ///
    /// # Errors
    /// When no port on loopback can be bound.
    // Nothing here waits today; a link to elsewhere may have to.
    #[allow(clippy::unused_async)]
    pub async fn start(upstream: impl Into<String>) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            one_way: AtomicU64::new(0),
            control: Mutex::new(Control { upstream: upstream.into(), ..Control::default() }),
            changed: Condvar::new(),
        });
        let listener = Listener::start(Ipv4Addr::LOCALHOST, {
            let shared = shared.clone();
            move |client| shared.admit(client)
        })
        .map_err(Error::io("open a link on loopback"))?;
        Ok(Self { shared, listener })
    }

    /// Where clients connect to, as `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.listener.port())
    }

    /// Makes every round trip longer by `added`, half of it each way. Any number of messages may be under way at once.
    ///
    /// Applies to what arrives from now on; messages never overtake each other. Zero switches it off.
    pub fn set_round_trip(&self, added: Duration) {
        let one_way = u64::try_from(added.as_nanos() / 2).unwrap_or(u64::MAX);
        self.shared.one_way.store(one_way, Ordering::SeqCst);
    }

    /// Lets no byte pass either way, as if every packet were dropped. Connections stay open; new ones are accepted and
    /// get nothing.
    pub fn black_hole(&self) {
        self.shared.lock().black_hole = true;
    }

    /// Ends [`black_hole`](Self::black_hole).
    ///
    /// Connections that were open before go on, and what their ends sent meanwhile arrives now, as TCP's retransmissions
    /// would bring it. Connections made meanwhile are closed: on a real network they would not have come about.
    pub fn restore(&self) {
        let mut control = self.shared.lock();
        control.black_hole = false;
        for client in control.stillborn.drain(..) {
            abort(&client);
        }
        drop(control);
        self.shared.changed.notify_all();
    }

    /// Closes every current connection abruptly, for both ends. New ones are accepted.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Leads new connections to another server, `host:port`. Current ones stay.
    pub fn redirect(&self, upstream: impl Into<String>) {
        self.shared.lock().upstream = upstream.into();
    }

    /// Closes every new connection at once, until [`accept`](Self::accept). Current ones stay.
    pub fn refuse(&self) {
        self.shared.lock().refuse = true;
    }

    /// Ends [`refuse`](Self::refuse) and [`lose_handshakes`](Self::lose_handshakes).
    pub fn accept(&self) {
        let mut control = self.shared.lock();
        (control.refuse, control.lose_handshakes) = (false, false);
    }

    /// Loses the answer to the handshake of every new connection, until [`accept`](Self::accept): the server establishes or
    /// resumes a session, and its client is cut off instead of told. Current connections stay.
    pub fn lose_handshakes(&self) {
        self.shared.lock().lose_handshakes = true;
    }

    /// Loses the reply to the next request of `kind`: the request reaches the server, its reply is swallowed, and the
    /// connection is cut there.
    ///
    /// TCP cannot lose one reply alone, so whatever follows it on that connection is lost too; what came before is
    /// delivered. Calling it twice loses two replies. Should the connection break by itself before the reply, the next
    /// request of that kind is taken instead.
    pub fn lose_reply(&self, kind: RequestKind) -> LostReply {
        LostReply::new(self.arm(kind, Action::LoseReply), Arc::downgrade(&self.shared))
    }

    /// Holds back the reply to the next request of `kind`, and everything after it on that connection, until the handle
    /// is released or dropped.
    pub fn hold_reply(&self, kind: RequestKind) -> HeldReply {
        HeldReply::new(self.arm(kind, Action::HoldReply), Arc::downgrade(&self.shared))
    }

    /// Holds back the next request of `kind`, and everything after it on that connection, until the handle is released
    /// or dropped.
    pub fn hold_request(&self, kind: RequestKind) -> HeldRequest {
        HeldRequest::new(self.arm(kind, Action::HoldRequest), Arc::downgrade(&self.shared))
    }

    /// What passed so far.
    pub fn counts(&self) -> Counts {
        self.shared.lock().counts
    }

    /// The number of requests of one kind so far.
    pub fn requests_of(&self, kind: RequestKind) -> u64 {
        let control = self.shared.lock();
        match kind {
            RequestKind::Any => control.counts.requests,
            kind => control.by_kind.get(&kind).copied().unwrap_or(0),
        }
    }

    /// Sets every count to zero.
    pub fn reset_counts(&self) {
        let mut control = self.shared.lock();
        control.counts = Counts::default();
        control.by_kind.clear();
    }

    /// The number of connections that clients have open through this link.
    pub fn connections(&self) -> usize {
        let control = self.shared.lock();
        control.connections.len() + control.stillborn.len()
    }

    fn arm(&self, kind: RequestKind, action: Action) -> Arc<Rule> {
        let rule = Rule::new(kind, action);
        self.shared.lock().rules.push(rule.clone());
        rule
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Nobody may slip in between the last cut and the end of the listener, which ends after this body.
        self.shared.lock().refuse = true;
        self.shared.cut();
    }
}

/// What a link's threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Half the added round trip, in nanoseconds.
    one_way: AtomicU64,
    control: Mutex<Control>,
    /// Signalled when a thread that waits on `control` should look again.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Control {
    /// Where new connections lead.
    upstream: String,
    black_hole: bool,
    refuse: bool,
    lose_handshakes: bool,
    next_id: u64,
    connections: HashMap<u64, Arc<Connection>>,
    /// Connections accepted during a black hole: the server never hears of them.
    stillborn: Vec<TcpStream>,
    rules: Vec<Arc<Rule>>,
    counts: Counts,
    by_kind: HashMap<RequestKind, u64>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Control> {
        // The state stays consistent at every step, so a panic elsewhere does not spoil it.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn one_way(&self) -> Duration {
        Duration::from_nanos(self.one_way.load(Ordering::SeqCst))
    }

    fn admit(self: &Arc<Self>, client: TcpStream) {
        let mut control = self.lock();
        if control.refuse {
            return abort(&client);
        }
        if control.black_hole {
            return control.stillborn.push(client);
        }
        let connection = Connection::new(control.next_id, client);
        control.next_id += 1;
        control.connections.insert(connection.id, connection.clone());
        drop(control);
        let started = spawn("zk-link-request", {
            let (link, connection) = (self.clone(), connection.clone());
            move || connection.run(&link)
        });
        if started.is_err() {
            self.close(&connection);
        }
    }

    fn cut(&self) {
        let mut control = self.lock();
        let connections: Vec<_> = control.connections.values().cloned().collect();
        for client in control.stillborn.drain(..) {
            abort(&client);
        }
        drop(control);
        for connection in connections {
            self.close(&connection);
        }
    }

    fn close(&self, connection: &Connection) {
        connection.close();
        let unmet = connection.take_unmet_rules();
        let mut control = self.lock();
        control.connections.remove(&connection.id);
        control.rules.splice(0..0, unmet);
        drop(control);
        self.changed.notify_all();
    }

    /// Waits for the end of a black hole; false when the connection is closed.
    fn wait_open(&self, connection: &Connection) -> bool {
        let control = self.lock();
        let control = self.changed.wait_while(control, |it| it.black_hole && !connection.is_closed());
        drop(control.unwrap_or_else(PoisonError::into_inner));
        !connection.is_closed()
    }

    /// Waits until the test lets go of `rule`; false when the connection is closed.
    fn wait_released(&self, connection: &Connection, rule: &Rule) -> bool {
        let control = self.lock();
        let control =
            self.changed.wait_while(control, |_| rule.stage() < Stage::Over && !connection.is_closed());
        drop(control.unwrap_or_else(PoisonError::into_inner));
        !connection.is_closed()
    }

    fn finish(&self, rule: &Arc<Rule>) {
        let mut control = self.lock();
        control.rules.retain(|it| !Arc::ptr_eq(it, rule));
        rule.advance(Stage::Over);
        drop(control);
        self.changed.notify_all();
    }

    /// Counts a request and finds the rules that want it: one for the request itself, one for its reply.
    fn note_request(&self, kind: RequestKind, length: usize) -> (Option<Arc<Rule>>, Option<Arc<Rule>>) {
        let mut control = self.lock();
        if kind == RequestKind::Ping {
            control.counts.pings += 1;
        }
        if kind.is_counted() {
            control.counts.requests += 1;
            control.counts.request_bytes += length as u64;
        }
        *control.by_kind.entry(kind).or_default() += 1;
        let mut take = |of_request: bool| {
            let wants = |rule: &Arc<Rule>| {
                (rule.action == Action::HoldRequest) == of_request && rule.kind.matches(kind)
            };
            let index = control.rules.iter().position(wants)?;
            Some(control.rules.remove(index))
        };
        (take(true), take(false))
    }

    fn note_reply(&self, kind: RequestKind, length: usize) {
        if kind.is_counted() {
            let mut control = self.lock();
            control.counts.replies += 1;
            control.counts.reply_bytes += length as u64;
        }
    }

    fn note_event(&self, length: usize) {
        let mut control = self.lock();
        control.counts.events += 1;
        control.counts.reply_bytes += length as u64;
    }
}
