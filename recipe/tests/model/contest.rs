//! What must hold in every world of a model, and how all of it is explored, or one way through it replayed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::contender::{Caller, Contender};
use crate::findings::{Breach, Witness};
use crate::foreigner::Foreigner;
use crate::server::Make;
use crate::setup::Setup;
use crate::step::Step;
use crate::world::World;

pub(crate) const ONE_HOLDER: &str = "at most one guard is valid";
pub(crate) const NO_ORPHAN: &str = "no node is left without an owner";
pub(crate) const ONE_KIND: &str = "no guard is valid while a contender of another client holds the lock";
pub(crate) const GRANTED: &str = "every waiter whose session lives is granted in the end";

struct Contest {
    setup: Setup,
    witnessed: Arc<AtomicU64>,
}

impl Model for Contest {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.setup)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        world.steps(&self.setup, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut world = world.clone();
        let witness = |witness| {
            self.witnessed.fetch_or(1 << witness as u64, Ordering::Relaxed);
        };
        world.take(step, &self.setup, &witness);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            always(NO_ORPHAN, |_, world| {
                let mut ours = world.server.nodes.iter().filter(|node| node.make == Make::Ours);
                ours.all(|node| {
                    let creator = &world.contenders[node.creator];
                    !creator.machine.is_ended() || world.sessions[creator.session].over
                })
            }),
            always(ONE_KIND, |_, world| {
                valid_guards(world) == 0 || !world.foreigners.iter().any(Foreigner::holds)
            }),
            always("a contender has one watch of a kind", |_, world| {
                let follower = world.follower.iter().flat_map(|follower| &follower.server.nodes);
                let nodes = world.server.nodes.iter().chain(follower);
                let mut watches = nodes.flat_map(|node| &node.watches).collect::<Vec<_>>();
                let all = watches.len();
                watches.sort_by_key(|watch| (watch.party, watch.kind as u8));
                watches.dedup();
                watches.len() == all
            }),
            always("nobody is stuck", |contest, world| {
                if contest.setup.clock.is_some_and(|clock| clock.end == world.leader_time()) {
                    return true;
                }
                let is_over =
                    |contender: &Contender| contender.caller == Caller::Idle || contender.machine.is_ended();
                world.server.nodes.is_empty() && world.contenders.iter().all(is_over)
                    || !world.is_quiet(&contest.setup)
            }),
            always("every grant has a caller", |_, world| world.breach != Some(Breach::GrantToNobody)),
            always("no write is superseded", |_, world| world.breach != Some(Breach::SupersededWrite)),
            sometimes("a guard is held", |_, world| valid_guards(world) == 1),
            sometimes("it is all over", |_, world| {
                world.contenders.iter().all(|contender| contender.machine.is_ended())
            }),
        ];
        // Whoever may give up is granted or gives up, so this would say nothing; and time ends.
        if !self.setup.giving_up && self.setup.clock.is_none() {
            properties.push(Property::eventually(GRANTED, |_: &Contest, world: &World| {
                let done = |contender: &Contender| {
                    contender.machine.is_ended() || world.sessions[contender.session].over
                };
                world.contenders.iter().all(done) && world.foreigners.iter().all(Foreigner::is_gone)
            }));
        }
        // What an operator does is not foreseen, but by a long delay.
        let meddled = self.setup.faults.deletions > 0 || self.setup.faults.evictions > 0;
        if !meddled || self.setup.clock.is_some() {
            properties.push(always(ONE_HOLDER, |_, world| valid_guards(world) <= 1));
        }
        if meddled || self.setup.faults.writes > 0 {
            properties.push(always("a settled holder without a node is told", |contest, world| {
                let mut steps = Vec::new();
                world.steps(&contest.setup, &mut steps);
                let to_come = |step: &Step| !step.is_voluntary(world) && !matches!(step, Step::LetGo(_));
                steps.iter().any(to_come)
                    || world.contenders.iter().enumerate().all(|(party, contender)| {
                        !contender.settled
                            || contender.caller != (Caller::Holding { valid: true })
                            || world.server.node_of(party).is_some()
                    })
            }));
        }
        if meddled {
            return properties;
        }
        properties.extend([
            always("a valid guard's node is the first", |_, world| {
                world.contenders.iter().enumerate().all(|(party, contender)| {
                    contender.caller != Caller::Holding { valid: true }
                        || world.server.nodes.first().is_some_and(|first| {
                            first.creator == party && contender.machine.own() == Some(first.own)
                        })
                })
            }),
            always("those who wait undisturbed are granted in turn", |_, world| {
                world.breach != Some(Breach::OutOfTurn)
            }),
            always("tokens strictly increase", |_, world| world.breach != Some(Breach::TokenNotHigher)),
            always("released means by its own transaction", |_, world| {
                world.breach != Some(Breach::ReleasedWithoutRemoval)
            }),
            always("only the first releases", |_, world| world.breach != Some(Breach::ReleaseBehindOthers)),
            always("nobody removes another's node", |_, world| {
                world.breach != Some(Breach::RemovalOfAnothersNode)
            }),
            always("every end has its cause", |_, world| {
                !matches!(world.breach, Some(Breach::UnexpectedEnd | Breach::UnfoundedLoss))
            }),
        ]);
        properties
    }
}

