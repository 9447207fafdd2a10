//! For operators and dashboards: who holds, who waits, what is below a node; and the metrics, spans and events of zklock.
//!
//! # Metrics, spans and events
//!
//! With the feature `metrics`, zklock counts by the facade of the crate `metrics`; the program installs the recorder of its
//! choice. The names follow OpenTelemetry's conventions for connection pools, and times are in seconds:
//!
//! | metric | kind | says |
//! |---|---|---|
//! | `zklock.acquire.wait_time` | histogram | the time from a call to what it acquired |
//! | `zklock.acquire.timeouts` | counter | calls that acquired nothing within their timeout; a `try_` is none |
//! | `zklock.waiters` | gauge | calls that are acquiring now |
//! | `zklock.hold_time` | histogram | the time from a grant to its release or loss |
//! | `zklock.lost` | counter | guards that were lost, or let go because their loss was near ([`LockOptions::stop_margin`](crate::LockOptions::stop_margin)), by `reason`: `unconfirmed`, `max_hold`, `session_expired`, `session_closed`, `node_deleted`, `release_forged` |
//! | `zklock.lease.remaining` | histogram | what is left of the lease when a heartbeat is due, while the session holds something |
//! | `leader_election_master_status` | gauge | 1 if this process leads, 0 if it stands by, as Kubernetes has it |
//!
//! The one label beside `reason` is `name`, from [`LockOptions::name`](crate::LockOptions::name). Acquisitions without a
//! name are counted without the label, all together; an election without a name has no `leader_election_master_status`. No
//! path, key or owner is a label. A loss is counted as soon as zklock knows of it, though nobody asks the guard. Of
//! [`Locks`](crate::Locks), each acquisition of a task counts, and a hold counts once for all tasks that it is passed on to.
//!
//! Each acquisition has one span of `tracing`, whether or not the feature is on: `zklock.acquire`, at the level INFO. It
//! costs nothing if no subscriber wants it. Its fields keep their names: `member` (`lock`, `reader`, `several`, `key`,
//! `election`, `semaphore`, `slots`, `once`), `path`, `name` if there is one, `wait` (`forever`, `never`, or the time), and
//! at the end `outcome` (`granted`, `busy`, `timeout`, `error`; none if the call was dropped).
//!
//! Each hold has events of `tracing`, with or without the feature. They cost nothing if no subscriber wants them. Other events, mostly at
//! the level DEBUG, may come while zklock holds a mutex: a subscriber must not call zklock for these. Those of a hold have the target
//! `zklock::hold`, and their messages and fields keep their names:
//!
//! | message | level | says | its own fields |
//! |---|---|---|---|
//! | `granted` | DEBUG | the call returns what it has acquired | `waited`: since the call began |
//! | `at risk` | WARN | the session's heartbeats fail ([`Guard::at_risk`](crate::Guard::at_risk)); it is told once, until one has succeeded | `remaining`: for how long the guard is held without a heartbeat |
//! | `lost` | WARN | the guard is lost | `reason`: as that of the metric `zklock.lost`; `held`: from `granted` to the loss |
//! | `released` | DEBUG | the holder lets go: it releases or drops its last guard, or a task of [`Locks`](crate::Locks) passes the hold on. ZooKeeper confirms it later | `held`; `reason`, if the holder was told of a loss that was near ([`LockOptions::stop_margin`](crate::LockOptions::stop_margin)) |
//!
//! Times are in seconds. Each event has the fields `path`, `chroot` if the session has one, `member` as in the span, `name`
//! if there is one, `owner` ([`LockOptions::owner`](crate::LockOptions::owner)), `slot` (the index) or `weight`, and the two
//! numbers of the [`FencingToken`](crate::FencingToken): `token` and `turn`. Several locks that are held at once have an
//! event for each of them, with one token. Each hold has one `granted` and one end, `lost` or `released`. A process that is
//! killed, and a guard that is forgotten, tell no end. An event comes when zklock knows of it: a process that was stopped
//! tells of its loss when it goes on, and `held` says when the loss was. Select the events with a filter such as
//! `info,zklock::hold=debug`. `docs/guide/metrics.md` shows how to find out from the logs of several machines who held a
//! lock when.

pub use crate::acquire::contender::{Contender, ForeignContender};
pub use crate::observe::{Latest, Observer, WentBack};
pub use crate::session::locks::{Cut, HeldLock, HeldPool, LocksBelow};
pub use crate::settings::Place;
pub use crate::text::{harmless, is_harmful};
pub use zklock_recipe::{ForeignClient, Kind, PathKind};
