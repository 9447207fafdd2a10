//! What contenders held and when, in global time, and what was wrong with it.
//!
//! The checks are exact. A guard is valid from its grant until its holder gives it up or its lease ends, and two guards
//! overlap if and only if the earlier one is valid at the instant at which the later one is granted. So each grant asks
//! every other guard whether it is valid at that instant, by the clocks of the other guard's process.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use world::{ProcessId, World};
use zklock::{AnyGuard, FencingToken};

use crate::cluster::{self, Cluster};
use crate::interventions;
use crate::trace::note;

/// What a guard gives its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Nobody else may hold the path.
    Exclusive(String),
    /// Nobody may hold the path exclusively.
    Shared(String),
    /// So many permits of so many.
    Permits {
        /// The semaphore's path.
        path: String,
        /// How many permits this guard has.
        weight: u32,
        /// How many there are, as its holder has stated.
        capacity: u32,
        /// How many there were in the beginning.
        first: u32,
    },
}

/// A guard that its holder may give up, and that the checks look at.
pub(crate) type Kept = Arc<Mutex<Option<AnyGuard>>>;

/// One guard, from its grant on.
#[derive(Clone)]
struct Hold {
    who: Who,
    claims: Vec<Claim>,
    token: i64,
    granted: u64,
    turn: u32,
    /// Its holder has it, and it ends with the holder's process.
    guard: Weak<Mutex<Option<AnyGuard>>>,
    /// When the holder gave the guard up, and whether it was valid then.
    given_up: Option<(u64, bool)>,
    /// Whether the guard has said that it is lost.
    is_lost: bool,
}

/// One task of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who {
    /// The process.
    pub process: ProcessId,
    /// Which of its tasks.
    pub task: u32,
}

/// What a run has seen.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Two runs that took the same steps have the same one.
    pub fingerprint: u64,
    /// How much time was simulated.
    pub time: Duration,
    /// How many faults were drawn.
    pub faults: usize,
    /// How often a guard was granted.
    pub grants: u64,
    /// How often a guard was lost before it was given up.
    pub losses: u64,
    /// What must not be.
    pub violations: Vec<String>,
}

/// The stages of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Contenders contend, and faults happen.
    #[default]
    Storm,
    /// Contenders are to hold what they contend for once more.
    Calm,
    /// One contender holds once more, until an operator has deleted its node.
    Eviction,
    /// An operator looks whether anything is left.
    Audit,
    /// Nothing was left. Contenders close their sessions.
    Close,
}

#[derive(Default)]
struct History {
    holds: BTreeMap<u64, Hold>,
    numbered: u64,
    /// The highest token granted for each path that is held exclusively.
    tokens: BTreeMap<String, (i64, u32)>,
    /// The runs that have begun.
    runs: BTreeSet<String>,
    /// Whether a contender holds once more in the end.
    has_evicted: bool,
    /// How far the end has come.
    stage: Stage,
    /// Who has not finished.
    unfinished: BTreeMap<Who, &'static str>,
    outcome: Outcome,
}

thread_local! {
    static HISTORY: RefCell<History> = RefCell::default();
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}.{}", self.process.0, self.task)
    }
}

/// Begins anew.
pub(crate) fn begin() {
    interventions::begin();
    drop(HISTORY.take());
}

/// Ends the history and returns what was seen.
pub(crate) fn end() -> Outcome {
    HISTORY.take().outcome
}

/// A guard was granted just now. Returns the number of the hold.
pub(crate) fn granted(who: Who, claims: Vec<Claim>, token: FencingToken, guard: &Kept) -> u64 {
    let (token, turn) = (token.zxid(), token.turn());
    let now = world::now();
    note(who, format_args!("granted {claims:?}, token {token}, turn {turn}"));
    let number = HISTORY.with_borrow_mut(|history| {
        history.numbered += 1;
        history.outcome.grants += 1;
        let guard = Arc::downgrade(guard);
        history.holds.insert(
            history.numbered,
            Hold { who, claims, token, turn, granted: now, guard, given_up: None, is_lost: false },
        );
        history.numbered
    });
    // What other processes did before this instant may not have been simulated yet.
    cluster::later(now, move |cluster: &mut Cluster| check(&cluster.world, number));
    number
}

/// Gives up a guard, so that its holder may release it.
pub(crate) fn give_up(number: u64) -> Option<AnyGuard> {
    HISTORY.with_borrow_mut(|history| {
        let hold = history.holds.get_mut(&number)?;
        let guard = hold.guard.upgrade()?.lock().ok()?.take()?;
        hold.given_up = Some((world::now(), guard.is_held()));
        Some(guard)
    })
}

/// A guard was lost, as its holder has just heard.
pub(crate) fn lost(who: Who, reason: impl fmt::Display) {
    note(who, format_args!("lost: {reason}"));
    HISTORY.with_borrow_mut(|history| history.outcome.losses += 1);
}

/// Something happened that must not.
pub(crate) fn wrong(what: String) {
    note("VIOLATION", &what);
    HISTORY.with_borrow_mut(|history| history.outcome.violations.push(what));
}

/// A process is gone, and nothing of it is held or waited for any more.
pub(crate) fn gone(process: ProcessId) {
    let now = world::now();
    HISTORY.with_borrow_mut(|history| {
        history.unfinished.retain(|who, _| who.process != process);
        for hold in history.holds.values_mut().filter(|hold| hold.who.process == process) {
            hold.given_up.get_or_insert((now, false));
        }
    });
}

/// Has the next stage begin.
pub(crate) fn enter(stage: Stage) {
    note("stage", format_args!("{stage:?}"));
    HISTORY.with_borrow_mut(|history| history.stage = stage);
}