type Rule = fn(&Contest, &World) -> bool;

fn always(name: &'static str, rule: Rule) -> Property<Contest> {
    Property::always(name, rule)
}

fn sometimes(name: &'static str, rule: Rule) -> Property<Contest> {
    Property::sometimes(name, rule)
}

pub(crate) fn valid_guards(world: &World) -> usize {
    let valid = |contender: &&Contender| contender.caller == Caller::Holding { valid: true };
    world.contenders.iter().filter(valid).count()
}

/// Explores all of it: the rules hold, everything listed has happened, and there are this many states.
pub(crate) fn explore(setup: Setup, states: usize, occurrences: &[Witness]) {
    let witnessed = Arc::new(AtomicU64::new(0));
    let checker = Contest { setup, witnessed: witnessed.clone() }.checker().spawn_bfs().join();
    checker.assert_properties();
    let witnessed = witnessed.load(Ordering::Relaxed);
    let missing = occurrences.iter().filter(|witness| witnessed & (1 << **witness as u64) == 0);
    assert_eq!(missing.collect::<Vec<_>>(), [] as [&Witness; 0], "never happened");
    assert_eq!(checker.unique_state_count(), states);
}

/// Explores until `property` fails, as it must.
pub(crate) fn refute(setup: Setup, property: &'static str) {
    let checker = Contest { setup, witnessed: Arc::default() }
        .checker()
        .finish_when(HasDiscoveries::AnyOf([property].into()))
        .spawn_bfs()
        .join();
    checker.assert_any_discovery(property);
}

/// Takes these steps, each of which must be possible.
pub(crate) fn replay(setup: &Setup, steps: &[Step]) -> World {
    let mut world = World::new(setup);
    for step in steps {
        go(&mut world, *step, setup);
    }
    world
}

/// As [`replay`], with everything that arrives by itself between these steps.
pub(crate) fn replay_timed(setup: &Setup, steps: &[Step]) -> World {
    let mut world = World::new(setup);
    let settle = |world: &mut World| {
        while let Some(arrival) = world.arrival() {
            world.take(arrival, setup, &|_| ());
        }
    };
    for step in steps {
        settle(&mut world);
        go(&mut world, *step, setup);
    }
    settle(&mut world);
    world
}

fn go(world: &mut World, step: Step, setup: &Setup) {
    let mut possible = Vec::new();
    world.steps(setup, &mut possible);
    assert!(possible.contains(&step), "{step:?} is not among {possible:?}");
    world.take(step, setup, &|_| ());
}
