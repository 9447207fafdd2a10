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
//! A simulated server is a claim about ZooKeeper. `tests/conformance` holds it to real servers.

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
pub use message::PeerMessage;
pub use server::Server;
