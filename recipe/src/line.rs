//! The line of a key: the tasks of one process that want one lock, behind the one contender that the process has. While a
//! hold is offered, its guard is here. A task that takes it, a look or a loss takes the guard out again.
//!
//! ```text
//!             poll                granted               poll
//!   Nothing --------> Contending ----------> Offered -----------> Held
//!     ^  ^                |  ^                  ^  passed, within   |
//!     |  +----------------+  |                  +-- the budget -----+
//!     |     nobody waits     +---- over: somebody waits ------------+
//!     +--------------------------- over: nobody waits --------------+
//! ```
//!
//! An offer that nobody takes is released, and until that is over the hold is `Held`. A hold may be over while it is offered, too.
//!
//! # Invariants
//!
//! 1. The process has at most one contender that waits, and at most one hold, but for that of a task that tried beside
//!    others. Only a hold that is `Held` is passed on, so at most one task has a turn.
//! 2. A hold is passed on at most as often as the budget allows. After that the contender leaves, and the next one
//!    joins ZooKeeper's queue at its end.
//! 3. A hold is offered to the first task in line that is not late.
//! 4. A task that does not take an offer between two looks is *late*, unless time is left and nobody else waits that is not late.
//!    It keeps its place, and is offered nothing until it is polled again. Then it is as any other.
//! 5. Without time, or a lease that lasts, an offer is not handed on, neither by a look nor by a task that leaves. So a hold
//!    lies idle for its time and two looks at most.
//! 6. While a task that is not late is in line, the process contends, or has a hold, be it one that is ending.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A task's place in line. The lower one came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// One of the holds that the process had, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldNumber(u64);

/// The tasks of one process that want one lock. `W` is how a task is woken, `G` the guard of a hold, and `E` why an acquisition
/// failed. No guard is dropped here, because that may come back to the line.
#[derive(Clone, Debug)]
pub struct LineMachine<W, G, E> {
    line: BTreeMap<Ticket, LineWaiter<W>>,
    /// Those that have not been told yet that their acquisition failed.
    failed: BTreeMap<Ticket, E>,
    arrived: u64,
    has: Has<G>,
    hold: HoldNumber,
    /// How many times each hold may be passed on.
    budget: u32,
    /// How many times the present hold may still be passed on.
    left: u32,
}

#[derive(Clone, Debug)]
struct LineWaiter<W> {
    caller: W,
    /// It did not take what it was offered, and has not been polled since.
    is_late: bool,
}

/// What the process has of the lock.
#[derive(Clone, Debug)]
enum Has<G> {
    Nothing,
    /// A contender in ZooKeeper's queue.
    Contending,
    /// A hold, which this task may take.
    Offered {
        guard: G,
        to: Ticket,
        looked_at: bool,
    },
    /// A hold that a task has taken, or that is being released.
    Held,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step<W, G> {
    /// Nothing.
    Nothing,
    /// Leave ZooKeeper's queue, unless somebody is [wanted](LineMachine::retire) by then.
    GiveUp,
    /// Wake this task: the hold is offered to it.
    Wake(W),
    /// Release the hold that was offered, or was to be passed on.
    Release(G),
}

/// The outcome of a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Turned<G, E> {
    /// The task has the hold, and left the line. If the hold is lost by now, the next poll puts the task back to its place.
    Yours(G),
    /// The task waits.
    Waits,
    /// The task waits, and the process is to contend.
    Contend,
    /// The task is not in line any more: the acquisition [failed](LineMachine::fail).
    Failed(E),
}

impl<W: Clone, G, E: Clone> LineMachine<W, G, E> {
    /// Makes an empty line. A hold may be passed on `budget` times.
    pub fn new(budget: u32) -> Self {
        Self {
            line: BTreeMap::new(),
            failed: BTreeMap::new(),
            arrived: 0,
            has: Has::Nothing,
            hold: HoldNumber::default(),
            budget,
            left: 0,
        }
    }

    /// Gives a task the place at the end of the line. Its first poll takes it.
    pub fn arrive(&mut self) -> Ticket {
        self.arrived += 1;
        Ticket(self.arrived)
    }

    /// Whether a task may try to acquire the lock: the process has nothing of it and nobody waits. Those who come meanwhile
    /// contend, because nobody may poll the task that tries.
    pub fn is_free(&self) -> bool {
        matches!(self.has, Has::Nothing) && self.line.is_empty()
    }

    /// A task that tried has the lock. `None` if the process contends by now, or has another hold: then this one is
    /// that task's own, and is not passed on.
    pub fn tried(&mut self) -> Option<HoldNumber> {
        if !matches!(self.has, Has::Nothing) {
            return None;
        }
        self.has = Has::Held;
        Some(self.begin())
    }

    /// A task looks whether its turn has come. If it is not in line, it takes its place there.
    pub fn poll(&mut self, ticket: Ticket, caller: W) -> Turned<G, E> {
        if let Some(error) = self.failed.remove(&ticket) {
            return Turned::Failed(error);
        }
        if let Some(guard) = self.withdraw(ticket) {
            self.line.remove(&ticket);
            return Turned::Yours(guard);
        }
        self.line.insert(ticket, LineWaiter { caller, is_late: false });
        if self.contends() { Turned::Contend } else { Turned::Waits }
    }

