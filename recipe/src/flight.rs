//! What a flight record says: one [`Line`] after the other, of one process. Machines are pure, so their inputs are enough to
//! run them again.
//!
//! A line is in the file before anybody relies on what it says, and so are all lines before it. So a record that ends in the middle
//! lacks nothing on which its process has relied: no guard was valid for longer than the last evidence in it allows. It may lack the last
//! lines on which nobody relies: a begin, an input that changed no guard, a stamp, an ask.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::time::Duration;

use crate::acquisition::{Acquisition, Command, Input};
use crate::command::End;
use crate::contender::{Kind, Own};
use crate::layout::Layout;
use crate::lease::{Lease, Lengths, Moment, Present, SessionEnd, Term};
use crate::machine::{Arrival, Patience, Takeover};
use crate::path_kind::PathKind;
use crate::permits::Stock;

/// The version of the format. Another one means something else.
pub const FORMAT: u32 = 1;

/// One line of a flight record.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Line {
    /// The first line of each file.
    Header(Header),
    /// A ZooKeeper session was established; or, at the beginning of a file, it is still open.
    Session(Box<Session>),
    /// The lease of the session with this number takes in evidence.
    Lease(u32, Evidence),
    /// An acquisition begins. Behind the sessions at the beginning of a file: it began in an earlier file, and still waits. Then the
    /// inputs that it has had are not in this file.
    Begun(Begun),
    /// The directory of a node of this acquisition is known.
    Located(u64, Located, Moment),
    /// An acquisition takes in an input.
    Heard(Heard),
    /// The guard of an acquisition, which is still held at the beginning of a file.
    Held(Held),
    /// The nodes of a guard were seen on this connection, besides what the inputs show.
    Saw(u64, u64, Moment),
    /// Somebody else has touched a node of this acquisition's guard.
    Touched(u64, Moment),
    /// The hold of this acquisition passes to the turn with this number. No guard of the turn before says any more that it is held.
    Turn(u64, u32, Moment),
    /// A guard is over, or will be.
    Over(Over),
    /// The leader's clock, by a reply.
    Stamp(Stamp),
    /// An ask was at a path.
    Asked(Asked),
    /// The last line of a file that was full. The process's file with this number was begun before, with all that is open. A file
    /// that ends otherwise may lack lines, also if the next one is there.
    Continues(u32, Moment),
    /// The last line of a process: its sessions are over, and nobody can begin another one on this record.
    Closed(Moment),
}

/// Who writes a file, and when it began.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Header {
    /// Whether the file lacks lines at its end, because they could not be written: 0 or 1. It is the first field, so that it can be
    /// changed in its place when the disk is full.
    pub failed: u8,
    /// See [`FORMAT`].
    pub format: u32,
    /// zklock's version.
    pub zklock: String,
    /// The process: the same in each of its files.
    pub process: String,
    /// The file's number among those of its process. The first one has 0.
    pub file: u32,
    /// How many lines could not be written before this file, and since when.
    pub gap: Option<(u64, Moment)>,
    /// Until when records of other processes in this directory had lines that were deleted to make room, by this machine's clocks. It
    /// is the default if all of them were from before the machine was started.
    pub deleted: Option<Moment>,
    /// The machine's name.
    pub host: String,
    /// The process's id.
    pub pid: u32,
    /// Names the time since the machine was started: its clocks count from then.
    pub boot: String,
    /// What the process says of itself.
    pub owner: String,
    /// The file's device and inode. A copy has others.
    pub inode: (u64, u64),
    /// The wall clock, in milliseconds since the Unix epoch. It is a label only.
    pub wall: u64,
    /// The same instant by the clocks of leases.
    pub at: Moment,
}

/// An open ZooKeeper session.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Session {
    /// The session's number in this process.
    pub number: u32,
    /// ZooKeeper's id of it.
    pub id: i64,
    /// The servers, and the chroot.
    pub servers: String,
    /// The chroot; empty if there is none.
    pub chroot: String,
    /// The lease at this instant.
    pub lease: Lease,
    /// When the line was written.
    pub at: Moment,
}

