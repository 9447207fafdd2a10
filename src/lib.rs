//! A strict distributed lock on [Apache ZooKeeper](https://zookeeper.apache.org), for tokio.
//!
//! # What it cannot do
//!
//! **No lock can stop a process that is itself paused** between asking its guard and acting: by its operating
//! system, its hypervisor, its garbage collector. While it sleeps, its session expires and the next contender
//! acquires; when it wakes, it acts on an answer from before. Against this there is the [`FencingToken`], checked by
//! the store that the lock protects, and nothing else.
//!
//! **Not promised yet**: that a guard is lost before the next one is granted when a ZooKeeper *server* is cut off
//! from its ensemble. It goes on answering its clients for a while, so a holder connected to it learns of its
//! session's end seconds too late. Until the lease is bound to the ensemble's confirmations, a guard is lost when the
//! *connection* is (noticed at once if it breaks, within two fifths of the session timeout if it falls silent), and
//! when ZooKeeper ends the session. Checks compare with what the session's task has seen, so a process that was
//! suspended as a whole may see its guard valid for the instant before that task runs.
//!
//! An operator who deletes nodes in a lock's directory, or writes to them, takes the lock from its holder. The
//! holder is told within a round trip; until then, two may believe that they hold it. The same goes for a waiter
//! whose node was deleted and whose predecessor then releases.
//!
//! # What it does
//!
//! At any instant at most one [`Guard`] of a lock says that it is held, on every machine, through crashes of clients
//! and servers, lost connections and lost replies, within the limits above.
//!
//! * Contenders are served first come, first served; a waiter watches its predecessor only, so nobody polls and a
//!   release wakes one.
//! * A free lock is acquired in one round trip, and handed over without another look at the queue.
//! * A holder that crashes keeps the others out for a session timeout (10 seconds by default), no longer.
//! * Every future may be dropped at any point: it leaves no node behind and never blocks the queue.
//! * Every guard has a [`FencingToken`] that increases in the order of the grants.
//!
//! # Quick start
//!
//! ```no_run
//! use zklock::Session;
//!
//! # async fn save(token: zklock::FencingToken) {}
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let session = Session::connect("zk1:2181,zk2:2181,zk3:2181").await?;
//! let lock = session.lock("/lock/orders")?;
//!
//! let guard = lock.acquire().await?;
//! guard.run(save(guard.token())).await?; // dropped the moment the lock is lost
//! guard.release().await?;                // confirmed; dropping the guard releases in the background
//! # Ok(())
//! # }
//! ```
//!
//! # In ZooKeeper
//!
//! A lock is a directory, a [container node](https://zookeeper.apache.org/doc/current/zookeeperProgrammers.html#Container+Nodes)
//! that ZooKeeper removes once it is empty. Each contender is an ephemeral, sequential child `lock-0000000042`; the
//! lowest number holds the lock. Its data is a small JSON object with the contender's `owner` and `since`, for
//! whoever looks with `zkCli`. The whole layout and the protocol are argued in `docs/DESIGN.md`.
//!
//! Needs ZooKeeper 3.6 or later, and a tokio runtime with I/O and time enabled.

#![cfg_attr(not(test), warn(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]

mod acl;
mod clock;
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
