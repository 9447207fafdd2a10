//! The pure part of [zklock](https://docs.rs/zklock), a strict lock on Apache ZooKeeper: the protocol of its
//! contenders, and the arithmetic of its leases. This crate is `no_std`: it depends on nothing but `core` and `alloc`,
//! does no I/O and asks no clock. Use `zklock`. This crate has no stable API: it changes as zklock needs it.
//!
//! One contender is one [`Machine`]. The contenders of one acquisition are a [`Group`]: a lock has one, and a multi-lock
//! has one in each of its queues. Events go in, and commands come out. The [`Acquisition`](acquisition::Acquisition) stands
//! between them and the connections of a session. A session has one [`Lease`]; `lease.rs` argues why the lease is sound. The
//! [`SessionLease`] decides how long each guard of the session is valid. Permits and slots have a machine of their own, the
//! [`Admission`](admission::Admission). A run that happens once has two: the [`ClaimMachine`](claim::ClaimMachine), and the
//! [`Ending`](ending::Ending). A leader has its [`Candidacy`](candidacy::Candidacy), which announces it. The announcement goes
//! with the leader's node: it is the node's [`Companion`](companion::Companion).
//!
//! ```text
//!            events                                commands
//!   caller ----------> +---------+ ---------------------------------> group, acquisition ---> ZooKeeper
//!                      | Machine |  Enter List WatchPredecessor ...                         |
//!   replies ---------> +---------+  Grant End                                               |
//!      ^                                                                                    |
//!      +------------------------- group, acquisition <--------------------------------------+
//!
//!   Begin            +------ Unanswered ----> Recovering
//!     |              |                            |
//!     v              |                            v
//!   Entering --------+--- somebody blocks ---> Watching <> Waiting --+
//!     |                                           ^           |      | predecessor gone, or a reader released
//!     | nobody blocks                             |           |      v
//!     |                                           +-----------|--- Looking --> Delaying
//!     v                 writer released                       |                  |
//!   Confirming <----------------------------------------------+------------------+
//!     | lease valid
//!     v            Release, GiveUp
//!   Held ---------------------------> Releasing ---> Ended
//!     |    \ Forfeit
//!     |     +-----------------------> Leaving -----> Ended
//!     | own node touched, release forged
//!     v            Release, GiveUp
//!   Lost ---------------------------> Leaving -----> Ended
//!
//!   A contender that another transaction has granted (a permit, a slot) begins at `Confirming`.
//!
//!   A contender that knows all who block it (a reader, or the second of two) goes on to the next of them without
//!   `Looking`.
//!
//!   With a takeover delay, a contender that has not seen that nobody else was in front of the writer is `Succeeding` before
//!   `Confirming`: it lists, and goes on to `Watching` if somebody blocks it.
//!
//!   GiveUp anywhere before Confirming ---> Leaving ---> Ended
//!   Foreign from any look --------------> Leaving ---> Ended
//!   Foreign for a refused create --------------------> Ended
//! ```
//!
//! # Invariants
//!
//! 1. A grant needs three things at that moment: our own node was created in this very session, every lower contender
//!    that blocks us is gone, and the lease is valid. Every lower contender blocks an exclusive one (a lock, a
//!    writer). Only lower exclusive ones block a shared one (a reader). *Own node*: every way to `Confirming` passes
//!    through a reply that showed our node. *Lower contenders gone*: one of two things shows it. Either a listing or a
//!    count made after our create showed none that blocks us, or only some that are gone since; and none can be
//!    created any more, because the server numbers upwards. Or one transaction wrote to the predecessor's node and
//!    deleted it, and the predecessor was exclusive. By (2) that is its holder's release, and by (1) an exclusive
//!    holder has no lower contender. The release of a reader proves nothing about other readers, so a writer looks
//!    again. Lower contenders include contenders of other clients: a look that shows a live one, lower or higher,
//!    gives `Foreign` instead of a listing, and ends the acquisition. So does a look that shows that the path has another
//!    [kind](PathKind). *Lease*: only `Confirmed` leads to `Held`, and
//!    the acquisition says `Confirmed` only while the lease is valid.
//! 2. One transaction that writes to a contender's node and deletes it is that contender's release. Of our commands only
//!    `Release` does both. The machine gives it only in `Confirming`, in the states of a held lock, and to repeat it:
//!    that is, only if no contender blocks it. A write alone grants nobody, no matter who wrote. A write and a deletion in a
//!    later transaction grant nobody either. Another client can forge a release. So a contender that has not seen that nobody
//!    else was in front of its predecessor lists: with a takeover delay before its grant, without one after it has held the lock
//!    for a while, if the queue is short. Until that look (1) may not hold. The look ends the guard if somebody blocks it.
//! 3. A waiter watches one node, its predecessor. A holder watches its own node. It sets that watch after it has held
//!    the lock for some 20 ms, so that short critical sections do not pay for it. A member of a group that is first
//!    while another one waits watches its own node, too. If a watch is lost with its connection, the machine sets it
//!    again on the same node.
//! 4. Every node that was created has a machine as its owner until the node is gone or its session is over. A machine
//!    ends only on `Deleted`, on `Released`, on a definite absence, or with the session. The one exception is a server
//!    that refuses the deletion itself. And a machine does not touch a node that it does not own. Once the last node is
//!    gone, ZooKeeper removes the directory, and in the next directory the numbers begin at 0. So a name may have
//!    passed to another contender. A machine uses names only while its own node certainly exists. After a lost reply
//!    that is not certain, so `Recover` comes before the next `Release` or `Delete`.
//! 5. Validity ends before the ensemble can give the lock to another contender. The lease sees to that.
//! 6. A token is higher than that of each earlier grant that it excludes: a writer's token than all earlier ones, and a
//!    reader's than those of earlier writers. Readers that hold the lock together are granted in any order. A token is the
//!    `czxid` of the holder's node. The server creates the nodes of one queue in the order of their numbers. The nodes of
//!    one group have one token.
//! 7. The machine ends with `End::Released` only if we removed our own node: on `Released(true)`; on `Recovered(None)`
//!    after a lost reply; or, if the server refused the write of the release, after a plain deletion. In the latter two
//!    cases only an operator can have removed the node otherwise, because the session never ended.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod acquisition;
pub mod admission;
pub mod candidacy;
pub mod claim;
mod command;
pub mod companion;
mod contender;
pub mod ending;
mod event;
mod foreign;
mod group;
mod layout;
mod lease;
mod line;
mod machine;
pub mod nodes;
mod observer;
mod path_kind;
mod permits;
pub mod transaction;
mod tries;

pub use command::{Alone, Breach, Command, End, Together};
pub use contender::{Ahead, Kind, LAST_SEQUENCE, Others, Own, QueuePlace, Sequence, Standing, standing};
pub use event::{Event, Refusal, Sight};
pub use foreign::{Child, Foreign, ForeignClient, session};
pub use group::{Group, Outcome, Output, Report};
pub use layout::{Directory, QueueLayout};
pub use lease::{
    DEFAULT_DRIFT_PPM, Lapse, Lease, Lengths, Limit, Moment, Present, Proof, Reckoning, Sent, SessionEnd,
    SessionLease, Term,
};
pub use line::{HoldNumber, LineMachine, Step, Ticket, Turned};
pub use machine::{Arrival, Machine, Patience, Takeover};
pub use observer::{Footing, Instruction, Observation, ObserverMachine, Stamp};
pub use path_kind::{OtherKind, PathKind, Signs, Stranger};
pub use permits::{Misfit, Ruling, Stock, Wish, rule};
pub use tries::Tries;
