//! A strict distributed lock on Apache ZooKeeper.

mod acl;
mod driver;
mod error;
mod fence;
mod guard;
mod lease;
mod lock;
mod node;
mod path;
#[doc(hidden)]
pub mod recipe;
mod session;

pub use acl::{Acl, Permissions};
pub use error::{
    AcquireError, CloseError, ConnectError, InvalidLock, Lost, PathProblem, QueryError, ReleaseError,
};
pub use fence::FencingToken;
pub use guard::{Guard, LostReason};
pub use lock::{Contender, Lock, LockOptions};
pub use session::{Session, SessionBuilder};
