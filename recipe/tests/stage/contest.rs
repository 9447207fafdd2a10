//! What must hold in every state of the model.

use stateright::Property;

use super::run::Step;
use super::world::{Background, Breach, Doing, Setup, Witness, World};
use crate::world::exploration;

pub(crate) const ONE_HOLDER: &str = "at most one guard is valid";
pub(crate) const BUDGET: &str = "a hold is passed on as often as the budget allows";
pub(crate) const BOUNDED: &str = "only those in front of a contender have turns before it";
pub(crate) const ORDER: &str = "the first task in line that is not absent is served";
pub(crate) const PATIENT: &str = "a task is passed over at the second look only";
pub(crate) const STANDS: &str = "an offer stands until time is over, or another task is to have it";
pub(crate) const HALF: &str = "a hold waits for the late task that it opens with";
pub(crate) const IN_THE_END: &str = "a task that is late for ever has its turn";
pub(crate) const SERVED: &str = "a hold is not released while it may be passed on";
pub(crate) const ONE_CONTENDER: &str = "a process has at most one contender that waits";
pub(crate) const PLACE: &str = "a task that gives up costs the others no place";
pub(crate) const WANTED: &str = "a process for which nobody waits is leaving the queue";
pub(crate) const FRESH: &str = "nobody is given a hold that is known to be lost";
pub(crate) const PRESENT: &str = "only the present hold is offered and taken";
pub(crate) const AWAKE: &str = "nobody is stuck";
pub(crate) const CLEAN: &str = "nothing is left behind";

type Contest = exploration::Contest<Setup>;

impl exploration::Setup for Setup {
    type World = World;
    type Step = Step;
    type Witness = Witness;

    fn first(&self) -> World {
        World::new(self)
    }

    fn steps(&self, world: &World, steps: &mut Vec<Step>) {
        if world.breach.is_none() {
            world.steps(self, steps);
        }
    }

    fn take(&self, world: &mut World, step: Step, witness: &impl Fn(Witness)) {
        world.take(step, self, witness);
    }

    fn properties(&self) -> Vec<Property<Contest>> {
        vec![
            Contest::always(ONE_HOLDER, |_, world| world.valid_guards() <= 1),
            Contest::always(BUDGET, |_, world| world.breach != Some(Breach::OverBudget)),
            Contest::always(BOUNDED, |_, world| world.breach != Some(Breach::Overtaken)),
            Contest::always(ORDER, |_, world| {
                !matches!(world.breach, Some(Breach::OutOfOrder | Breach::TriedBesideOthers))
            }),
            Contest::always(PATIENT, |_, world| world.breach != Some(Breach::PassedOverAtOnce)),
            Contest::always(STANDS, |_, world| {
                !matches!(world.breach, Some(Breach::PassedOverForNobody | Breach::KeptFromOthers))
            }),
            Contest::always(HALF, |_, world| world.breach != Some(Breach::HalfIsNotOver)),
            Contest::always(IN_THE_END, |_, world| world.breach != Some(Breach::Starved)),
            Contest::always(SERVED, |_, world| world.breach != Some(Breach::ReleasedTooSoon)),
            Contest::always(ONE_CONTENDER, |_, world| world.breach != Some(Breach::ContendedTwice)),
            Contest::always(PLACE, |_, world| world.breach != Some(Breach::LeftThoughWanted)),
            Contest::always(WANTED, |_, world| {
                world.locals.iter().enumerate().all(|(process, local)| {
                    local.background != Background::Acquiring || local.nudged || world.is_wanted(process)
                })
            }),
            Contest::always(FRESH, |_, world| world.breach != Some(Breach::LostHoldPassed)),
            Contest::always(PRESENT, |_, world| world.breach != Some(Breach::NotTheHold)),
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
}

impl Contest {
    /// Whether something is under way, or a rule is broken, so that nothing follows.
    fn goes_on(&self, world: &World) -> bool {
        world.breach.is_some() || !world.is_quiet(&self.setup)
    }
}