/// Evidence for a lease, with the instant at which the lease takes it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Evidence {
    /// See [`Lease::synced`]: the connection, when it was sent, and now.
    Synced(u64, Moment, Moment),
    /// See [`Lease::confirmed`].
    Confirmed(u64, Moment, Moment),
    /// See [`Lease::attempting`].
    Attempting(Duration, Moment),
    /// See [`Lease::attempt_failed`].
    AttemptFailed(Moment),
    /// See [`Lease::resumed`].
    Resumed(Duration, Moment),
    /// See [`Lease::disconnected`].
    Disconnected(Moment),
    /// See [`Lease::ended`].
    Ended(SessionEnd, Moment),
}

impl Evidence {
    /// Returns the instant at which the lease takes it in.
    pub fn at(&self) -> Moment {
        match *self {
            Self::Synced(_, _, now)
            | Self::Confirmed(_, _, now)
            | Self::Attempting(_, now)
            | Self::AttemptFailed(now)
            | Self::Resumed(_, now)
            | Self::Disconnected(now)
            | Self::Ended(_, now) => now,
        }
    }

    /// Has a lease take it in. `Err` if the lease cannot be kept with the timeout of a resumption.
    pub fn apply(&self, lease: &mut Lease) -> Result<(), Lengths> {
        match *self {
            Self::Synced(connection, sent, now) => lease.synced(connection, sent, now),
            Self::Confirmed(connection, sent, now) => drop(lease.confirmed(connection, sent, now)),
            Self::Attempting(least, now) => lease.attempting(now, least),
            Self::AttemptFailed(_) => lease.attempt_failed(),
            Self::Resumed(granted, _) => return lease.resumed(granted).map(drop),
            Self::Disconnected(_) => lease.disconnected(),
            Self::Ended(end, _) => lease.ended(end),
        }
        Ok(())
    }
}

/// The begin of an acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Begun {
    /// The acquisition's number in this process.
    pub acquisition: u64,
    /// The number of its session.
    pub session: u32,
    /// The queues that it joins.
    pub queues: Vec<Queue>,
    /// Whether it waits.
    pub patience: Patience,
    /// How it arrives.
    pub arrival: Arrival,
    /// The node of an acquisition that another transaction has granted, and the connection of that one.
    pub admitted: Option<(Own, Option<u64>)>,
    /// The nodes whose directories are known. At the beginning of a file these are all until then.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub located: Vec<Located>,
    /// When it begins.
    pub at: Moment,
}

/// A contender's node, and which directory it is in. A directory that is removed and made again gives the same numbers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Located {
    /// The queue's place among those of the acquisition.
    pub index: usize,
    /// The node.
    pub own: Own,
    /// The transaction that created the directory.
    pub directory: i64,
}

/// A queue, as an acquisition joins it; or a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Queue {
    /// The directory, with the chroot.
    pub path: String,
    /// The path by which the caller knows it, with the chroot.
    pub name: String,
    /// What the path is used for.
    pub used_for: PathKind,
    /// Whether it is a turnstile, which protects nothing by itself.
    pub is_turnstile: bool,
    /// The contender's kind.
    pub kind: Kind,
    /// What a waiter does whose predecessor did not release.
    pub takeover: Takeover,
    /// Whose contenders are in the queue.
    pub layout: Layout,
    /// What the pool has, of a permit or a slot.
    pub stock: Option<Stock>,
    /// What the contender says of itself.
    pub owner: String,
}

impl Begun {
    /// Makes the acquisition, before its first input.
    pub fn machine(&self) -> Acquisition {
        match self.admitted {
            Some((own, connection)) => Acquisition::of_admitted(own, connection),
            None => {
                let takeovers = self.queues.iter().map(|queue| queue.takeover);
                Acquisition::new(self.patience, self.arrival, takeovers)
            }
        }
    }
}

