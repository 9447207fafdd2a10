//! A TCP proxy between a client and a server that misbehaves on request and counts what passes.

mod connection;
mod counts;
mod frame;
mod handle;
mod kind;
mod lane;
mod pump;
mod rule;
mod shared;

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use connection::{Connection, Toward};
pub use counts::Counts;
pub(crate) use frame::Framer;
use handle::Owned;
pub use handle::{Held, LostReply};
pub use kind::RequestKind;
use rule::{Action, Rule};
pub(crate) use shared::Shared;

use crate::{Error, listener::Listener};

/// A client's way to one server: a TCP proxy on loopback that can delay, lose, hold and count.
///
/// The client connects to [`address`](Self::address) in place of the server. Dropping the link cuts its connections and
/// frees its port.
///
/// The proxy reads ZooKeeper's protocol, so it can name requests. A stream that it cannot read, such as TLS or a
/// four-letter word, passes through uncounted.
#[derive(Debug)]
pub struct Link {
    shared: Arc<Shared>,
    listener: Listener,
}

impl Link {
    /// Starts a proxy to `upstream`, a server's `host:port`.
    ///
    /// # Errors
    /// When no port on loopback can be bound.
    // Nothing here waits today; a link to elsewhere may have to.
    #[allow(clippy::unused_async)]
    pub async fn start(upstream: impl Into<String>) -> Result<Self, Error> {
        Self::of(upstream.into(), Framer::default())
    }

    /// Starts a proxy to a server that is not ZooKeeper. It delays, holds back and cuts all bytes alike; it names and counts no
    /// request.
    ///
    /// # Errors
    /// When no port on loopback can be bound.
    #[allow(clippy::unused_async)]
    pub async fn start_unframed(upstream: impl Into<String>) -> Result<Self, Error> {
        Self::of(upstream.into(), Framer::unframed())
    }

    fn of(upstream: String, framer: Framer) -> Result<Self, Error> {
        let link = Self::open(Ipv4Addr::LOCALHOST, upstream, framer, |link, _| {
            let upstream = link.lock().upstream.clone();
            TcpStream::connect(upstream)
        });
        link.map_err(Error::io("open a link on loopback"))
    }

    /// Starts a proxy on a free port of `host`. `reach` connects each client's connection to the server.
    pub(crate) fn open(
        host: Ipv4Addr,
        upstream: String,
        framer: Framer,
        reach: impl FnOnce(&Shared, &Connection) -> io::Result<TcpStream> + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Shared::new(upstream, framer);
        let listener = Listener::start(host, {
            let shared = shared.clone();
            move |client| pump::admit(&shared, client, reach.clone())
        })?;
        Ok(Self { shared, listener })
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.port()
    }

    pub(crate) fn set_stalled(&self, toward: Toward, stalled: bool) {
        self.shared.change(|control| control.stalled[toward as usize] = stalled);
    }

    /// The address for clients to connect to, as `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Makes every round trip longer by `added`, half of it each way. Any number of messages may be under way at once.
    ///
    /// The delay applies to what arrives from now on. Messages never overtake each other. Zero switches the delay off.
    pub fn set_round_trip(&self, added: Duration) {
        self.shared.lock().one_way = added / 2;
    }

    /// Lets no byte pass either way, as if every packet were dropped. Connections stay open. New ones are accepted, and
    /// get nothing.
    pub fn black_hole(&self) {
        self.shared.lock().black_hole = true;
    }

    /// Ends [`black_hole`](Self::black_hole).
    ///
    /// Connections that were open before go on. What their ends sent meanwhile arrives now, as TCP's retransmissions would
    /// bring it. Connections that were made meanwhile are closed: on a real network they would not have come about.
    pub fn restore(&self) {
        self.shared.change(|control| {
            control.black_hole = false;
            control.end_stillborn();
        });
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

    /// Ends [`refuse`](Self::refuse).
    pub fn accept(&self) {
        self.shared.lock().refuse = false;
    }

    /// From now on, gives a new session to each client that asks to resume one, as servers other than ZooKeeper do. Current
    /// connections stay.
    pub fn renew_sessions(&self) {
        self.shared.lock().renew_sessions = true;
    }

    /// Passes one byte toward each client, and then another after this pause. `None` ends that.
    pub fn drip(&self, pause: Option<Duration>) {
        self.shared.change(|control| control.drip = pause);
    }

    /// Loses the reply to the next request of `kind`: the request reaches the server, the link swallows the reply, and
    /// cuts the connection there.
    ///
    /// TCP cannot lose one reply alone. So all that follows the reply on that connection is lost, too; what came before it
    /// is delivered. Calling this twice loses two replies. If the connection breaks by itself before the reply, the next
    /// request of that kind takes its place.
    pub fn lose_reply(&self, kind: RequestKind) -> LostReply {
        LostReply(self.arm(kind, Action::LoseReply))
    }

    /// Holds back the reply to the next request of `kind`, and everything after it on that connection, until the handle
    /// is released or dropped.
    pub fn hold_reply(&self, kind: RequestKind) -> Held {
        Held(self.arm(kind, Action::HoldReply))
    }

    /// Holds back the next request of `kind`, and everything after it on that connection, until the handle is released
    /// or dropped.
    pub fn hold_request(&self, kind: RequestKind) -> Held {
        Held(self.arm(kind, Action::HoldRequest))
    }

    /// What passed so far.
    pub fn counts(&self) -> Counts {
        self.shared.lock().tally.counts()
    }

    /// The number of requests of one kind so far.
    pub fn requests_of(&self, kind: RequestKind) -> u64 {
        self.shared.lock().tally.requests_of(kind)
    }

    /// Sets every count to zero.
    pub fn reset_counts(&self) {
        self.shared.lock().tally = Default::default();
    }

    /// The number of connections that clients have open through this link.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections()
    }

    #[cfg(test)]
    pub(crate) fn is_black_hole(&self) -> bool {
        self.shared.lock().black_hole
    }

    fn arm(&self, kind: RequestKind, action: Action) -> Owned {
        let rule = Rule::new(kind, action);
        self.shared.lock().rules.push(rule.clone());
        Owned { rule, link: Arc::downgrade(&self.shared) }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The listener ends after this body. Nobody may slip in between the last cut and that.
        self.shared.lock().refuse = true;
        self.shared.cut();
    }
}
