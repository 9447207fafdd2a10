//! The local stage: the tasks of one process that want one lock, in line for the one contender that the process has.
//!
//! ```text
//!            arrive                  granted                   poll
//!   Nothing --------> Contending -----------------> Offered ----------> Taken
//!     ^                    |                        ^    |                |  passed, within the budget
//!     |      nobody waits  |                        +----|----------------+
//!     +--------------------+                             |                |  passed, or nobody is there
//!     ^                    ^        lost                 v                v
//!     |                    +---------------------------------------- Ending, Taken
//!     +------------------------ over: nobody waits --------------------+
//! ```
//!
//! # Invariants
//!
//! 1. The process has at most one contender that waits, and at most one hold, but for that of a task that tried beside
//!    others. Only a hold that is `Taken` is passed on, so at most one task has a turn.
//! 2. A hold is passed on at most as often as the budget allows. After that the contender leaves, and the next one
//!    joins ZooKeeper's queue at its end.
//! 3. Tasks are served in the order in which they came. One that was offered a turn and does not take it between two looks is
//!    *absent*: it keeps its place, and is passed over until it is polled again.
//! 4. While a task that is not absent is in line, the process contends, or has a hold, be it one that is ending.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A task's place in line. The lower one came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// One of the holds that the process had, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HoldNumber(u64);

/// The tasks of one process that want one lock. `W` is how a task is woken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stage<W> {
    line: BTreeMap<Ticket, Waiter<W>>,
    arrived: u64,
    has: Has,
    hold: HoldNumber,
    /// How many times each hold may be passed on.
    budget: u32,
    /// How many times the present hold may still be passed on.
    left: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiter<W> {
    caller: W,
    absent: bool,
}

/// What the process has of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Has {
    Nothing,
    /// A contender in ZooKeeper's queue.
    Contending,
    /// A hold, which this task may take.
    Offered {
        to: Ticket,
        looked_at: bool,
    },
    /// A hold, which a task has taken.
    Taken,
    /// A hold that is being released.
    Ending,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Step<W> {
    /// Nothing.
    Nothing,
    /// Leave ZooKeeper's queue, unless somebody is [wanted](Stage::retire) by then.
    GiveUp,
    /// Wake this task: the hold is offered to it.
    Wake(W),
    /// Release the hold that was offered, or was to be passed on.
    Release,
}

/// The outcome of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turned {
    /// The task has the hold, and left the line.
    Yours,
    /// The task waits.
    Waits,
    /// The task waits, and the process is to contend.
    Contend,
    /// The task is not in line any more: the acquisition [failed](Stage::fail).
    Failed,
}

impl<W: Clone> Stage<W> {
    /// Makes an empty stage. A hold may be passed on `budget` times.
    pub fn new(budget: u32) -> Self {
        let (line, has, hold) = (BTreeMap::new(), Has::Nothing, HoldNumber::default());
        Self { line, arrived: 0, has, hold, budget, left: 0 }
    }

    /// Puts a task at the end of the line. Returns true if the process is to contend.
    pub fn arrive(&mut self, caller: W) -> (Ticket, bool) {
        let ticket = Ticket(self.arrived);
        self.arrived += 1;
        self.line.insert(ticket, Waiter { caller, absent: false });
        (ticket, self.contends())
    }

    /// Whether a task may try to acquire the lock: the process has nothing of it and nobody waits. Those who come meanwhile
    /// contend, because nobody may poll the task that tries.
    pub fn is_free(&self) -> bool {
        self.has == Has::Nothing && self.line.is_empty()
    }

    /// A task that tried has the lock. `None` if the process contends by now, or has another hold: then this one is
    /// that task's own, and is not passed on.
    pub fn tried(&mut self) -> Option<HoldNumber> {
        if self.has != Has::Nothing {
            return None;
        }
        self.begin_hold();
        self.has = Has::Taken;
        Some(self.hold)
    }

