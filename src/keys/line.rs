//! The tasks of this process that want the lock of one key, and what the process has of it.

use std::sync::{Arc, MutexGuard};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use zklock_recipe::{HoldNumber, LineMachine, Step, Ticket, Turned};

use super::budget::Budget;
use super::in_use::InUse;
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::guard::hold::turn::Turn;
use crate::lock::Lock;
use crate::mutex::Mutex;
use crate::settings::Settings;
use crate::zk::Succession;

/// The tasks of this process that want the lock of one key.
pub(super) struct Line {
    /// Without a `max_hold`: its contender holds before a task does.
    pub(super) lock: Lock,
    /// For how long a task may hold at most.
    pub(super) max_hold: Option<Duration>,
    /// Wakes the background task: nobody waits any more, or a hold is offered.
    pub(super) nudge: Notify,
    budget: Budget,
    state: Mutex<LineState>,
    lines: Arc<InUse<Self>>,
    key: String,
}

struct LineState {
    machine: LineMachine<Arc<Waker>, Guard, AcquireError>,
    /// When the present hold began.
    began: Instant,
    /// Since when no task has had a turn, if the hold is offered.
    idle: Instant,
    /// Whether the background task looks at the offers.
    looks: bool,
}

impl Line {
    pub(super) fn new(
        mut settings: Settings,
        succession: Arc<Succession>,
        budget: Budget,
        lines: Arc<InUse<Self>>,
        key: String,
    ) -> Arc<Self> {
        let max_hold = settings.options.max_hold.take();
        let lock = Lock::of(succession, settings);
        let now = Instant::now();
        let state =
            LineState { machine: LineMachine::new(budget.turns), began: now, idle: now, looks: false };
        Arc::new(Self { lock, max_hold, nudge: Notify::new(), budget, state: Mutex::new(state), lines, key })
    }

    pub(super) fn is_free(&self) -> bool {
        self.state.lock().machine.is_free()
    }

    /// A task that tried has this guard. Returns false if that one is not passed on.
    pub(super) fn keep_tried(self: &Arc<Self>, guard: &Guard) -> bool {
        let mut state = self.state.lock();
        let hold = state.machine.tried();
        hold.map(|hold| state.begin(self, hold, &guard.turn)).is_some()
    }

    pub(super) fn offer(self: &Arc<Self>, guard: Guard) {
        let turn = guard.turn.clone();
        let mut state = self.state.lock();
        let (hold, step) = state.machine.granted(guard);
        state.begin(self, hold, &turn);
        self.carry_out(state, step);
    }

    /// Passes this hold on, whose next turn has just begun. Returns the turn if the hold is to be released instead.
    fn pass_on(&self, hold: HoldNumber, next: Arc<Turn>) -> Option<Arc<Turn>> {
        let is_ample = self.is_ample(&next);
        let mut state = self.state.lock();
        let now = Instant::now();
        let allowed = is_ample && now.duration_since(state.began) < self.budget.time;
        match state.machine.passed(hold, Guard::of(next), allowed) {
            Step::Release(guard) => Some(guard.into_turn()),
            step => {
                state.idle = now;
                self.carry_out(state, step);
                None
            }
        }
    }

    /// A task looks whether its turn has come. The first time it gets its place.
    pub(super) fn poll(&self, ticket: &mut Option<Ticket>, waker: Arc<Waker>) -> Turned<Guard, AcquireError> {
        let mut state = self.state.lock();
        let ticket = *ticket.get_or_insert_with(|| state.machine.arrive());
        state.machine.poll(ticket, waker)
    }

    pub(super) fn leave(&self, ticket: Ticket) {
        let mut state = self.state.lock();
        let (time_is_left, lasts) = self.time_and_lease(&state);
        let step = state.machine.leave(ticket, time_is_left && lasts);
        self.carry_out(state, step);
    }

    /// Whether somebody is to [look](Self::look_at_offer) again and again.
    pub(super) fn is_looked_at(&self) -> bool {
        self.state.lock().looks
    }

    pub(super) fn look_at_offer(&self) {
        let mut state = self.state.lock();
        let (time_is_left, lasts) = self.time_and_lease(&state);
        let step = state.machine.look_at_offer(time_is_left, lasts);
        state.looks = state.machine.offered().is_some();
        self.carry_out(state, step);
    }

    /// The hold is over. Returns whether to contend again.
    pub(super) fn end_hold(&self) -> bool {
        let (again, withdrawn) = self.state.lock().machine.over();
        // The guard is lost, so its node goes without a release.
        drop(withdrawn);
        again
    }

    /// Leaves ZooKeeper's queue, unless somebody is wanted after all.
    pub(super) fn retire(&self) -> bool {
        self.state.lock().machine.retire()
    }

    /// The acquisition has failed for everybody.
    pub(super) fn fail(&self, error: &AcquireError) {
        let (wakers, withdrawn) = self.state.lock().machine.fail(error);
        drop(withdrawn);
        wakers.into_iter().for_each(|waker| waker.wake_by_ref());
    }

    /// Whether time is left for the offer that stands, and whether the lease lets it be handed on.
    fn time_and_lease(&self, state: &LineState) -> (bool, bool) {
        let age = state.began.elapsed();
        let idle = state.idle.elapsed();
        let time_is_left = self.budget.lets_offer(age, idle, self.lock.succession().patience());
        (time_is_left, state.machine.offered().is_some_and(|guard| self.is_ample(&guard.turn)))
    }

    fn is_ample(&self, turn: &Turn) -> bool {
        turn.is_ample(self.max_hold)
    }

    /// Does what the machine says. Foreign code, and code that comes back here, runs outside the mutex.
    fn carry_out(&self, mut state: MutexGuard<'_, LineState>, step: Step<Arc<Waker>, Guard>) {
        match step {
            Step::Wake(waker) => {
                let looks = std::mem::replace(&mut state.looks, true);
                drop(state);
                waker.wake_by_ref();
                if !looks {
                    self.nudge.notify_one();
                }
            }
            Step::Release(guard) => {
                drop(state);
                drop(guard);
            }
            Step::GiveUp => {
                drop(state);
                self.nudge.notify_one();
            }
            Step::Nothing => {}
        }
    }
}

impl LineState {
    /// Begins a hold. From now on the guard is passed on here.
    fn begin(&mut self, line: &Arc<Line>, hold: HoldNumber, turn: &Turn) {
        self.began = Instant::now();
        self.idle = self.began;
        let line = line.clone();
        turn.pass_to(Arc::new(move |next| line.pass_on(hold, next)));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.lines.forget(&self.key);
    }
}
