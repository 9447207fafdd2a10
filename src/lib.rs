//! A strict distributed lock on [Apache ZooKeeper](https://zookeeper.apache.org), for tokio.
//!
//! # What it cannot do
//!
//! **No lock can stop a process that is itself paused** between asking its guard and acting: by its operating
//! system, its hypervisor, its garbage collector. While it sleeps, its session expires and the next contender
//! acquires; when it wakes, it acts on an answer from before. Against this there is the [`FencingToken`], checked by
//! the store that the lock protects, and nothing else.
//!
//! **A virtual machine that is paused together with its clocks** (for a snapshot, or a migration) finds its lease as it
//! was when it goes on, and no clock of its own says otherwise. Until the next heartbeat fails its guard says that it is
//! held, while another one may be. Against this there are tokens, and [`Guard::verify`] right before an act: it asks a
//! quorum.
//!
//! **A runtime whose threads are all blocked** sends no heartbeats, and loses every lock of the sessions that were
//! connected in it. No two hold a lock by that: [`Guard::run`] looks at the clock before it goes on. But tasks that were
//! spawned inside `run` are not part of it; they go on.
//!
//! **An operator who deletes the holder's node** takes the lock from it. The holder is told within a round trip, after its
//! first 40 ms; until then, two may believe that they hold it. If an operator deletes a waiter's node, that waiter is
//! granted all the same when its predecessor releases, until it is told within a round trip; so is the one behind it. A
//! [`LockOptions::takeover_delay`] closes both for waiters that are in the queue already. A write to a node grants nobody; the
//! holder loses the lock by it. An operator who forbids the holder to read its node before deleting it is noticed by a heartbeat
//! only.
//!
//! **Clients of another kind have queues of their own.** Curator, kazoo and others create contenders under other names. An
//! acquisition that sees one fails with [`AcquireError::ForeignContender`]. A holder does not look again, so zklock cannot
//! notice a client that ignores zklock's nodes and comes later; kazoo is one. Use one kind of client at a path.
//!
//! # What it does
//!
//! At any instant at most one [`Guard`] of a lock says that it is held, on every machine, through crashes, partitions
//! of clients *and of ZooKeeper servers*, lost replies and paused servers, within the limits above. A guard is valid
//! until a *lease* runs out, which only a quorum's confirmations extend, so a server that is cut off from its ensemble
//! cannot keep it valid. It is compared with two clocks (one that goes on while a machine is suspended, and one that NTP
//! does not slew) each time the guard is asked, whether or not any task has run.
//!
//! * Contenders are served first come, first served; a waiter watches its predecessor only, so nobody polls and a
//!   release wakes one.
//! * A free lock is acquired in one round trip, and handed over without another look at the queue.
//! * A holder that crashes keeps the others out for a session timeout (10 seconds by default) and one and a half of the
//!   servers' ticks (3 seconds by default) at most, unless the leader changes: a server reports its sessions every half tick, the
//!   leader expires them once a tick, and a new leader gives each its whole timeout again.
//! * A [`Session`] outlives ZooKeeper's: when the servers end that, the next one is opened, and who was waiting
//!   queues again, at the end. What was held is lost for good.
//! * Every future may be dropped at any point: it leaves no node behind and never blocks the queue, if ACLs let it delete its
//!   node.
//! * Every guard has a [`FencingToken`] that increases in the order of the grants. Writes to ZooKeeper itself can be made
//!   to depend on the lock ([`Guard::transaction`]), and a server can have a caller's claim to it checked
//!   ([`Session::verify_sequencer`]).
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
//! whoever looks with `zkCli`. A directory that has no data when a lock first sees it is zklock's own: what others
//! write to it later is overwritten. The whole layout and the protocol are argued in `docs/DESIGN.md`.
//!
//! Each session sends a `sync` every heartbeat, however many guards and waiters it has: a quarter of its session
//! timeout, less three quarters of a tick (2.1 seconds by default). While the session has a guard, a quorum write
//! follows. A server that has lost its leader answers neither, and its clients go to another one. 20,000 waiters, or 10,000
//! guards, of one session survive the loss of its connection.
//!
//! # How long a call takes
//!
//! Only [`Lock::acquire`] waits for as long as it takes. Every other call returns in time if ZooKeeper is silent, and its
//! error says that the answer did not come.
//!
//! | call | returns at the latest | if ZooKeeper has not answered |
//! |---|---|---|
//! | [`Session::connect`] | after its [`connect_timeout`](SessionBuilder::connect_timeout), by default the session timeout | [`ConnectError::Unreachable`] or [`ReadOnly`](ConnectError::ReadOnly) |
//! | [`Lock::acquire`] | once the lock is held, or cannot be any more; dropping it ends the wait | waits |
//! | [`Lock::acquire_timeout`] | after its own | `None` |
//! | [`Lock::try_acquire`] | after half a session timeout | [`AcquireError::Unanswered`] |
//! | [`Lock::contenders`], [`Lock::foreign_contenders`] | after half a session timeout | [`QueryError::Unanswered`], or [`Disconnected`](QueryError::Disconnected) before that |
//! | [`Session::verify_sequencer`] | after half a session timeout | [`SequencerError::Unanswered`], or [`Disconnected`](SequencerError::Disconnected) before that |
//! | [`Guard::verify`], and a [`Transaction`]'s `commit` | at the end of the guard's lease | [`Lost`]; [`TransactionError::Unknown`] if it was sent |
//! | [`Guard::release`] | at the end of the guard's lease | [`ReleaseError::Unconfirmed`]; the release goes on in the background |
//! | [`Session::close`] | at the end of the lease, or after two fifths of the session timeout if that is later | [`CloseError::Unconfirmed`]; the session goes on being closed |
//!
//! The session timeout is [`Session::timeout`]. The lease ends after [`Guard::remaining`]. All other functions return at once,
//! because they send nothing.
//!
//! If ZooKeeper ends the session, zklock tries to open another one for as long as it takes. If each of its servers
//! refuses for a session timeout, as when its limits no longer allow the session timeout that was asked for, the session
//! becomes [`SessionState::Failed`]. Then acquisitions fail, and [`Session::failure`] says why.
//!
//! # Requirements
//!
//! Needs ZooKeeper 3.6 or later, and a tokio runtime with I/O and time enabled.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]

