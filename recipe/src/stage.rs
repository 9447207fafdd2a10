//! The local stage: the tasks of one process that want one lock, in line for the one contender that the process has. While a
//! hold is offered, its guard is here. A task that takes it, a look or a loss takes the guard out again.
//!
//! ```text
//!             poll                   granted                   poll
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
//! 3. Tasks are served in the order in which they came, unless they are absent, late or last.
//! 4. An offer stands while time is left and nobody waits who would have it next. Otherwise a task that does not take it
//!    between two looks is passed over. It is *absent*: it keeps its place, and is offered nothing until it is polled again or
//!    a hold opens with it.
//! 5. A task that was passed over is [late](Standing::Late). It comes behind those in time, except when a hold begins: if it is
//!    the first in line, the hold *opens* with it, and the offer stands for half of the hold's time. So a task that is
//!    polled once in each half has its turn at the latest when a hold opens with it. A hold opens with an absent task only
//!    while another one is there, and if half of its time is longer than two looks: the others have the rest. The offer stands
//!    for no longer than that half.
//! 6. A task that did not take a half for which others waited is [last](Standing::Last): it comes behind all others. The
//!    second hold from then on may open with it again. Each further half that it misses doubles that number: 4, 8, and so on.
//!    So a task that begins to be polled in time has its turn after a bounded number of holds, and one that nobody polls costs
//!    `n` holds about `log2(n)` halves. Beside these halves, it keeps those in time that are in line waiting for two looks, and
//!    each that comes meanwhile for two looks. A late task may wait for the rest of a hold's time as well.
//! 7. Without time, or a lease that lasts, an offer is not handed on, neither by a look nor by a task that leaves. So a hold
//!    lies idle for its time and two looks at most.
//! 8. While a task that is not absent is in line, the process contends, or has a hold, be it one that is ending.

mod allowance;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

pub use allowance::Allowance;

/// A task's place in line. The lower one came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// One of the holds that the process had, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HoldNumber(u64);

/// The tasks of one process that want one lock. `W` is how a task is woken, `G` the guard of a hold, and `E` why an acquisition
/// failed. No guard is dropped here, because that may come back to the stage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stage<W, G, E> {
    line: BTreeMap<Ticket, Waiter<W>>,
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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiter<W> {
    caller: W,
    standing: Standing,
    absent: bool,
    /// How many halves it did not take.
    missed: u32,
    /// How many holds must begin until a hold may open with it again, if it is last.
    pause: u32,
}

/// Whether a task takes what it is offered. The lower one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Standing {
    /// In time, as far as it is known.
    Prompt,
    /// It was passed over.
    Late,
    /// It did not take the half of a hold's time for which others waited. After some holds it is late again.
    Last,
}

/// How much is left of the time for which a hold may be offered and passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Left {
    /// None.
    Nothing,
    /// Some, and less than half.
    LessThanHalf,
    /// Half of it, or more.
    Half,
}

/// How long half of the time is for which a hold may be offered and passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// As long as two looks take, or less.
    Short,
    /// Longer.
    Long,
}

/// What the process has of the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Has<G> {
    Nothing,
    /// A contender in ZooKeeper's queue.
    Contending,
    /// A hold, which this task may take. It opens with this task if that one is late.
    Offered {
        guard: G,
        to: Ticket,
        looked_at: bool,
        opens: bool,
    },
    /// A hold, which a task has taken.
    Taken,
    /// A hold that is being released.
    Ending,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Step<W, G> {
    /// Nothing.
    Nothing,
    /// Leave ZooKeeper's queue, unless somebody is [wanted](Stage::retire) by then.
    GiveUp,
    /// Wake this task: the hold is offered to it.
    Wake(W),
    /// Release the hold that was offered, or was to be passed on.
    Release(G),
}

/// The outcome of a poll.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Turned<G, E> {
    /// The task has the hold, and left the line. If the hold is lost by now, the next poll puts the task back to its place.
    Yours(G),
    /// The task waits.
    Waits,
    /// The task waits, and the process is to contend.
    Contend,
    /// The task is not in line any more: the acquisition [failed](Stage::fail).
    Failed(E),
}

