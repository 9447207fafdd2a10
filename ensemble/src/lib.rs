//! Simulated ZooKeeper servers, for tests: plain state machines that speak ZooKeeper's protocol to clients.
//!
//! A [`Server`] has no socket, no thread and no clock. A driver says what happens to it, and when by the server's own
//! clocks: an [`Event`]. The server answers with [`Effect`]s, which the driver carries out. The same events give the same
//! effects.
//!
//! ```
//! use std::time::Duration;
//! use zklock_ensemble::{Config, ConnectionId, Effect, Event, Now, Server, ServerId};
//!
//! let mut server = Server::new(Config::new(ServerId(1), 1));
//! let now = Now { monotonic: Duration::from_secs(7), wall: Duration::from_secs(1_700_000_000) };
//! let mut effects = Vec::new();
//! server.handle(now, Event::Accepted(ConnectionId(1)), &mut effects);
//! server.handle(now, Event::Received(ConnectionId(1), b"srvr".to_vec()), &mut effects);
//! let [Effect::Send(ConnectionId(1), answer), Effect::Close(ConnectionId(1))] = &effects[..] else { panic!() };
//! assert!(answer.starts_with(b"Zookeeper version: 3.9.5"));
//! ```
//!
//! # Several servers
//!
//! Each server of an ensemble is a [`Server`] of its own. The driver carries [`PeerMessage`]s between them, in order for
//! each pair: it may hold them, and it may lose a connection with everything on it ([`Event::PeerGone`] at both ends). No
//! server votes. Whenever servers look for a leader, the driver asks [`elect`] who leads, and tells each server that
//! `elect` names: at once, or as late as an election takes.
//!
//! A server that crashes is [restarted](Server::restart): its log survives, its connections do not. A server that is
//! paused gets no events. When it goes on, it gets what has come for it meanwhile, and then [`Event::Wake`]. Real servers
//! have a thread for each connection to another server, some for clients', and one that expires sessions, and after a pause
//! nobody knows which one is first. So a driver may deliver the events of different connections in any order, and
//! [`Event::Expiry`] before, among or behind them. What came on one connection stays in order.
//!
//! # What is easily forgotten
//!
//! Comments name these facts of ZooKeeper by their letters.
//!
//! - (a) Sessions expire in buckets of ticks, on the leader's clock. Touches of followers' clients come with the answers to
//!   its pings, every half tick. A leader that was paused expires sessions first or reads their touches first:
//!   [`Event::Expiry`]. Between expiry and close, touches are in vain and writes pass: [`Config::expiry_delay`]. A new
//!   leader starts all sessions anew.
//! - (b) A stale connection keeps a moved session alive: a touch asks nobody who owns the session.
//! - (c) A session's owner is a server. By another server, a write is answered by closing the connection, without a reply.
//!   A server that comes back to its leader is another owner.
//! - (d) Revalidation asks no majority, so a deposed leader revalidates.
//! - (e) Requests of a closing session are dropped without a reply, if they come by the leader. By a follower, and if they
//!   came before the session closed and wait for the leader's decision, its writes fail with a reply: the session expired.
//! - (f) Everything behind a write of its session waits for it.
//! - (g) A sync with nothing outstanding is answered without a majority.
//! - (h) Requests that fail or only check take a zxid. The leader checks against changes that it has only proposed.
//! - (i) A node's `cversion` is twice the number of creations less the children. Sequential names have the raw number.
//! - (j) A watcher hears of a deletion once, then of the parent's children, then comes the reply.
//! - (k) The end of a session is one transaction. Its ephemeral nodes go in the order of a Java hash set.
//! - (l) Each change of leader closes every client's connection. A client that has seen more than a server is refused.
//! - (m) A transaction that one follower has logged is committed or cut off by who leads next.
//! - (n) Containers vanish between `exists` and `create`.
//! - (o) Versions differ: [`Version`].
//! - (p) Requests wait for the leader's decision, in a queue. Touches and revalidations overtake them:
//!   [`Config::prep_delay`].
//! - (q) An overloaded server answers `ThrottledOp` in a request's turn, and does nothing. The session lives on
//!   (`zookeeper.throttled_op_wait_time`; `RequestThrottler`): [`Event::Throttle`].
//!
//! # What it is not
//!
//! A simulated server is a claim about ZooKeeper. `tests/conformance` holds it to real servers. Left out are observers,
//! quotas, reconfiguration, read-only mode, local sessions, SASL and TLS, limits of connections, and the time that
//! disks take: what is logged is on the disk at once.
//!
//! A server handles one event after the other. Of the threads and queues in a real one, it has those that are named above:
//! the leader's queue before its decision and the one before it applies what is committed, the thread that expires sessions,
//! and the order in which connections are read after a pause. At followers, a request is forwarded when it is read, and what
//! is committed is applied when it comes.
//!
//! No server loses what it has logged. Real ones do: ZOOKEEPER-4712 and 4785 in 3.8.0, and 4925 in 3.9.3.

mod auth;
mod client;
mod config;
mod connection;
mod disk;
mod election;
mod event;
mod follow;
mod id;
mod java;
mod lead;
mod message;
mod operation;
mod pipeline;
mod prep;
mod queue;
mod reply;
mod role;
mod server;
mod sessions;
mod transaction;
mod tree;
mod watches;
mod wire;
mod words;

pub use config::{Config, Version};
pub use election::{Appointment, Standing, elect};
pub use event::{Effect, Event};
pub use id::{ConnectionId, Now, ServerId};
pub use java::password;
pub use message::PeerMessage;
pub use server::Server;
pub use tree::Ephemeral;