/// An input of an acquisition, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Heard {
    /// The acquisition's number.
    pub acquisition: u64,
    /// The input.
    pub input: Input,
    /// How the session stood.
    pub present: Present,
    /// What came of it, if that is for the caller.
    pub outcome: Option<Outcome>,
    /// When it was handled.
    pub at: Moment,
}

/// What an acquisition came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Outcome {
    /// The guard was given: these nodes, in this term; and the connection on which they were last seen.
    Granted(Vec<Own>, Term, Option<u64>),
    /// The guard is lost, because somebody else touched a node.
    Lost,
    /// The contenders have ended, as the one with this index did.
    Ended(usize, End),
}

impl Outcome {
    /// Returns what these commands of an acquisition mean for its caller, if anything.
    pub fn of(commands: &[Command], machine: &Acquisition) -> Option<Self> {
        commands.iter().rev().find_map(|command| match command {
            Command::Grant(nodes, term) => Some(Self::Granted(nodes.clone(), *term, machine.seen())),
            Command::Lose => Some(Self::Lost),
            Command::End(index, end) => Some(Self::Ended(*index, end.clone())),
            Command::All(..) | Command::One(..) | Command::ExpectLate(_) | Command::EndSession(..) => None,
        })
    }
}

/// A guard that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Held {
    /// Its acquisition.
    pub begun: Begun,
    /// Its nodes.
    pub nodes: Vec<Own>,
    /// The term of the lease in which it was granted.
    pub term: Term,
    /// The connection on which its nodes were last seen.
    pub seen: Option<u64>,
    /// The number of its present turn.
    pub turn: u32,
    /// When it was granted.
    pub at: Moment,
}

/// The end of a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Over {
    /// The guard's acquisition.
    pub acquisition: u64,
    /// Why, in the words of the guard.
    pub reason: String,
    /// The guard says no more from this instant on that it is held. It may be ahead, by a stop margin.
    pub from: Moment,
    /// Whether the holder lets go, which comes before the release is sent.
    pub lets_go: bool,
    /// When the guard already said so, if it is not ahead.
    pub at: Moment,
}

/// The leader's clock, by the reply to a write of ours: the stat that it changed has the leader's time and the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stamp {
    /// The number of the session.
    pub session: u32,
    /// An instant before the request was sent.
    pub sent: Moment,
    /// An instant after the reply.
    pub answered: Moment,
    /// The leader's wall clock when it took the request, in whole milliseconds.
    pub time: i64,
    /// The transaction. Its upper half says which leader it was.
    pub zxid: i64,
    /// The acquisition whose release this transaction was.
    pub releases: Option<u64>,
    /// The nodes that a release wrote to before it deleted them: the transaction that created each, and the version by then. It is 1 if
    /// nobody else has written to the node.
    pub written: Vec<(i64, i32)>,
}

/// An ask to let go, which was made at the path of a lock. Its node is no contender, and took one of the directory's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Asked {
    /// The number of the session that saw it.
    pub session: u32,
    /// The path, with the chroot.
    pub path: String,
    /// The transaction that created the ask's node.
    pub czxid: i64,
    /// When it was seen.
    pub at: Moment,
}

impl Line {
    /// Returns when the line was written, or shortly before.
    pub fn at(&self) -> Moment {
        match self {
            Self::Header(header) => header.at,
            Self::Session(session) => session.at,
            Self::Lease(_, evidence) => evidence.at(),
            Self::Begun(begun) => begun.at,
            Self::Heard(heard) => heard.at,
            Self::Held(held) => held.at,
            Self::Located(_, _, at) | Self::Saw(_, _, at) => *at,
            Self::Touched(_, at) | Self::Turn(_, _, at) => *at,
            Self::Continues(_, at) | Self::Closed(at) => *at,
            Self::Over(over) => over.at,
            Self::Stamp(stamp) => stamp.answered,
            Self::Asked(asked) => asked.at,
        }
    }
}
