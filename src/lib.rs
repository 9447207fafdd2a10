//! A strict distributed lock on [Apache ZooKeeper](https://zookeeper.apache.org), for tokio.
//!
//! # What it cannot do
//!
//! **No lock can stop a process that is paused** between asking its guard and acting: by its operating system, its hypervisor
//! or its garbage collector. While the process is paused, its session expires and the next contender acquires the lock. When
//! the process goes on, it acts on a stale answer. Only a [`FencingToken`] helps, if the store that the lock protects checks it.
//!
//! **A virtual machine that is paused together with its clocks**, for a snapshot or a migration, finds its lease unchanged:
//! none of its own clocks has gone on. Until the next heartbeat fails, its guard says that the lock is held, while another
//! guard may be valid. Use tokens. Or call [`Guard::verify`] right before you act: it asks a quorum.
//!
//! **A runtime whose threads are all blocked** sends no heartbeats. It loses every lock of the sessions that were connected in
//! it. Two guards are never valid because of that: [`Guard::run`] looks at the clock before it goes on. But tasks that were
//! spawned inside `run` are not part of it, and go on.
//!
//! **An operator who deletes the holder's node** takes the lock from the holder. The holder learns of it within a round trip,
//! except in its first 40 ms. Until then two guards may be valid. If an operator deletes a waiter's node, that waiter is still
//! granted when its predecessor releases the lock, and learns of the deletion within a round trip; the waiter behind it is
//! granted, too. A [`LockOptions::takeover_delay`] closes both for waiters that are already in the queue. A write to a node
//! grants nobody. A write to the holder's node takes the lock from the holder. If an operator first forbids the holder to read
//! its node and then deletes it, only a heartbeat notices.
//!
//! **Clients of another kind have queues of their own.** Curator, kazoo and others create contenders under other names. An
//! acquisition that sees one fails with [`AcquireError::ForeignContender`]. A holder does not look again. So zklock cannot
//! notice a client that ignores zklock's nodes and comes later; kazoo is one. Use one kind of client at a path.
//!
//! # What it does
//!
//! At any instant at most one [`Guard`] of a lock says that it is held, on every machine. This holds through crashes, partitions
//! of clients *and of ZooKeeper servers*, lost replies and paused servers, within the limits above. A guard is valid until its
//! *lease* ends, and only a quorum's confirmations extend a lease. So a server that is partitioned from its ensemble cannot keep
//! a guard valid. Each time a guard is asked, it compares its lease with two clocks, whether or not any task has run. One clock
//! goes on while the machine is suspended; NTP does not slew the other.
//!
//! * Contenders are served in the order in which they come. A waiter watches only its predecessor, so nobody polls, and a
//!   release wakes one waiter.
//! * A free lock takes one round trip. The first acquisition of a [`Lock`] takes one or two. If the directory does not exist,
//!   an acquisition takes three; if its parent does not exist either, five, and two more for each further missing ancestor.
//!   A release hands the lock over without another look at the queue.
//! * A holder that crashes keeps the lock for a session timeout (10 seconds by default) and one and a half of the servers'
//!   ticks (3 seconds by default) at most. A change of the leader adds to that: a new leader gives each session its whole timeout
//!   again. The ticks come from the servers, which report their sessions every half tick, and the leader, which expires
//!   them once a tick.
//! * If ZooKeeper expires the session, zklock opens another one. Acquisitions that were waiting join the queue again, at the
//!   end. Guards of the old session are lost for good.
//! * You may drop every future at any point. It leaves no node behind and never blocks the queue, if the ACLs let it delete its
//!   node.
//! * Every guard has a [`FencingToken`]. Tokens increase in the order of the grants. Writes to ZooKeeper itself can depend on
//!   the lock ([`Guard::transaction`]), and a server can check the claim of its caller ([`Session::verify_sequencer`]).
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
//! that ZooKeeper removes once it is empty. Each contender is an ephemeral, sequential child `lock-0000000042`. The lowest
//! number holds the lock. The data of a contender is a small JSON object with its `owner` and `since`, for operators who look
//! with `zkCli`. If a directory has no data when a lock first sees it, it is zklock's own: zklock overwrites what others write to
//! it later. `docs/DESIGN.md` argues the whole layout and the protocol.
//!
//! Each session sends a `sync` every heartbeat, however many guards and waiters it has. A heartbeat is a quarter of what is left
//! of the session timeout after three quarters of a tick: 2.1 seconds by default. While the session has a guard, a quorum write
//! follows the `sync`. A server that has lost its leader answers neither, and its clients go to another one. 20,000 waiters, or
//! 10,000 guards, of one session survive the loss of its connection.
//!
//! # How long a call takes
//!
//! Only [`Lock::acquire`] waits for as long as it takes. If ZooKeeper is silent, every other call returns in time, and its error
//! says that the answer did not come.
//!
//! | call | returns at the latest | if ZooKeeper has not answered |
//! |---|---|---|
//! | [`Session::connect`] | after its [`connect_timeout`](SessionBuilder::connect_timeout), by default the session timeout | [`ConnectError::Unreachable`] or [`ReadOnly`](ConnectError::ReadOnly) |
//! | [`Lock::acquire`] | once the lock is held, or cannot be any more; dropping it ends the wait | waits |
//! | [`Lock::acquire_timeout`] | after its `timeout` | `None` |
//! | [`Lock::try_acquire`] | after half a session timeout | [`AcquireError::Unanswered`] |
//! | [`Lock::contenders`], [`Lock::foreign_contenders`], each request of [`Session::locks_below`] | after half a session timeout | [`QueryError::Unanswered`], or [`Disconnected`](QueryError::Disconnected) before that |
//! | [`Session::verify_sequencer`] | after half a session timeout | [`SequencerError::Unanswered`], or [`Disconnected`](SequencerError::Disconnected) before that |
//! | [`Guard::verify`], and a [`Transaction`]'s `commit` | at the end of the guard's lease | [`Lost`]; [`TransactionError::Unknown`] if it was sent |
//! | [`Guard::release`] | at the end of the guard's lease | [`ReleaseError::Unconfirmed`]; the release goes on in the background |
//! | [`Session::close`] | at the end of the lease, or after two fifths of the session timeout if that is later | [`CloseError::Unconfirmed`]; the session goes on being closed |
//!
//! The session timeout is [`Session::timeout`]. The lease ends after [`Guard::remaining`]. All other functions return at once,
//! because they send nothing.
//!
//! A service that must start while ZooKeeper is away uses [`SessionBuilder::connect_lazy`].
//!
//! If ZooKeeper expires the session, zklock tries to open another one for as long as it takes. If each of the servers refuses
//! for as long as a session timeout, the session becomes [`SessionState::Failed`]. This happens when the servers' limits no
//! longer allow the session timeout that was asked for. Then acquisitions fail, and [`Session::failure`] says why.
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

/// Compiles the examples of these pages.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/GUIDE.md")]
struct Pages;