impl<W: Clone, G, E: Clone> Stage<W, G, E> {
    /// Makes an empty stage. A hold may be passed on `budget` times.
    pub fn new(budget: u32) -> Self {
        let (line, failed, hold) = (BTreeMap::new(), BTreeMap::new(), HoldNumber::default());
        Self { line, failed, arrived: 0, has: Has::Nothing, hold, budget, left: 0 }
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
        self.has = Has::Taken;
        Some(self.begin())
    }

    /// A task looks whether its turn has come. If it is not in line, it takes its place there.
    pub fn poll(&mut self, ticket: Ticket, caller: W) -> Turned<G, E> {
        if let Some(error) = self.failed.remove(&ticket) {
            return Turned::Failed(error);
        }
        if let Some(guard) = self.withdraw(ticket) {
            self.has = Has::Taken;
            self.line.remove(&ticket);
            return Turned::Yours(guard);
        }
        match self.line.get_mut(&ticket) {
            Some(waiter) => (waiter.caller, waiter.absent) = (caller, false),
            None => {
                self.line.insert(ticket, Waiter::new(caller));
            }
        }
        if self.contends() { Turned::Contend } else { Turned::Waits }
    }

    /// A task leaves the line, when so much time is `left`. `lasts` says whether the lease lets an offer be handed on.
    pub fn leave(&mut self, ticket: Ticket, left: Left, lasts: bool) -> Step<W, G> {
        self.failed.remove(&ticket);
        self.line.remove(&ticket);
        match self.withdraw(ticket) {
            Some(guard) => self.hand_on(guard, lasts && left != Left::Nothing),
            None if matches!(self.has, Has::Contending) && !self.is_wanted() => Step::GiveUp,
            None => Step::Nothing,
        }
    }

    /// A hold begins. Then the contender is [granted](Self::granted) it.
    pub fn begin(&mut self) -> HoldNumber {
        self.hold.0 += 1;
        self.left = self.budget;
        for waiter in self.line.values_mut().filter(|waiter| waiter.standing == Standing::Last) {
            waiter.pause = waiter.pause.saturating_sub(1);
            if waiter.pause == 0 {
                waiter.standing = Standing::Late;
            }
        }
        self.hold
    }

    /// The contender is granted the lock. Half of the hold's time is so long.
    pub fn granted(&mut self, guard: G, half: Half) -> Step<W, G> {
        self.offer(guard, Some(half))
    }

    /// The turn of the task that has this hold is over; `guard` is of the next one. `allowed` says whether the hold may be passed
    /// on as far as time and the lease go.
    pub fn passed(&mut self, hold: HoldNumber, guard: G, allowed: bool) -> Step<W, G> {
        if hold != self.hold || !matches!(self.has, Has::Taken) {
            return Step::Release(guard);
        }
        let left = self.left.checked_sub(1).filter(|_| allowed);
        self.left = left.unwrap_or(self.left);
        self.hand_on(guard, left.is_some())
    }

    /// Looks at the task that the hold is offered to, when so much time is `left`. `lasts` says whether the lease lets the
    /// offer be handed on.
    pub fn look(&mut self, left: Left, lasts: bool) -> Step<W, G> {
        let Has::Offered { to, looked_at, opens, .. } = &mut self.has else { return Step::Nothing };
        let (to, opens, is_first) = (*to, *opens, !core::mem::replace(looked_at, true));
        let Some(Waiter { standing, absent, .. }) = self.line.get(&to) else { return Step::Nothing };
        let standing = *standing;
        // How it stands if others have waited for it.
        let worse = if opens { Standing::Last } else { standing.max(Standing::Late) };
        let mut others = self.line.iter().filter(|(ticket, other)| **ticket != to && !other.absent);
        // When the hold opened with an absent task, others waited. If they have left, contenders elsewhere wait all the same.
        let others_wait = *absent || others.any(|(_, other)| other.standing < worse);
        let stands = match left {
            Left::Nothing => false,
            Left::LessThanHalf => !others_wait,
            Left::Half => opens || !others_wait,
        };
        if is_first || stands {
            return Step::Nothing;
        }
        let standing = if others_wait { worse } else { standing.max(Standing::Late) };
        self.line.entry(to).and_modify(|waiter| {
            (waiter.standing, waiter.absent) = (standing, true);
            if opens && others_wait {
                waiter.missed = waiter.missed.saturating_add(1);
                waiter.pause = 2_u32.saturating_pow(waiter.missed);
            }
        });
        match self.withdraw(to) {
            Some(guard) => self.hand_on(guard, lasts && left != Left::Nothing),
            None => Step::Nothing,
        }
    }

