//! What must hold in every state of the model.

use stateright::Property;
use zklock_recipe::Own;

use super::contender::{Caller, Pending};
use super::foreigner::Stage;
use super::queue::World;
use super::setup::{Party, Setup};
use crate::world::exploration::{self, Rule};

pub(crate) const OURS: Rule = "no two zklock guards are valid that exclude each other";
pub(crate) const THEIRS: Rule =
    "no zklock guard is valid while a contender of the other client holds the lock, or believes so";
pub(crate) const MADE: Rule = "nobody is told that its node was deleted, unless an operator deletes nodes";
pub(crate) const TOUCHED: Rule = "nobody is granted by a node that somebody else has written to";
pub(crate) const CLEAN: Rule = "no node is left without an owner";
pub(crate) const SERVED: Rule = "nobody waits unless somebody in front holds the lock";

pub(crate) type Contest = exploration::Contest<Setup>;

pub(crate) fn properties() -> Vec<Property<Contest>> {
    vec![
        Contest::always(CLEAN, |contest, world| is_clean(world) || contest.goes_on(world)),
        Contest::always(SERVED, |contest, world| is_served(world) || contest.goes_on(world)),
        Contest::sometimes("a zklock contender holds the lock", |_, world| {
            world.contenders.iter().any(|contender| contender.is_valid)
        }),
        Contest::sometimes("a contender of the other client holds the lock", |_, world| {
            world.holders().1 > 0
        }),
    ]
}

fn is_clean(world: &World) -> bool {
    let of_ours = world.contenders.iter().enumerate().all(|(party, contender)| {
        let known = contender.own().filter(|_| !contender.is_ended());
        world.nodes(party).all(|own| known == Some(own))
    });
    let is_over = |stage: &Stage| matches!(stage, Stage::Idle | Stage::Believing | Stage::Gone);
    let of_theirs =
        world.foreigners.iter().enumerate().all(|(foreigner, stage)| {
            !is_over(stage) || world.nodes(world.session(foreigner)).next().is_none()
        });
    of_ours && of_theirs
}

/// Whether each in the queue that does not hold the lock has somebody in front, and waits for that one's end.
fn is_served(world: &World) -> bool {
    let ours = world.contenders.iter().all(|contender| match contender.caller {
        Caller::Waiting => matches!(contender.pending, Pending::Watching(_)),
        Caller::Gone => contender.is_ended(),
        Caller::Idle | Caller::Holding => true,
    });
    let holds = |party: Party| match world.contenders.get(party) {
        Some(contender) => contender.caller == Caller::Holding,
        None => world.foreigners[party - world.contenders.len()] == Stage::Holding,
    };
    let parties = 0..world.contenders.len() + world.foreigners.len();
    let waits = |own: Own| world.predecessor(own.place, |_| true).is_some();
    ours && parties.into_iter().all(|party| holds(party) || world.nodes(party).all(waits))
}

/// Which of the first two rules is broken.
pub(crate) fn breach(world: &World) -> Option<Rule> {
    match world.holders() {
        (2.., _) => Some(OURS),
        (1, 1..) => Some(THEIRS),
        _ => None,
    }
}
