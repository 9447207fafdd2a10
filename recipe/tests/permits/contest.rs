//! What must hold in every state of the model.

use stateright::Property;
use zklock_recipe::Ruling;

use crate::exploration;
use crate::run::Step;
use crate::world::{Breach, Contender, Seen, Setup, Stage, Witness, World};

pub(crate) const WITHIN: &str = "nobody is granted a permit beyond the capacity";
pub(crate) const ONCE: &str = "an acquisition gets one permit";
pub(crate) const ORDER: &str = "permits are granted in the order of arrival";
pub(crate) const REAL: &str = "a valid guard has its permit, unless an operator deleted it";
pub(crate) const CLEAN: &str = "no permit is left without a holder";
pub(crate) const DELAYED: &str = "nobody is granted what a vanished permit left without a delay";
pub(crate) const SERVED: &str = "nobody waits while there is room";

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
            Contest::always(ONCE, |_, world| world.breach != Some(Breach::Twice)),
            Contest::always(ORDER, |_, world| world.breach != Some(Breach::Overtaken)),
            Contest::always(REAL, |_, world| world.breach != Some(Breach::Hollow)),
            Contest::always(DELAYED, |_, world| world.breach != Some(Breach::Undelayed)),
            Contest::always(CLEAN, |contest, world| {
                let held = |permit: &(usize, u8, u32)| {
                    let Contender { stage, ticket, .. } = &world.contenders[permit.0];
                    matches!(stage, Stage::Held | Stage::Lapsed) && *ticket == permit.1
                };
                world.pool.permits.iter().all(held) || goes_on(contest, world)
            }),
            Contest::always(SERVED, |contest, world| is_served(world) || goes_on(contest, world)),
            Contest::sometimes("a permit is held", |_, world| {
                world.contenders.iter().any(|contender| contender.stage == Stage::Held)
            }),
        ]
    }
}

/// Whether the first in the turnstile waits for room, and there is none.
fn is_served(world: &World) -> bool {
    let Some((party, ticket)) = world.queue.first() else { return true };
    let contender = &world.contenders[*party];
    let weights = world.pool.permits.iter().map(|permit| permit.2).collect();
    let present = Seen { version: world.pool.version, capacity: world.pool.capacity, weights };
    let waits = matches!(contender.stage, Stage::Waiting { .. } | Stage::Deaf);
    waits && contender.ticket == *ticket && present.ruling(contender.weight, None) == Ruling::Wait
}

/// Whether something is under way, or a rule is broken, so that nothing follows.
fn goes_on(contest: &Contest, world: &World) -> bool {
    world.breach.is_some() || !world.is_quiet(&contest.setup)
}
