//! ZooKeeper sessions, one after the other. Each uses one connection after the other.
//!
//! * `servers`: which servers there are, and what they answer without a session.
//! * `connection`: one connection after the other of one session, and how a request goes out on the present one.
//! * `session`: one ZooKeeper session, and what it does in the background.
//! * `succession`: one ZooKeeper session after the other.
//!
//! Each looks down only. Connections and sessions share the session's lease.

pub(crate) mod connection;
mod error;
pub(crate) mod servers;
mod session;
mod shared_lease;
pub(crate) mod succession;

pub use error::{ConnectError, ServerFailure, ServerProblem};
pub use servers::address::ServerAddress;
pub use succession::events::SessionEvents;
pub use succession::state::{SessionEvent, SessionState};

pub(crate) use connection::Wire;
pub(crate) use connection::link::LinkAnswer;
pub(crate) use connection::resume::Closing;
pub(crate) use connection::revocable::Revocable;
pub(crate) use session::entrance::EntryTicket;
pub(crate) use session::guards::{Holder, SETTLING};
pub(crate) use session::late_creates::LATEST;
pub(crate) use session::polled::{LOOKS, Late, Looked};
pub(crate) use session::{Holding, SessionView, ZkSession};
pub(crate) use shared_lease::SharedLease;
pub(crate) use succession::{Bystander, Over, Succession};