    /// The hold that is offered to a task, if one is, so that somebody must [look](Self::look).
    pub fn offered(&self) -> Option<&G> {
        if let Has::Offered { guard, .. } = &self.has { Some(guard) } else { None }
    }

    /// The hold is released, or lost. Returns whether the process is to contend again, and the guard if one was offered.
    pub fn over(&mut self, hold: HoldNumber) -> (bool, Option<G>) {
        if hold != self.hold || matches!(self.has, Has::Nothing | Has::Contending) {
            return (false, None);
        }
        let withdrawn = self.end();
        (self.contends(), withdrawn)
    }

    /// The contender has left ZooKeeper's queue, or is about to. Returns false if somebody wants it after all.
    pub fn retire(&mut self) -> bool {
        match self.has {
            Has::Contending if self.is_wanted() => return false,
            Has::Contending => self.has = Has::Nothing,
            Has::Nothing | Has::Offered { .. } | Has::Taken | Has::Ending => {}
        }
        true
    }

    /// The acquisition has failed for everybody. Returns how they are woken, and the guard if one was offered.
    pub fn fail(&mut self, error: &E) -> (Vec<W>, Option<G>) {
        let withdrawn = self.end();
        let line = core::mem::take(&mut self.line);
        self.failed.extend(line.keys().map(|ticket| (*ticket, error.clone())));
        (line.into_values().map(|waiter| waiter.caller).collect(), withdrawn)
    }

    /// Whether a task waits that is not absent.
    pub fn is_wanted(&self) -> bool {
        self.line.values().any(|waiter| !waiter.absent)
    }

    fn contends(&mut self) -> bool {
        let contends = matches!(self.has, Has::Nothing) && self.is_wanted();
        if contends {
            self.has = Has::Contending;
        }
        contends
    }

    /// The process has nothing from now on. Returns the guard that was offered, if one was.
    fn end(&mut self) -> Option<G> {
        match core::mem::replace(&mut self.has, Has::Nothing) {
            Has::Offered { guard, .. } => Some(guard),
            Has::Nothing | Has::Contending | Has::Taken | Has::Ending => None,
        }
    }

    /// Returns the guard of the hold that is offered to this task, if it is.
    fn withdraw(&mut self, ticket: Ticket) -> Option<G> {
        match core::mem::replace(&mut self.has, Has::Ending) {
            Has::Offered { guard, to, .. } if to == ticket => Some(guard),
            before => {
                self.has = before;
                None
            }
        }
    }

    /// Offers the hold to the next task, if that is `allowed`.
    fn hand_on(&mut self, guard: G, allowed: bool) -> Step<W, G> {
        if allowed {
            return self.offer(guard, None);
        }
        self.has = Has::Ending;
        Step::Release(guard)
    }

    /// Offers the hold to the next task. If it begins, half of its time is so long.
    fn offer(&mut self, guard: G, half: Option<Half>) -> Step<W, G> {
        let begins = half.is_some();
        let best = if begins { Standing::Late } else { Standing::Prompt };
        // A late task may be polled between the openings each time. So it need not be there when a hold opens with it. But it
        // is passed over at the second look at the earliest, and then some time must be left for the others.
        let waits = half == Some(Half::Long) && self.is_wanted();
        let is_there = |it: &Waiter<W>| !it.absent || waits && it.standing == Standing::Late;
        let first = |worst| self.line.iter().find(|(_, it)| it.standing <= worst && is_there(it));
        match [best, Standing::Late, Standing::Last].into_iter().find_map(first) {
            Some((to, waiter)) => {
                let opens = begins && waiter.standing == Standing::Late;
                self.has = Has::Offered { guard, to: *to, looked_at: false, opens };
                Step::Wake(waiter.caller.clone())
            }
            None => self.hand_on(guard, false),
        }
    }
}

impl<W> Waiter<W> {
    fn new(caller: W) -> Self {
        Self { caller, standing: Standing::Prompt, absent: false, missed: 0, pause: 0 }
    }
}

#[cfg(test)]
mod tests;
