//! What must hold in every state of the model.

use stateright::Property;
use zklock_recipe::{Ruling, rule};

use super::pool::{Caller, POOL, Pending, TURNSTILE, World};
use super::setup::Setup;
use crate::world::exploration::{self, Rule};

pub(crate) const WITHIN: Rule = "nobody is granted a permit beyond the capacity, or a slot twice";
pub(crate) const KEPT: Rule = "an operator's change of the capacity stays";
pub(crate) const ONCE: Rule = "an acquisition gets one permit";
pub(crate) const ORDER: Rule = "permits are granted in the order of arrival";
pub(crate) const REAL: Rule = "a valid guard has its permit, unless an operator deleted it";
pub(crate) const CLEAN: Rule = "no permit is left without a holder";
pub(crate) const DELAYED: Rule = "nobody is granted what a vanished permit left without a delay";
pub(crate) const SERVED: Rule = "nobody waits while there is room";
pub(crate) const PATIENT: Rule = "one that only tries does not wait";
pub(crate) const ENDED: Rule = "each acquisition has its answer, or waits for room, or ends without a caller";

pub(crate) type Contest = exploration::Contest<Setup>;

pub(crate) fn properties() -> Vec<Property<Contest>> {
    vec![
        Contest::always(CLEAN, |contest, world| is_clean(world) || contest.goes_on(world)),
        Contest::always(SERVED, |contest, world| is_served(contest, world) || contest.goes_on(world)),
        Contest::always(ENDED, |contest, world| is_ended(world) || contest.goes_on(world)),
        Contest::sometimes("a permit is held", |_, world| {
            world.contenders.iter().any(|contender| contender.caller == Caller::Held)
        }),
    ]
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