    /// A task looks whether its turn has come.
    pub fn poll(&mut self, ticket: Ticket, caller: W) -> Turned {
        let Some(waiter) = self.line.get_mut(&ticket) else { return Turned::Failed };
        if matches!(self.has, Has::Offered { to, .. } if to == ticket) {
            self.line.remove(&ticket);
            self.has = Has::Taken;
            return Turned::Yours;
        }
        *waiter = Waiter { caller, absent: false };
        if self.contends() { Turned::Contend } else { Turned::Waits }
    }

    /// Puts a task back to its place in line, because the hold that it has just taken is lost. Returns true if the process is to
    /// contend.
    pub fn put_back(&mut self, ticket: Ticket, caller: W) -> bool {
        self.line.insert(ticket, Waiter { caller, absent: false });
        self.contends()
    }

    /// A task leaves the line.
    pub fn leave(&mut self, ticket: Ticket) -> Step<W> {
        self.line.remove(&ticket);
        match self.has {
            Has::Offered { to, .. } if to == ticket => self.offer(),
            Has::Contending if !self.is_wanted() => Step::GiveUp,
            _ => Step::Nothing,
        }
    }

    /// The contender is granted the lock.
    pub fn granted(&mut self) -> (HoldNumber, Step<W>) {
        self.begin_hold();
        (self.hold, self.offer())
    }

    /// The turn of the task that has this hold is over. `allowed` says whether the hold may be passed on as far as time and
    /// the lease go.
    pub fn passed(&mut self, hold: HoldNumber, allowed: bool) -> Step<W> {
        if hold != self.hold || self.has != Has::Taken {
            return Step::Release;
        }
        match self.left.checked_sub(1) {
            Some(left) if allowed => {
                self.left = left;
                self.offer()
            }
            _ => {
                self.has = Has::Ending;
                Step::Release
            }
        }
    }

    /// Looks at the task that the hold is offered to. If it did not take it since the last look, the next one may, if that
    /// is `allowed` as far as time goes.
    pub fn look(&mut self, allowed: bool) -> Step<W> {
        match &mut self.has {
            Has::Offered { looked_at, .. } if !*looked_at => *looked_at = true,
            Has::Offered { to, .. } => {
                let to = *to;
                self.line.entry(to).and_modify(|waiter| waiter.absent = true);
                if allowed {
                    return self.offer();
                }
                self.has = Has::Ending;
                return Step::Release;
            }
            _ => {}
        }
        Step::Nothing
    }

    /// Whether the hold is offered to a task, so that somebody must [look](Self::look).
    pub fn is_offered(&self) -> bool {
        matches!(self.has, Has::Offered { .. })
    }

    /// The hold is released, or lost. Returns true if the process is to contend again.
    pub fn over(&mut self, hold: HoldNumber) -> bool {
        if hold == self.hold && matches!(self.has, Has::Offered { .. } | Has::Taken | Has::Ending) {
            self.has = Has::Nothing;
            return self.contends();
        }
        false
    }

    /// The contender has left ZooKeeper's queue, or is about to. Returns false if somebody wants it after all.
    pub fn retire(&mut self) -> bool {
        if self.has == Has::Contending && self.is_wanted() {
            return false;
        }
        self.has = Has::Nothing;
        true
    }

    /// The acquisition has failed for everybody. Returns their tickets, and how they are woken.
    pub fn fail(&mut self) -> Vec<(Ticket, W)> {
        self.has = Has::Nothing;
        core::mem::take(&mut self.line).into_iter().map(|(ticket, waiter)| (ticket, waiter.caller)).collect()
    }

    /// Whether a task waits that is not absent.
    pub fn is_wanted(&self) -> bool {
        self.line.values().any(|waiter| !waiter.absent)
    }

    fn contends(&mut self) -> bool {
        let contends = self.has == Has::Nothing && self.is_wanted();
        if contends {
            self.has = Has::Contending;
        }
        contends
    }

    fn begin_hold(&mut self) {
        self.hold.0 += 1;
        self.left = self.budget;
    }

    fn offer(&mut self) -> Step<W> {
        match self.line.iter().find(|(_, waiter)| !waiter.absent) {
            Some((ticket, waiter)) => {
                self.has = Has::Offered { to: *ticket, looked_at: false };
                Step::Wake(waiter.caller.clone())
            }
            None => {
                self.has = Has::Ending;
                Step::Release
            }
        }
    }
}