/// Whether this is the contender that holds once more: the first one that asks.
pub(crate) fn is_evicted(who: Who) -> bool {
    HISTORY.with_borrow_mut(|history| {
        let is_first = !std::mem::replace(&mut history.has_evicted, true);
        if is_first {
            history.unfinished.insert(who, "it is to hold once more");
        }
        is_first
    })
}

/// Returns the present stage.
pub(crate) fn stage() -> Stage {
    HISTORY.with_borrow(|history| history.stage)
}

/// An operator has looked at the tree, and has found these orphans.
pub(crate) fn audited(orphans: Vec<String>) {
    orphans.iter().for_each(|orphan| wrong(format!("nobody contends any more, and this is left: {orphan}")));
    enter(Stage::Close);
}

/// A run has begun, and its caller does the work.
pub(crate) fn began(who: Who, name: &str) {
    note(who, format_args!("does {name}"));
    if !HISTORY.with_borrow_mut(|history| history.runs.insert(name.to_owned())) {
        wrong(format!("{who} does {name}, which has begun before"));
    }
}

/// What a contender does; `None` once it has finished.
pub(crate) fn doing(who: Who, what: Option<&'static str>) {
    HISTORY.with_borrow_mut(|history| match what {
        Some(what) => history.unfinished.insert(who, what),
        None => history.unfinished.remove(&who),
    });
}

/// Who has not finished.
pub(crate) fn unfinished() -> Vec<String> {
    HISTORY.with_borrow(|history| {
        history.unfinished.iter().map(|(who, what)| format!("{who} has not finished: {what}")).collect()
    })
}

/// Compares a guard with all others at the instant of its grant, which is now.
fn check(world: &World, number: u64) {
    let now = world.now();
    let (hold, others) = HISTORY.with_borrow_mut(|history| {
        // Nobody asks again about a hold that was over before this instant.
        history.holds.retain(|other, hold| *other == number || hold.given_up.is_none_or(|(at, _)| at > now));
        let others = history.holds.iter().filter(|(other, hold)| **other != number && hold.granted <= now);
        let others = others.map(|(other, hold)| (*other, hold.clone())).collect::<Vec<_>>();
        (history.holds.get(&number).cloned(), others)
    });
    let Some(Hold { who, claims, token, turn, .. }) = hold else { return };
    let valid = others.into_iter().filter(|(other, hold)| match hold.given_up {
        // Its holder gave it up later than now, in a step that is ahead of others.
        Some((_, was_valid)) => was_valid,
        None => world.within(hold.who.process, || asked(*other, hold)).unwrap_or(false),
    });
    // What an operator does may leave two guards, if the later one has come to an empty place.
    let valid = valid.filter(|(_, hold)| !interventions::is_excused(hold.token, token));
    let valid = valid.map(|(_, hold)| (hold.who, hold.claims, hold.token)).collect::<Vec<_>>();
    for claim in &claims {
        if let Some(problem) = conflict(claim, token, &valid) {
            wrong(format!("{who}, token {token}: {problem}"));
        }
        if let Claim::Exclusive(path) = claim {
            let before =
                HISTORY.with_borrow_mut(|history| history.tokens.insert(path.clone(), (token, turn)));
            if before.is_some_and(|before| before >= (token, turn)) {
                wrong(format!("{who} has the token {token} of {path}, and {before:?} was granted before"));
            }
        }
    }
}

/// Asks a guard whether it is held. Once it is lost, it must never be held again.
fn asked(number: u64, hold: &Hold) -> bool {
    let Some(guard) = hold.guard.upgrade() else { return false };
    let is_held = guard.lock().is_ok_and(|guard| guard.as_ref().is_some_and(AnyGuard::is_held));
    let was_lost = HISTORY.with_borrow_mut(|history| {
        let hold = history.holds.get_mut(&number);
        hold.is_some_and(|hold| std::mem::replace(&mut hold.is_lost, !is_held))
    });
    if is_held && was_lost {
        wrong(format!("the guard of {}, token {}, was lost, and is held again", hold.who, hold.token));
    }
    is_held
}

/// Says which guards that are valid do not go with the claim.
fn conflict(claim: &Claim, token: i64, valid: &[(Who, Vec<Claim>, i64)]) -> Option<String> {
    let all =
        || valid.iter().flat_map(|(who, claims, token)| claims.iter().map(move |claim| (who, token, claim)));
    let found = |mut wrong: Box<dyn FnMut(&Claim) -> bool + '_>| {
        all()
            .find(|(.., other)| wrong(other))
            .map(|(who, token, other)| format!("{who} has {other:?}, token {token}"))
    };
    match claim {
        Claim::Exclusive(path) => found(Box::new(move |other| match other {
            Claim::Exclusive(other) | Claim::Shared(other) => other == path,
            Claim::Permits { .. } => false,
        })),
        Claim::Shared(path) => found(Box::new(move |other| other == &Claim::Exclusive(path.clone()))),
        Claim::Permits { path, weight, capacity, first } => {
            let held = all().map(|(.., other)| match other {
                Claim::Permits { path: other, weight, .. } if other == path => *weight,
                _ => 0,
            });
            let held = held.sum::<u32>();
            if !interventions::may_be_admitted(token, *capacity, *first) {
                return Some(format!(
                    "it has a permit of {capacity}, and the capacity of {path} was another one"
                ));
            }
            // A capacity that is lowered takes nothing from those who hold.
            let is_last = valid.iter().all(|(.., other)| *other < token);
            (is_last && held + weight > *capacity)
                .then(|| format!("{held} of {capacity} permits of {path} are held"))
        }
    }
}
