//! The members of the family, which are contended for.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A member of the family, on paths of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum Member {
    /// One lock.
    Lock,
    /// One read-write lock.
    Readwrite,
    /// Several of five locks at once.
    Several,
    /// An election, with observers.
    Election,
    /// Locks by key, which the tasks of a process pass on.
    Keys,
    /// A semaphore, with permits of several weights.
    Semaphore,
    /// Slots.
    Slots,
    /// Runs that happen once.
    Once,
    /// One lock in a queue that another client shares.
    Queue,
    /// Locks of commands under `zklock run`. It is no value to draw: the program starts processes, which the simulation lacks.
    #[value(skip)]
    Program,
}

impl Member {
    /// The path of its election, its pool, its locks by key. The locks of the others are below it.
    pub fn root(self) -> String {
        format!("/lock/{self}")
    }

    /// The directory of the lock with this number, from 0. The first one is also the turnstile of a pool, and where candidates queue.
    pub fn path(self, lock: usize) -> String {
        format!("{}/{}", self.root(), key(lock))
    }

    /// The announcement of the election.
    pub fn announcement(self) -> String {
        format!("{}/leader", self.root())
    }

    /// The directory of the permits and slots.
    pub fn permits(self) -> String {
        format!("{}/permits", self.root())
    }

    /// The directory of the records of the runs that happen once under the first lock.
    pub fn records(self) -> String {
        format!("{}.once", self.path(0))
    }

    /// The directory of the lock that a client's witness holds, and nobody else wants.
    pub fn beside(self, client: u16) -> String {
        format!("{}/beside-{client}", self.root())
    }

    /// The directory of a lock's log.
    pub fn log(self, lock: usize) -> String {
        format!("{LOGS}/{self}-{lock}")
    }
}

/// The directory of all logs.
pub const LOGS: &str = "/contest-logs";

/// The name of a lock's directory below the root.
pub fn key(lock: usize) -> String {
    if lock == 0 { "queue".to_owned() } else { format!("queue-{lock}") }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}
