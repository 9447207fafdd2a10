//! ZooKeeper sessions, one after the other.
//!
//! * `session`: one ZooKeeper session, and what it does in the background.
//! * `succession`: one ZooKeeper session after the other.

mod session;
pub(crate) mod succession;

pub use succession::events::SessionEvents;
pub use succession::state::{SessionEvent, SessionState};

pub(crate) use session::entrance::EntryTicket;
pub(crate) use session::holds::{SETTLING, SessionHold};
pub(crate) use session::late_creates::LATEST;
pub(crate) use session::polled::{LOOKS, Late, Looked};
pub(crate) use session::{Holding, SessionView, ZkSession};
pub(crate) use succession::{Bystander, Over, Succession};