mod acl;
mod clock;
mod contender;
mod fence;
mod guard;
mod lock;
mod node;
mod path;
mod requests;
mod session;
mod settings;
mod zk;

pub use acl::{Acl, Permissions};
pub use fence::{FenceGate, FencingToken, InvalidSequencer, Sequencer, StaleToken};
pub use guard::Guard;
pub use guard::lost::{Lost, LostReason, ReleaseError};
pub use guard::operation::{Applied, NodeOptions};
pub use guard::transaction::Transaction;
pub use guard::transaction_error::{ConditionProblem, TransactionError};
pub use lock::Lock;
pub use lock::contender::{Contender, ForeignContender};
pub use lock::error::{AcquireError, InvalidLock, QueryError};
pub use lock::options::LockOptions;
pub use path::PathProblem;
pub use session::Session;
pub use session::builder::SessionBuilder;
pub use session::error::{CloseError, SequencerError};
pub use session::locks::{HeldLock, LocksBelow};
pub use zk::{ConnectError, ServerFailure, ServerProblem, SessionEvent, SessionEvents, SessionState};
#[doc(inline)]
pub use zklock_recipe::ForeignClient;
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
#[doc(no_inline)]
pub use zookeeper_client::SaslOptions;
#[cfg(feature = "tls")]
#[doc(no_inline)]
pub use zookeeper_client::TlsOptions;

/// Has the examples of these pages compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/GUIDE.md")]
struct Pages;
