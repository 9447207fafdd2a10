//! ZooKeeper sessions, one after the other. Each uses one connection after the other.

mod background;
mod confirmation;
mod connection;
mod connections;
pub(crate) mod dialer;
mod entrance;
mod error;
pub(crate) mod establish;
mod events;
mod feeds;
mod guards;
mod late_creates;
mod link;
mod polled;
mod revocable;
pub(crate) mod servers;
mod session;
mod shared_lease;
mod state;
mod succession;
pub(crate) mod survey;

pub(crate) use connection::Wire;
pub(crate) use connections::Closing;
pub(crate) use entrance::Ticket;
pub use error::{ConnectError, ServerFailure, ServerProblem};
pub use events::SessionEvents;
pub(crate) use guards::{Holder, SETTLING};
pub(crate) use late_creates::LATEST;
pub(crate) use link::Answer;
pub(crate) use polled::{LOOKS, Looked, was_late};
pub(crate) use revocable::Revocable;
pub(crate) use session::{Holding, Line, ZkSession};
pub(crate) use shared_lease::{Sent, SharedLease};
pub use state::{SessionEvent, SessionState};
pub(crate) use succession::{Bystander, Over, Succession};
