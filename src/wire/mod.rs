//! One connection after the other of one session, and the servers.
//!
//! * `servers`: which servers there are, and what they answer without a session.
//! * `dialer`, `connection`, `revocable`: a connection to one of them, and the requests on it.
//! * `link`: how a request goes out on the present connection of its session. `resume`: the connections, one after the other.
//! * `shared_lease`: what the answers prove.

pub(crate) mod connection;
pub(crate) mod dialer;
pub(crate) mod error;
pub(crate) mod link;
pub(crate) mod resume;
pub(crate) mod revocable;
pub(crate) mod servers;
pub(crate) mod shared_lease;

pub use error::{ConnectError, ServerFailure, ServerProblem};
pub use servers::address::ServerAddress;

pub(crate) use connection::Wire;
pub(crate) use link::LinkAnswer;
pub(crate) use resume::Closing;
pub(crate) use revocable::Revocable;
pub(crate) use shared_lease::SharedLease;
