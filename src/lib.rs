//! A strict distributed lock on [Apache ZooKeeper](https://zookeeper.apache.org), for tokio.
//!
//! # What it does
//!
//! A contender that acquires a lock gets a [`Guard`]. At any instant, at most one guard of a lock, among all machines,
//! says that the lock is held, except for [other guards](Guard::another) of the same hold. Readers of a [`RwLock`] hold
//! it together. No writer holds it at the same time. This stays true if processes crash, if clients *or ZooKeeper
//! servers* are partitioned, if replies are lost, and if servers are paused. It has [limits](#what-it-cannot-do). A
//! guard is valid until its *lease* ends, and only a quorum's confirmations extend a lease. So a server that is
//! partitioned from its ensemble cannot keep a guard valid. A guard compares its lease with clocks whenever it is asked,
//! and needs no background task for that. One clock is `CLOCK_BOOTTIME`. Another one is `CLOCK_MONOTONIC_RAW`, which NTP
//! does not slew, and the time for which the machine was suspended.
//!
//! * A [`Lock`] has one holder. A [`RwLock`] has one writer or many readers. A [`MultiLock`] acquires several locks at
//!   once, without deadlock. All of them are equally strict, and contend with each other at the same paths.
//! * A [`Semaphore`] has several holders at once. It does not grant a permit if the sum of the weights would then
//!   exceed its capacity. [`Slots`] are places with an index, for worker ids and shards. Both are served strictly in
//!   order.
//! * [`Locks`] are locks by key. The tasks of one process that want the same key hand its lock to each other.
//! * Contenders are served in the order in which they come. A waiter watches only its predecessor, so nobody polls. A
//!   release wakes one waiter. The release of a writer wakes all readers that wait for it.
//! * To acquire a free lock takes one round trip. The first acquisition through a [`Lock`] may take two. If the
//!   directory is missing, it takes three. Each missing ancestor adds two. The release itself grants the next waiter,
//!   which does not read the queue again.
//! * After the holder crashes, others wait for at most the session timeout and 1.5 ticks of the servers, by default 13 s.
//!   (The servers report live sessions to the leader every half tick, and the leader expires sessions once a tick. A
//!   single server reports to nobody, so there it is 1 tick, and 12 s.) If the servers elect a new leader meanwhile,
//!   others wait longer, because the new leader restarts the timeout of every session.
//! * If ZooKeeper expires the session, zklock opens another one. Acquisitions that were waiting join the queue again,
//!   at the end. Guards of the old session are lost for good.
//! * Every future may be dropped at any point. A dropped acquisition deletes its node and does not block the queue, if
//!   the ACLs permit the deletion.
//! * An [`Election`] is a lock whose holder announces itself. [`Election::observe`] tells everybody else who leads.
//!   [`Lock::holders`] tells who holds a lock. Each costs one watch.
//! * A lock serialises, and does not deduplicate. A [`Once`] remembers which runs, such as those of a day, have been done.
//! * Every guard has a [`FencingToken`]. The token of a grant is higher than the token of each earlier grant that
//!   cannot be held beside it. Readers that hold the lock together are granted in any order. Tokens are not
//!   consecutive. Writes to ZooKeeper itself can depend on the lock ([`Guard::transaction`]). A service can check that
//!   its caller still holds the lock ([`Session::verify_sequencer`]).
//!
//! # What it cannot do
//!
//! **The operating system, the hypervisor or a garbage collector can pause a process** after it has asked its guard and
//! before it acts. No lock can prevent that. While the process is paused, its session may expire, and the next
//! contender then acquires the lock. When the process goes on, it acts on a stale answer. A [`FencingToken`] protects
//! against this, if the store that the lock protects checks it. Nothing else does.
//!
//! **A virtual machine can be paused together with its clocks**, for a snapshot or a migration. Afterwards its clocks
//! show that no time has passed. Its guards go on saying that the lock is held until the next heartbeat fails.
//! Meanwhile another guard may be valid. Use tokens. Or call [`Guard::verify`] right before you act: it asks a quorum.
//!
//! **A copy of a running process has a copy of its guards**, and no copy knows of the other. A copy is made if a
//! virtual machine is cloned or is started twice from one snapshot, if CRIU restores a process beside the original, and
//! if a child of `fork` goes on without `exec`. Each copy says that the lock is held. Connect after the copy is made.
//!
//! **An operator can restore ZooKeeper's data while clients run**, with the `restore` command of ZooKeeper 3.9. The
//! command replaces the present tree by an old one, and ZooKeeper does not tell any client. The next contender may be
//! granted at once. Its node may have the same name as the holder's node. The holder learns of it at the next heartbeat
//! that looks at its node. In a session with up to 32 guards, each heartbeat looks at every node. In a session with `32
//! n` guards, each node has its turn at every n-th heartbeat. Long [data](LockOptions::data) reduces the number of
//! nodes for each heartbeat. Until then two guards may be valid. Stop every client before a restore, and restart the
//! servers after it: ZooKeeper 3.9.3 expires no session that is opened after a live restore.
//!
//! **A runtime whose threads are all blocked** sends no heartbeats. A session whose runtime is blocked for long loses
//! all its locks. This never makes two guards valid: [`Guard::run`] looks at the clock before it polls its future
//! again. But `run` does not stop tasks that its future has spawned.
//!
//! **An operator who deletes the holder's node** takes the lock from the holder. The holder learns of it within a round
//! trip. In the first 20 to 40 ms after its grant it does not watch its node yet, and learns of it later. Until then
//! two guards may be valid. If an operator deletes a *waiter's* node, the release of its predecessor still grants that
//! waiter, and also grants the next waiter in the queue. Both guards are valid until the first one learns of the
//! deletion, within a round trip. A [`LockOptions::takeover_delay`] closes both gaps for waiters that are already in
//! the queue. A write to a node does not grant the lock to anybody. If somebody writes to the holder's node, the
//! holder's guard is lost. If an operator removes the holder's right to read its node before deleting the node, the
//! holder learns of the deletion only at a heartbeat.
//!
//! **Other ZooKeeper clients have queues of their own.** Curator, kazoo and others create contenders under other names.
//! An acquisition that sees one fails with [`AcquireError::ForeignContender`]. After the grant, a holder does not look
//! for such contenders any more. So it does not notice a client that comes later and ignores zklock's nodes, as kazoo
//! does. Use only zklock at a path.
//!
//! **A path has one kind.** A lock, an election, a semaphore and slots at one path would not see each other. So an
//! acquisition that finds another kind there fails with [`AcquireError::OtherKind`]. The queue of an election or of a
//! pool is a lock's directory at `path/queue`. So you cannot use `path/queue` as a lock of your own. If an [`Election`]
//! has been idle for up to about a minute, it does not notice a lock that somebody acquired at its path in that time.
//! `docs/DESIGN.md` lists the other such cases.
//!
//! **A lock serialises, and does not deduplicate.** If three machines do a job under one lock, they do it three times,
//! one after the other. With a [`Once`], only one of them does it.
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
//! A lock is a directory, a [container
//! node](https://zookeeper.apache.org/doc/current/zookeeperProgrammers.html#Container+Nodes) that ZooKeeper removes
//! once it is empty. Each contender is an ephemeral, sequential child `lock-0000000042`. The lowest number holds the
//! lock. A reader's child is `rlock-0000000043`; it holds the lock if no `lock-` child is lower. The data of a
//! contender is a small JSON object with its `owner` and `since`, for operators who look with `zkCli`. If the directory
//! has no data when zklock first sees it, zklock writes its own data there. If others write to the directory later,
//! zklock overwrites that. `docs/DESIGN.md` argues the whole layout and the protocol.
//!
//! An [`Election`], a [`Semaphore`], [`Slots`] and a [`Once`] stand on such a lock. Their pages show which other nodes they have.
//!
//! The heartbeat interval is `(session timeout - 3/4 tick) / 4`: 2.1 seconds by default. At each heartbeat a session
//! sends one `sync`, for all its guards and waiters. While it has a guard, it sends a quorum write, too, and a read of
//! up to 32 nodes, which have at most 144 KiB of data together. A server without a leader answers neither, and its
//! clients connect to another server. A session with 20,000 waiters, or with 10,000 guards, was tested to survive the
//! loss of its connection.
//!
//! # How long a call takes
//!
//! Each call that asks ZooKeeper follows one of four rules. If the answer does not come in time, the call returns the
//! error that the rule names.
//!
//! * **A call that waits for others has no time limit**: `acquire`, `acquire_many`, `read`, `write`, [`Locks::acquire`],
//!   [`Election::campaign`], `claim` and [`Once::run`]. It returns when it has what it waits for, or when it can no
//!   longer get it, because the session is over or the servers refuse. Drop the future to stop waiting. The call of the
//!   same name with `_timeout` returns `None` once that time is over.
//! * **A call that begins with `try_`** does not wait for other contenders. It waits for ZooKeeper's answer for half a
//!   session timeout. After that it returns [`AcquireError::Unanswered`]. So do [`Semaphore::set_capacity`] and
//!   [`Slots::set_count`].
//! * **A call that only looks** waits for half a session timeout, too. After that it returns
//!   [`QueryError::Unanswered`]. If the connection is lost earlier, it returns
//!   [`Disconnected`](QueryError::Disconnected) at once. [`Session::verify_sequencer`] has the same two errors;
//!   [`Once::now`] and [`Once::period_name`] have [`AcquireError::Unanswered`]. For [`Session::locks_below`] this is
//!   the limit of each request.
//! * **A call of a guard, a leadership or a run** returns at the end of the guard's lease. [`Guard::verify`] and
//!   [`Leadership::proclaim`] then return [`Lost`]. ZooKeeper may have announced the value of `proclaim` all the same.
//!   If a [transaction](Guard::transaction) was sent, its `commit` returns
//!   [`TransactionError::Unknown`](guard::TransactionError::Unknown); if it was not sent,
//!   [`TransactionError::Lost`](guard::TransactionError::Lost). If a record was sent,
//!   [`Run::complete`](once::Run::complete), `fail` and `record` return
//!   [`RecordError::Unconfirmed`](once::RecordError::Unconfirmed); if it was not sent,
//!   [`RecordError::Lost`](once::RecordError::Lost). [`Guard::release`], `release_all` and [`Leadership::resign`]
//!   return [`ReleaseError::Unconfirmed`], and go on in the background.
//!
//! A claim of a [`Once`] follows two rules. It waits for the lock as the first rule says. Then it records that the run
//! has begun, until the guard's lease ends, as the last rule says. If no answer comes, it acquires the lock again, as
//! long as its `timeout` lasts. [`Session::connect`] returns [`ConnectError::Unreachable`] or
//! [`ReadOnly`](ConnectError::ReadOnly) after its [`connect_timeout`](SessionBuilder::connect_timeout), by default the
//! session timeout. [`Session::close`] returns [`ReleaseError::SessionUnconfirmed`] at the end of the lease or after
//! two fifths of the session timeout, whichever is later, and goes on in the background.
//!
//! [`Session::ask`] looks, and then makes a node: each has the limit of a call that only looks. [`Asking::answer`](ask::Asking::answer)
//! has the limit that you give to the request, and that of one more look.
//!
//! The `next` of an [`Observer`](inspect::Observer), of [`Asks`](ask::Asks) and of [`SessionEvents`] waits for a change without a
//! time limit.
//! [`Observer::latest`](inspect::Observer::latest) sends nothing and returns at once.
//!
//! The session timeout is [`Session::timeout`]. [`Guard::remaining`] is the time until the lease ends. [`Guard::run`]
//! takes as long as its future, and [`Guard::lost`] as long as the guard is held. All other functions return at once:
//! they do not wait for ZooKeeper.
//!
//! To start a service while no server can be reached, use [`SessionBuilder::connect_lazy`]. It returns at once, and
//! connects in the background.
//!
//! If ZooKeeper expires the session, zklock tries to open another one. While no server can be reached, it tries without
//! a time limit. If every server *refuses* the session for as long as a session timeout, the session becomes
//! [`SessionState::Failed`]. This happens if the servers' limits no longer allow the session timeout that you asked
//! for. Acquisitions then fail, and [`Session::failure`] says why.
//!
//! # Metrics, spans and events
//!
//! With the feature `metrics`, zklock counts by the facade of the crate `metrics`; the program installs the recorder of its choice. The
//! names follow OpenTelemetry's conventions for connection pools, and times are in seconds:
//!
//! | metric | kind | says |
//! |---|---|---|
//! | `zklock.acquire.wait_time` | histogram | the time from a call to what it acquired |
//! | `zklock.acquire.timeouts` | counter | calls that acquired nothing within their timeout; a `try_` is none |
//! | `zklock.waiters` | gauge | calls that are acquiring now |
//! | `zklock.hold_time` | histogram | the time from a grant to its release or loss |
//! | `zklock.lost` | counter | guards that were lost, or let go because their loss was near ([`LockOptions::stop_margin`]), by `reason`: `unconfirmed`, `max_hold`, `session_expired`, `session_closed`, `auth_failed`, `node_deleted` |
//! | `zklock.lease.remaining` | histogram | what is left of the lease when a heartbeat is due, while the session holds something |
//! | `leader_election_master_status` | gauge | 1 if this process leads, 0 if it stands by, as Kubernetes has it |
//!
//! The one label beside `reason` is `name`, from [`LockOptions::name`]. What has no name is counted without the label, all together;
//! an election without a name has no `leader_election_master_status`. No path, key or owner is a label. A loss is counted as soon as
//! zklock knows of it, though nobody asks the guard. Of [`Locks`], each acquisition of a task counts, and a hold counts once for all
//! tasks that it is passed on to.
//!
//! Each acquisition has one span of `tracing`, whether or not the feature is on: `zklock.acquire`, at the level INFO. It costs nothing
//! if no subscriber wants it. Its fields keep their names: `member` (`lock`, `reader`, `several`, `key`, `election`, `semaphore`,
//! `slots`, `once`), `path`, `name` if there is one, `wait` (`forever`, `never`, or the time), and at the end `outcome` (`granted`,
//! `busy`, `timeout`, `error`; none if the call was dropped).
//!
//! Each hold has events of `tracing`, with or without the feature. They cost nothing if no subscriber wants them. Their target is
//! `zklock::hold`, and their messages and fields keep their names:
//!
//! | message | level | says | its own fields |
//! |---|---|---|---|
//! | `granted` | DEBUG | the call returns what it has acquired | `waited`: since the call began |
//! | `at risk` | WARN | the session's heartbeats fail ([`Guard::at_risk`]); it is told once, until one has succeeded | `remaining`: for how long the guard is held without a heartbeat |
//! | `lost` | WARN | the guard is lost | `reason`: as that of the metric `zklock.lost`; `held`: from `granted` to the loss |
//! | `released` | DEBUG | the holder lets go: it releases or drops its last guard, or a task of [`Locks`] passes the hold on. ZooKeeper confirms it later | `held`; `reason`, if the holder was told of a loss that was near ([`LockOptions::stop_margin`]) |
//!
//! Times are in seconds. Each event has the fields `path`, `chroot` if the session has one, `member` as in the span, `name` if there is
//! one, `owner` ([`LockOptions::owner`]), `slot` (the index) or `weight`, and the two numbers of the [`FencingToken`]: `token` and
//! `turn`. Several locks that are held at once have an event for each of them, with one token. Each hold has one `granted` and one end,
//! `lost` or `released`. A process that is killed, and a guard that is forgotten, tell no end. An event comes when zklock knows of it: a
//! process that was stopped tells of its loss when it goes on, and `held` says when the loss was. Select the events with a filter such as
//! `info,zklock::hold=debug`. `docs/GUIDE.md` shows how to find out from the logs of several machines who held a lock when.
//!
//! # Requirements
//!
//! zklock needs ZooKeeper 3.6 or later, and a tokio runtime with I/O and time enabled.
//!
//! A session belongs to the runtime in which it was connected. You may await its calls in another runtime, or outside
//! any runtime. Once its runtime has shut down, no call panics or waits: the session is
//! [`Closed`](SessionState::Closed), its guards are lost ([`LostReason::SessionClosed`]), and its calls return the
//! errors of a closed session. Without a runtime, [`Session::connect`] returns [`ConnectError::NoRuntime`].
//!
//! | feature | adds |
//! |---|---|
//! | `tls` | connections over TLS |
//! | `sasl-digest-md5`, `sasl-gssapi` | authentication with SASL; the latter needs the system's GSSAPI library |
//! | `serde` | `Serialize` and `Deserialize` for tokens and sequencers |
//! | `metrics` | [metrics](#metrics-spans-and-events) by the facade of the crate `metrics` |
//! | `cancellation-token` | `Guard::cancellation_token`, with tokio-util |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]

mod acl;
pub mod ask;
mod clock;
mod contender;
pub mod election;
mod error;
pub mod fence;
pub mod guard;
pub mod inspect;
mod joint;
mod layout;
mod lock;
mod locks;
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
mod zk;

pub use acl::{Acl, Permissions};
pub use election::{Election, Leadership};
pub use error::{AcquireError, InvalidLock, QueryError};
pub use fence::{FenceGate, FencingToken, Sequencer};
pub use guard::{AnyGuard, Guard, Lost, LostReason, MultiGuard, Permit, ReadGuard, ReleaseError, Slot};
pub use layout::Layout;
pub use lock::Lock;
pub use lock::multi_lock::{Access, MultiLock};
pub use lock::options::LockOptions;
pub use lock::rw_lock::RwLock;
pub use locks::Locks;
pub use locks::options::LocksOptions;
pub use once::Once;
pub use path::PathProblem;
pub use semaphore::{Semaphore, Slots};
pub use session::{ConnectError, Session, SessionBuilder, SessionEvent, SessionEvents, SessionState};

/// Compiles the examples of these pages as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/GUIDE.md")]
#[doc = include_str!("../docs/MIGRATION.md")]
struct Pages;