    /// A task leaves the line. If it was offered the hold, the next one has it if that is `allowed`, as far as time and the
    /// lease go.
    pub fn leave(&mut self, ticket: Ticket, allowed: bool) -> Step<W, G> {
        self.failed.remove(&ticket);
        self.line.remove(&ticket);
        match self.withdraw(ticket) {
            Some(guard) => self.hand_on(guard, allowed),
            None if matches!(self.has, Has::Contending) && !self.is_wanted() => Step::GiveUp,
            None => Step::Nothing,
        }
    }

    /// The contender is granted the lock: a hold begins.
    pub fn granted(&mut self, guard: G) -> (HoldNumber, Step<W, G>) {
        debug_assert!(
            !matches!(self.has, Has::Offered { .. } | Has::Held),
            "a process has two holds of one lock"
        );
        (self.begin(), self.hand_on(guard, true))
    }

    /// The turn of the task that has this hold is over; `guard` is of the next one. `allowed` says whether the hold may be passed
    /// on as far as time and the lease go.
    pub fn passed(&mut self, hold: HoldNumber, guard: G, allowed: bool) -> Step<W, G> {
        if hold != self.hold || !matches!(self.has, Has::Held) {
            return Step::Release(guard);
        }
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or_default();
        self.hand_on(guard, allowed && left.is_some())
    }

    /// Looks at the task that the hold is offered to. If it is late, the next one has the hold if time is left and the lease
    /// `lasts`.
    pub fn look_at_offer(&mut self, time_is_left: bool, lasts: bool) -> Step<W, G> {
        let Has::Offered { to, looked_at, .. } = &mut self.has else { return Step::Nothing };
        let to = *to;
        let is_first = !core::mem::replace(looked_at, true);
        let is_alone = self.line.iter().all(|(ticket, waiter)| *ticket == to || waiter.is_late);
        if is_first || is_alone && time_is_left {
            return Step::Nothing;
        }
        self.line.entry(to).and_modify(|waiter| waiter.is_late = true);
        match self.withdraw(to) {
            Some(guard) => self.hand_on(guard, time_is_left && lasts),
            None => Step::Nothing,
        }
    }

    /// The hold that is offered to a task, if one is, so that somebody must [look](Self::look_at_offer).
    pub fn offered(&self) -> Option<&G> {
        if let Has::Offered { guard, .. } = &self.has { Some(guard) } else { None }
    }

    /// The present hold is released, or lost. Returns whether the process is to contend again, and the guard if one was offered.
    pub fn over(&mut self) -> (bool, Option<G>) {
        let withdrawn = self.end();
        (self.contends(), withdrawn)
    }

    /// The contender is about to leave ZooKeeper's queue. Returns false if somebody wants it after all.
    pub fn retire(&mut self) -> bool {
        let is_wanted = self.is_wanted();
        if !is_wanted {
            self.has = Has::Nothing;
        }
        !is_wanted
    }

    /// The acquisition has failed for everybody. Returns how they are woken, and the guard if one was offered.
    pub fn fail(&mut self, error: &E) -> (Vec<W>, Option<G>) {
        let withdrawn = self.end();
        let line = core::mem::take(&mut self.line);
        self.failed.extend(line.keys().map(|ticket| (*ticket, error.clone())));
        (line.into_values().map(|waiter| waiter.caller).collect(), withdrawn)
    }

    /// Whether a task waits that is not late.
    fn is_wanted(&self) -> bool {
        self.line.values().any(|waiter| !waiter.is_late)
    }

    fn contends(&mut self) -> bool {
        let contends = matches!(self.has, Has::Nothing) && self.is_wanted();
        if contends {
            self.has = Has::Contending;
        }
        contends
    }

    fn begin(&mut self) -> HoldNumber {
        self.hold.0 += 1;
        self.left = self.budget;
        self.hold
    }

    /// The process has nothing from now on. Returns the guard that was offered, if one was.
    fn end(&mut self) -> Option<G> {
        match core::mem::replace(&mut self.has, Has::Nothing) {
            Has::Offered { guard, .. } => Some(guard),
            Has::Nothing | Has::Contending | Has::Held => None,
        }
    }

    /// Returns the guard of the hold that is offered to this task, if it is.
    fn withdraw(&mut self, ticket: Ticket) -> Option<G> {
        match core::mem::replace(&mut self.has, Has::Held) {
            Has::Offered { guard, to, .. } if to == ticket => Some(guard),
            before => {
                self.has = before;
                None
            }
        }
    }

    /// Offers the hold to the next task, if that is `allowed` and one waits.
    fn hand_on(&mut self, guard: G, allowed: bool) -> Step<W, G> {
        match self.line.iter().find(|(_, waiter)| allowed && !waiter.is_late) {
            Some((to, waiter)) => {
                self.has = Has::Offered { guard, to: *to, looked_at: false };
                Step::Wake(waiter.caller.clone())
            }
            None => {
                self.has = Has::Held;
                Step::Release(guard)
            }
        }
    }
}

#[cfg(test)]
mod tests;
