//! The tasks of this process that want the lock of one key, and what the process has of it.

use std::pin::{Pin, pin};
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use zklock_recipe::{Allowance, HoldNumber, Left, Stage, Step, Ticket, Turned};

use super::in_use::InUse;
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::guard::turn::{Relay, Turn};
use crate::lock::Lock;
use crate::lock::acquire::Wait;
use crate::mutex::Mutex;
use crate::settings::Settings;
use crate::telemetry::{Acquired, Member};
use crate::zk::{Over, Succession};

/// A task that does not take the lock that it was offered, and for which others wait, is passed over after this time, or twice
/// that.
const PATIENCE: Duration = Duration::from_millis(100);

/// The budget of a hold, except for its turns.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    pub(super) time: Duration,
    pub(super) lease: Duration,
}

/// The tasks of this process that want the lock of one key.
pub(super) struct Line {
    /// Without a `max_hold`: its contender holds before a task does.
    lock: Lock,
    budget: Budget,
    /// For how long a task may hold at most.
    max_hold: Option<Duration>,
    state: Mutex<State>,
    /// Wakes the background task: nobody waits any more, or a hold is offered.
    nudge: Notify,
    lines: Arc<InUse<Self>>,
    key: String,
}

struct State {
    stage: Stage<Arc<Waker>, Guard, AcquireError>,
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
        turns: u32,
        budget: Budget,
        lines: Arc<InUse<Self>>,
        key: String,
    ) -> Arc<Self> {
        let max_hold = settings.max_hold.take();
        let lock = Lock::of(succession, settings);
        let state =
            State { stage: Stage::new(turns), began: Instant::now(), idle: Instant::now(), looks: false };
        Arc::new(Self { lock, budget, max_hold, state: Mutex::new(state), nudge: Notify::new(), lines, key })
    }

    /// Waits in line. The place is taken at the first poll.
    pub(super) fn wait(self: Arc<Self>) -> Waiting {
        Waiting { line: self, ticket: None, waker: None }
    }

    /// Awaits the acquisition of a caller in its span, counts it, and tells of the hold.
    pub(super) async fn told<T: Acquired>(
        &self,
        wait: Wait,
        acquisition: Pin<&mut impl Future<Output = Result<Option<T>, AcquireError>>>,
    ) -> Result<Option<T>, AcquireError> {
        self.lock.acquirer.told(Member::Key, wait, acquisition).await
    }

    /// See [`Locks::try_acquire`](super::Locks::try_acquire).
    pub(super) async fn try_acquire(self: Arc<Self>) -> Result<Option<Guard>, AcquireError> {
        if !self.state.lock().stage.is_free() {
            return Ok(None);
        }
        let Some(guard) = self.lock.acquirer.acquire_for_others(Wait::Never).await? else { return Ok(None) };
        guard.turn.limit(self.max_hold);
        let mut state = self.state.lock();
        let Some(hold) = state.stage.tried() else { return Ok(Some(guard)) };
        let first = state.begin(&self, hold, &guard);
        drop(state);
        self.run(Some((hold, first)));
        Ok(Some(guard))
    }

    /// Starts the background task. It waits for the end of this hold, or else contends.
    fn run(self: &Arc<Self>, hold: Option<(HoldNumber, Arc<Turn>)>) {
        let running = Running { line: self.clone(), done: false };
        self.lock.succession().spawn(running.run(hold));
    }

    /// Contends until the lock is granted, nobody wants it any more, or the acquisition fails. Returns whether to contend again.
    async fn contend(self: &Arc<Self>) -> bool {
        let acquired = {
            let mut acquiring = pin!(self.lock.acquirer.acquire_for_others(Wait::FOR_EVER));
            loop {
                tokio::select! {
                    acquired = &mut acquiring => break acquired,
                    () = self.nudge.notified() => if self.state.lock().stage.retire() { return false },
                }
            }
        };
        match acquired.and_then(|guard| self.lock.acquirer.at_last(guard)) {
            Ok(guard) => {
                let (hold, first) = self.offer(guard);
                self.attend(hold, first).await
            }
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    /// Offers a hold that was just granted.
    fn offer(self: &Arc<Self>, guard: Guard) -> (HoldNumber, Arc<Turn>) {
        let half = self.allowance().half();
        let mut state = self.state.lock();
        let hold = state.stage.begin();
        let first = state.begin(self, hold, &guard);
        let step = state.stage.granted(guard, half);
        self.take(state, step);
        (hold, first)
    }

    /// Waits for the end of a hold, and looks at its offers. Returns whether to contend again.
    async fn attend(&self, hold: HoldNumber, first: Arc<Turn>) -> bool {
        let mut over = pin!(first.hold_over());
        loop {
            let looks = self.state.lock().looks;
            tokio::select! {
                () = &mut over => break,
                () = self.nudge.notified(), if !looks => {}
                () = tokio::time::sleep(PATIENCE), if looks => self.look(),
            }
        }
        let (again, withdrawn) = self.state.lock().stage.over(hold);
        // The guard is lost, so its node goes without a release.
        drop(withdrawn);
        again
    }

    fn look(&self) {
        let mut state = self.state.lock();
        let (left, lasts) = (self.left(&state), self.lasts(&state));
        let step = state.stage.look(left, lasts);
        state.looks = state.stage.offered().is_some();
        self.take(state, step);
    }

    fn allowance(&self) -> Allowance {
        let patience = self.lock.succession().patience();
        Allowance { time: self.budget.time, patience, pace: PATIENCE }
    }

    fn left(&self, state: &State) -> Left {
        self.allowance().left(state.began.elapsed(), state.idle.elapsed())
    }

    /// Whether the lease lets the hold that is offered be handed on.
    fn lasts(&self, state: &State) -> bool {
        state.stage.offered().is_some_and(|guard| guard.turn.is_ample(self.budget.lease, self.max_hold))
    }

    /// Does what the stage says. Foreign code, and code that comes back here, runs outside the mutex.
    fn take(&self, mut state: MutexGuard<'_, State>, step: Step<Arc<Waker>, Guard>) {
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

    fn fail(&self, error: &AcquireError) {
        let (wakers, withdrawn) = self.state.lock().stage.fail(error);
        drop(withdrawn);
        wakers.into_iter().for_each(|waker| waker.wake_by_ref());
    }
}

impl State {
    /// Begins a hold. From now on the guard is passed on here.
    fn begin(&mut self, line: &Arc<Line>, hold: HoldNumber, guard: &Guard) -> Arc<Turn> {
        (self.began, self.idle) = (Instant::now(), Instant::now());
        guard.turn.pass_to(Arc::new(Held { line: line.clone(), hold }));
        guard.turn.clone()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.lines.forget(&self.key);
    }
}

/// One of the holds of a line.
struct Held {
    line: Arc<Line>,
    hold: HoldNumber,
}

impl Relay for Held {
    fn pass(self: Arc<Self>, next: Arc<Turn>) -> Option<Arc<Turn>> {
        let line = &self.line;
        let ample = next.is_ample(line.budget.lease, line.max_hold);
        let mut state = line.state.lock();
        let allowed = ample && state.began.elapsed() < line.budget.time;
        match state.stage.passed(self.hold, Guard::of(next), allowed) {
            Step::Release(guard) => Some(guard.into_turn()),
            step => {
                state.idle = Instant::now();
                line.take(state, step);
                None
            }
        }
    }
}

/// The background task of a line.
struct Running {
    line: Arc<Line>,
    done: bool,
}

impl Running {
    async fn run(mut self, hold: Option<(HoldNumber, Arc<Turn>)>) {
        let mut again = match hold {
            Some((hold, first)) => self.line.attend(hold, first).await,
            None => true,
        };
        while again {
            again = self.line.contend().await;
        }
        self.done = true;
    }
}

impl Drop for Running {
    /// Without this task nobody contends: its runtime is shutting down.
    fn drop(&mut self) {
        if !self.done {
            self.line.fail(&AcquireError::over(self.line.lock.path().to_owned(), Over::Closed));
        }
    }
}

/// A task in line.
pub(super) struct Waiting {
    line: Arc<Line>,
    ticket: Option<Ticket>,
    /// How the task is woken. The line has this, too, and must not drop it: a waker is foreign code, and may come back here.
    waker: Option<Arc<Waker>>,
}

impl Future for Waiting {
    type Output = Result<Guard, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let last = self.waker.take();
        let waker = match &last {
            Some(last) if last.will_wake(cx.waker()) => last.clone(),
            _ => Arc::new(cx.waker().clone()),
        };
        self.waker = Some(waker.clone());
        let line = self.line.clone();
        loop {
            let mut state = line.state.lock();
            let ticket = *self.ticket.get_or_insert_with(|| state.stage.arrive());
            let turned = state.stage.poll(ticket, waker.clone());
            drop(state);
            match turned {
                Turned::Yours(guard) if guard.is_held() => {
                    self.ticket = None;
                    guard.turn.limit(line.max_hold);
                    return Poll::Ready(Ok(guard));
                }
                // It goes back to its place.
                Turned::Yours(lost) => drop(lost),
                Turned::Failed(error) => {
                    self.ticket = None;
                    return Poll::Ready(Err(error));
                }
                Turned::Waits => return Poll::Pending,
                // If the session's runtime is gone, the line has failed by now. Nobody may await a timer of that runtime.
                Turned::Contend => line.run(None),
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.line.state.lock();
        let (left, lasts) = (self.line.left(&state), self.line.lasts(&state));
        let step = state.stage.leave(ticket, left, lasts);
        self.line.take(state, step);
    }
}
