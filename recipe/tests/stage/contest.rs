//! What must hold in every state of the model.

use stateright::Property;

use super::world::{Background, Doing, Setup};
use crate::world::exploration::{self, Rule};

pub(crate) const ONE_HOLDER: Rule = "at most one guard is valid";
/// Never if time or its lease forbids it.
pub(crate) const BUDGET: Rule = "a hold is passed on as often as the budget allows";
pub(crate) const BOUNDED: Rule = "only those in front of a contender have turns before it";
/// Nobody tries while somebody waits, or holds the lock.
pub(crate) const ORDER: Rule = "the first task in line that is not absent is served";
pub(crate) const PATIENT: Rule = "a task is passed over at the second look only";
pub(crate) const STANDS: Rule = "an offer stands until time is over, or another task is to have it";
/// Until half of its time is over.
pub(crate) const HALF: Rule = "a hold waits for the late task that it opens with";
pub(crate) const IN_THE_END: Rule = "a task that is late for ever has its turn";
pub(crate) const SERVED: Rule = "a hold is not released while it may be passed on";
pub(crate) const ONE_CONTENDER: Rule = "a process has at most one contender that waits";
pub(crate) const PLACE: Rule = "a task that gives up costs the others no place";
pub(crate) const WANTED: Rule = "a process for which nobody waits is leaving the queue";
pub(crate) const FRESH: Rule = "nobody is given a hold that is known to be lost";
/// No task has its turn without an offer.
pub(crate) const PRESENT: Rule = "only the present hold is offered and taken";
pub(crate) const AWAKE: Rule = "nobody is stuck";
pub(crate) const CLEAN: Rule = "nothing is left behind";

pub(crate) type Contest = exploration::Contest<Setup>;

pub(crate) fn properties() -> Vec<Property<Contest>> {
    vec![
        Contest::always(ONE_HOLDER, |_, world| world.valid_guards() <= 1),
        Contest::always(WANTED, |_, world| {
            world.locals.iter().enumerate().all(|(process, local)| {
                local.background != Background::Acquiring || local.nudged || world.is_wanted(process)
            })
        }),
        // A task that was woken and is not polled waits for itself only.
        Contest::always(AWAKE, |contest, world| {
            let mut tasks = world.tasks.iter();
            let waits = tasks.any(|task| match task.doing {
                Doing::InLine(place) => !place.woken,
                _ => false,
            });
            !waits || contest.goes_on(world)
        }),
        Contest::always(CLEAN, |contest, world| {
            let clean = world.queue.is_empty()
                && world.locals.iter().enumerate().all(|(process, local)| {
                    // Nothing is in the way of the next task.
                    let free = || local.stage.is_free();
                    local.background == Background::None
                        && local.offer.is_none()
                        && (world.line(process).next().is_some() || free())
                });
            clean || contest.goes_on(world)
        }),
        Contest::sometimes("a task has a turn", |_, world| {
            world.tasks.iter().any(|task| matches!(task.doing, Doing::Holding(_)))
        }),
    ]
}
