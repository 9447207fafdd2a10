//! The pure part of [zklock](https://docs.rs/zklock), a strict lock on Apache ZooKeeper: the protocol of its contenders, and
//! the arithmetic of its leases. This crate depends on nothing but `std`, does no I/O and asks no clock. Use `zklock`; this
//! crate follows its needs, without promises of its own.
//!
//! One contender is one [`Machine`]. Events go in, commands come out. A session has one [`Lease`]; `lease.rs` argues why it is
//! sound.
//!
//! ```text
//!            events                                commands
//!   caller ----------> +---------+ --------------------------------> driver ---> ZooKeeper
//!                      | Machine |  Enter List WatchPredecessor ...            |
//!   replies ---------> +---------+  Grant End                                  |
//!      ^                                                                       |
//!      +------------------------- driver <-------------------------------------+
//!
//!   Begin            +------ Unanswered ----> Recovering
//!     |              |                            |
//!     v              |                            v
//!   Entering --------+--- somebody is lower -> Watching <> Waiting --+
//!     |                                           ^           |      | predecessor gone
//!     | nobody is lower                           |           |      v
//!     |                                           +-----------|--- Looking --> Delaying
//!     v                 predecessor released                  |                  |
//!   Confirming <----------------------------------------------+------------------+
//!     | lease valid
//!     v            Release, GiveUp
//!   Held ---------------------------> Releasing ---> Ended
//!     |    \ Forfeit
//!     |     +-----------------------> Leaving -----> Ended
//!     | own node touched
//!     v            Release, GiveUp
//!   Lost ---------------------------> Leaving -----> Ended
//!
//!   GiveUp anywhere before Confirming ---> Leaving ---> Ended
//!   Foreign from any look --------------> Leaving ---> Ended
//! ```
//!
//! # Invariants
//!
//! 1. A grant needs: own node created in this very session, every lower contender gone, lease valid at that
//!    moment. *Own node*: the only ways to `Confirming` pass through a reply that showed it. *Lower gone*:
//!    either a listing made after our create showed none lower, and none can come to be, because the server
//!    numbers upwards; or one transaction wrote to the predecessor's node and deleted it, which by (2) is its
//!    holder's release, and a holder has by (1) nobody lower. *Nobody* includes contenders of other clients: a
//!    listing that shows a live one, lower or higher, is no listing but `Foreign`, and ends the acquisition.
//!    *Lease*: `Held` is entered by `Confirmed` only, which the driver sends only
//!    while the lease is valid.
//! 2. One transaction that writes to a contender's node and deletes it is that contender's release. `Release` is the
//!    only command that does both, and it is issued from `Confirming`, `Held` and its own retry only: by
//!    contenders with nobody lower. A write alone grants nobody, whoever it is from, and neither does a write
//!    with a deletion in a later transaction.
//! 3. A waiter watches one node, its predecessor. A holder watches its own node, placed once it has held for
//!    some 20 ms, so that short critical sections do not pay for it. A watch that is lost with its connection is
//!    set again on the same node.
//! 4. Every node created is owned by a machine until it is gone or its session is over: a machine ends only
//!    on `Deleted`, on `Released`, on a definite absence, or with the session. The one exception is a server
//!    that refuses the deletion itself. Nor does a machine touch a node it does not own: once the last node
//!    is gone ZooKeeper removes the directory, and the numbers in the next one begin at 0, so a name may have
//!    passed to another contender. Names are used only while our own node certainly exists; after a lost
//!    reply that is not certain, so `Recover` comes before the next `Release` or `Delete`.
//! 5. Validity ends before the ensemble can give the lock away; that is the lease's part.
//! 6. Tokens strictly increase in grant order: a token is the `czxid` of the holder's node, the server
//!    creates nodes of one queue in the order of their numbers, and grants go in that order too.
//! 7. `End::Released` only when our own transaction removed our own node: `Released(true)`, or
//!    `Recovered(None)` after a lost reply in a session that never ended. Then nobody but an operator can have
//!    removed the node in between.

mod command;
mod contender;
mod event;
mod foreign;
mod lease;
mod machine;

pub use command::{Command, End};
pub use contender::{LAST_SEQUENCE, Own, PREFIX, Sequence, Standing, standing};
pub use event::{Event, Look, Refusal, SessionEnd, Sight};
pub use foreign::{Child, Foreign, ForeignClient, session};
pub use lease::{DEFAULT_DRIFT_PPM, Lapse, Lease, Lengths, Moment, Reckoning, Term};
pub use machine::{Arrival, Machine, Patience, Takeover};
