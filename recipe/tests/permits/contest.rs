//! What must hold in every state of the model.

use stateright::Property;
use zklock_recipe::{Ruling, rule};

use super::pool::{Caller, POOL, Pending, TURNSTILE, World};
use super::run::Step;
use super::setup::{Breach, Setup, Witness};
use crate::world::exploration;

pub(crate) const WITHIN: &str = "nobody is granted a permit beyond the capacity, or a slot twice";
pub(crate) const KEPT: &str = "an operator's change of the capacity stays";
pub(crate) const ONCE: &str = "an acquisition gets one permit";
pub(crate) const ORDER: &str = "permits are granted in the order of arrival";
pub(crate) const REAL: &str = "a valid guard has its permit, unless an operator deleted it";
pub(crate) const CLEAN: &str = "no permit is left without a holder";
pub(crate) const DELAYED: &str = "nobody is granted what a vanished permit left without a delay";
pub(crate) const SERVED: &str = "nobody waits while there is room";
pub(crate) const PATIENT: &str = "one that only tries does not wait";
pub(crate) const ENDED: &str = "each acquisition has its answer, or waits for room, or ends without a caller";

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
            Contest::always(WITHIN, |_, world| world.breach != Some(Breach::Exceeded)),
            Contest::always(KEPT, |_, world| world.breach != Some(Breach::Undone)),
            Contest::always(ONCE, |_, world| world.breach != Some(Breach::Twice)),
            Contest::always(ORDER, |_, world| world.breach != Some(Breach::Overtaken)),
            Contest::always(REAL, |_, world| world.breach != Some(Breach::Hollow)),
            Contest::always(DELAYED, |_, world| world.breach != Some(Breach::Undelayed)),
            Contest::always(PATIENT, |_, world| world.breach != Some(Breach::TriedAndWaited)),
            Contest::always(CLEAN, |contest, world| is_clean(world) || goes_on(contest, world)),
            Contest::always(SERVED, |contest, world| is_served(contest, world) || goes_on(contest, world)),
            Contest::always(ENDED, |contest, world| is_ended(world) || goes_on(contest, world)),
            Contest::sometimes("a permit is held", |_, world| {
                world.contenders.iter().any(|contender| contender.caller == Caller::Held)
            }),
        ]
    }
}

fn is_clean(world: &World) -> bool {
    world.permits().all(|(_, party, id)| {
        let contender = &world.contenders[party];
        matches!(contender.caller, Caller::Held | Caller::Lapsed)
            && contender.own.is_some_and(|own| own.czxid == id)
    })
}

/// Whether the first in the turnstile waits for room, and there is none.
fn is_served(contest: &Contest, world: &World) -> bool {
    let Some((place, node)) = world.tree().children(TURNSTILE).first() else { return true };
    let Some(party) = node.owner else { return true };
    let contender = &world.contenders[party];
    let (wish, _) = contest.setup.wishes[party];
    let waits = matches!(contender.pending, Pending::Wait | Pending::Deaf);
    let children = world.tree().children(POOL).iter().map(|(place, _)| place.name()).collect::<Vec<_>>();
    let ruling = rule(&children, world.stock(), world.stock(), wish);
    waits && contender.own.is_some_and(|own| own.place == *place) && ruling == Ruling::Wait
}

fn is_ended(world: &World) -> bool {
    world.contenders.iter().all(|contender| match contender.caller {
        Caller::Waiting => contender.machine.is_none() || contender.pending == Pending::Wait,
        _ => contender.machine.is_none(),
    })
}

/// Whether something is under way, or a rule is broken, so that nothing follows.
fn goes_on(contest: &Contest, world: &World) -> bool {
    world.breach.is_some() || !world.is_quiet(&contest.setup)
}
