//! A strict distributed lock on [Apache ZooKeeper](https://zookeeper.apache.org), for tokio: at any instant, on all machines
//! together, at most one [`Guard`] of a lock says that the lock is held.
//!
//! ```no_run
//! # async fn save(token: zklock::FencingToken) {}
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! zklock::Session::with("zk1:2181,zk2:2181,zk3:2181", async |session| {
//!     let lock = session.lock("/lock/orders")?;
//!
//!     let guard = lock.acquire().await?;     // first come, first served; safe to cancel
//!     guard.run(save(guard.token())).await?; // dropped the moment the lock is lost
//!     Ok(guard.release().await?)             // confirmed; a dropped guard is released in the background
//! })
//! .await // closed however this ends; a program that ends without a close leaves its locks for up to 13 s
//! # }
//! ```
//!
//! **You get** this promise through crashes, lost replies, and clients *or ZooKeeper servers* that are paused or partitioned: a guard
//! is lost before the next contender is granted. A waiter does not ask ZooKeeper again and again: it watches its predecessor. A free
//! lock takes one round trip. If ZooKeeper expires the session, waiters join the queue again, at the end.
//!
//! **You do not get:**
//! * *Protection from late writes.* A process that is paused after it asked its guard acts too late. Let the store compare
//!   [`FencingToken`]s.
//! * *Once.* If three machines do a job under one lock, they do it three times. Use a [`Once`], or a unique key in your database.
//! * *The lock right after a crash.* It is free after the session timeout and 1.5 ticks, by default 13 s, or later if ZooKeeper
//!   elects a new leader meanwhile.
//! * The other limits are in [what it cannot do](guard#what-it-cannot-do): clocks that stop, copies of a process, restores of
//!   ZooKeeper's data, operators, and other clients. Read them before you rely on a lock.
//!
//! | you need | take |
//! |---|---|
//! | one holder; one writer or many readers; several locks at once, without deadlock | [`Lock`]; [`RwLock`]; [`MultiLock`] |
//! | a lock for each key, if many tasks of a process want the same keys | [`Locks`] |
//! | a leader that everybody can find | [`Election`] |
//! | several holders up to a capacity; a worker id or a shard | [`Semaphore`]; [`Slots`] |
//! | a job that runs once, though many start it | [`Once`] |
//! | to know who holds a lock; to ask a holder to let go | [`Lock::holders`], [`inspect`]; [`Session::ask`] |
//!
//! If a call returns an error, take the first row that matches:
//!
//! | the call returns | do this |
//! |---|---|
//! | [`ReleaseError::Unconfirmed`] or [`SessionUnconfirmed`](ReleaseError::SessionUnconfirmed) | nothing, while the process lives: the release or the close goes on in the background |
//! | [`ConnectError`] | if `is_retryable()`, connect again after a pause; else change what its message names |
//! | [`Lost`], alone or in another error | stop the work, which may be half done; if `needs_new_session()`, connect a new session; then acquire the lock again |
//! | another error whose `is_retryable()` is true | call again after a pause |
//! | another error whose `needs_new_session()` is true | correct the credentials, or what else its message names, and connect a new session |
//! | any other error | do what its message says; mostly a person must. It names the path, the cause and the cure |
//!
//! The module [`session`] says how long each call may take, and [`inspect`] lists the metrics, spans and events. In a checkout of
//! zklock's repository, the guide in `docs/guide/` has a leader that stops on SIGTERM, timeouts, tests, operations and more, and
//! `docs/DESIGN.md` argues the protocol.
//!
//! zklock works with ZooKeeper 3.6 or later. Use 3.9.5, on which it is tested: followers before 3.9.4 may forget writes. zklock needs a
//! tokio runtime with time enabled.
//!
//! | feature | adds |
//! |---|---|
//! | `tls` | connections over TLS |
//! | `blocking` | the module `blocking`: the same family for programs that are not async |
//! | `sasl-digest-md5`, `sasl-gssapi` | authentication with SASL; the latter needs the system's GSSAPI library |
//! | `serde`; `metrics` | `Serialize` and `Deserialize` for tokens and sequencers; [metrics](inspect#metrics-spans-and-events) |
//! | `cancellation-token` | `Guard::cancellation_token`, with tokio-util |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]

/// Implements `Debug` for a type that has more than what is to be shown of it. `$it` is the value.
macro_rules! debug_shows {
    ($shown:ident, $it:ident, { $($field:ident: $value:expr),+ }) => {
        impl std::fmt::Debug for $shown {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $it = self;
                f.debug_struct(stringify!($shown))$(.field(stringify!($field), &$value))+.finish_non_exhaustive()
            }
        }
    };
}

mod acl;
mod acquire;
pub mod ask;
#[cfg(feature = "blocking")]
#[cfg_attr(docsrs, doc(cfg(feature = "blocking")))]
pub mod blocking;
mod clock;
mod contender;
pub mod election;
mod error;
pub mod fence;
pub mod guard;
pub mod inspect;
mod joint;
mod keys;
mod layout;
mod lock;
mod mutex;
mod node;
mod observe;
pub mod once;
mod path;
mod requests;
pub mod semaphore;
pub mod session;
mod settings;
mod telemetry;
mod text;
mod wire;
mod zk;

pub use acl::{Acl, Permissions};
pub use acquire::options::LockOptions;
pub use election::{Election, Leadership};
pub use error::{AcquireError, InvalidLock, QueryError};
pub use fence::{FenceGate, FencingToken, Sequencer};
pub use guard::{AnyGuard, Guard, Lost, LostReason, MultiGuard, Permit, ReadGuard, ReleaseError, Slot};
pub use keys::Locks;
pub use keys::error::KeyError;
pub use keys::options::LocksOptions;
pub use layout::Layout;
pub use lock::Lock;
pub use lock::multi_lock::{Access, InvalidMultiLock, MultiLock};
pub use lock::rw_lock::RwLock;
pub use once::{Once, OnceOptions, Ran, RunError};
pub use path::PathProblem;
pub use semaphore::{Semaphore, Slots};
pub use session::{ConnectError, Session, SessionBuilder, SessionEvent, SessionEvents, SessionState};

/// Compiles the examples of these pages as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/MIGRATION.md")]
#[doc = include_str!("../docs/guide/start.md")]
#[doc = include_str!("../docs/guide/leader.md")]
#[doc = include_str!("../docs/guide/once.md")]
#[doc = include_str!("../docs/guide/keys.md")]
#[doc = include_str!("../docs/guide/readers.md")]
#[doc = include_str!("../docs/guide/semaphores.md")]
#[doc = include_str!("../docs/guide/fencing.md")]
#[doc = include_str!("../docs/guide/errors.md")]
#[doc = include_str!("../docs/guide/loss.md")]
#[doc = include_str!("../docs/guide/timeouts.md")]
#[doc = include_str!("../docs/guide/tests.md")]
#[doc = include_str!("../docs/guide/metrics.md")]
#[doc = include_str!("../docs/guide/deploy.md")]
#[doc = include_str!("../docs/guide/operations.md")]
struct Pages;
