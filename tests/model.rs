//! Every order in which a few contenders, their network and their server can act, with the production
//! [`Machine`](zklock::recipe::Machine) in the middle.
//!
//! Each model is explored to its end, so the number of its states is a fact about protocol and world; it is pinned,
//! because a model that shrinks has stopped looking somewhere. The rules that must hold are named in
//! [`Model::properties`]; what must have happened for them to mean something is in each test's list of
//! [`Witness`]es; and each rule of the world that the protocol rests on is broken once, to see the model fail.

#[path = "model/server.rs"]
mod server;
#[path = "model/world.rs"]
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use stateright::{Checker, HasDiscoveries, Model, Path, Property};
use zklock::recipe::{Look, Patience, Sequence};

use world::{Breach, Caller, Faults, Flaw, Setup, Step, Witness, World};

struct Contest {
    setup: Setup,
    witnessed: Arc<AtomicU32>,
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
            self.witnessed.fetch_or(1 << witness as u8, Ordering::Relaxed);
        };
        world.take(step, &self.setup, &witness);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            always("no node is left without an owner", |_, world| {
                world.server.nodes.iter().all(|node| {
                    let creator = &world.contenders[node.creator];
                    !creator.machine.is_ended() || world.sessions[creator.session].over
                })
            }),
            always("a contender has one watch of a kind", |_, world| {
                let mut watches =
                    world.server.nodes.iter().flat_map(|node| &node.watches).collect::<Vec<_>>();
                let all = watches.len();
                watches.sort_by_key(|watch| (watch.party, watch.kind as u8));
                watches.dedup();
                watches.len() == all
            }),
            always("nobody is stuck", |contest, world| {
                !world.is_quiet(&contest.setup)
                    || world.server.nodes.is_empty()
                        && world
                            .contenders
                            .iter()
                            .all(|contender| contender.caller == Caller::Idle || contender.machine.is_ended())
            }),
            always("every grant has a caller", |_, world| world.breach != Some(Breach::GrantToNobody)),
            always("no write is superseded", |_, world| world.breach != Some(Breach::SupersededWrite)),
            sometimes("a guard is held", |_, world| valid_guards(world) == 1),
            sometimes("it is all over", |_, world| {
                world.contenders.iter().all(|contender| contender.machine.is_ended())
            }),
        ];
        if self.setup.faults.deletions > 0 {
            properties.push(always("a settled holder without a node is told", |contest, world| {
                let mut steps = Vec::new();
                world.steps(&contest.setup, &mut steps);
                let under_way = |step: &Step| !step.is_voluntary(world) && !matches!(step, Step::LetGo(_));
                steps.iter().any(under_way)
                    || world
                        .contenders
                        .iter()
                        .enumerate()
                        .all(|(party, contender)| !contender.settled || world.server.node_of(party).is_some())
            }));
            return properties;
        }
        properties.extend([
            always("at most one guard is valid", |_, world| valid_guards(world) <= 1),
            always("a valid guard's node is the first", |_, world| {
                world.contenders.iter().enumerate().all(|(party, contender)| {
                    contender.caller != Caller::Holding { valid: true }
                        || world.server.nodes.first().is_some_and(|first| {
                            first.creator == party && contender.machine.own() == Some(first.own)
                        })
                })
            }),
            always("tokens strictly increase", |_, world| world.breach != Some(Breach::TokenNotHigher)),
            always("released means by its own transaction", |_, world| {
                world.breach != Some(Breach::ReleasedWithoutRemoval)
            }),
            always("only the first releases", |_, world| world.breach != Some(Breach::ReleaseBehindOthers)),
            always("nobody removes another's node", |_, world| {
                world.breach != Some(Breach::RemovalOfAnothersNode)
            }),
            always("every end has its cause", |_, world| world.breach != Some(Breach::UnexpectedEnd)),
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

fn valid_guards(world: &World) -> usize {
    let valid = |contender: &&world::Contender| contender.caller == Caller::Holding { valid: true };
    world.contenders.iter().filter(valid).count()
}

/// Contenders that wait, each in a session of its own, for a lock that nobody has used yet.
fn waiters(number: usize) -> Setup {
    Setup {
        contenders: (0..number).map(|session| (session, Patience::Wait)).collect(),
        looks: vec![Look::List, Look::Count],
        directory: true,
        settling: false,
        giving_up: true,
        faults: Faults::default(),
        flaw: None,
    }
}

/// Explores all of it: the rules hold, everything listed has happened, and there are this many states.
fn explore(setup: Setup, states: usize, witnesses: &[Witness]) {
    let witnessed = Arc::new(AtomicU32::new(0));
    let checker = Contest { setup, witnessed: witnessed.clone() }.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    let witnessed = witnessed.load(Ordering::Relaxed);
    let missing =
        witnesses.iter().filter(|witness| witnessed & (1 << **witness as u8) == 0).collect::<Vec<_>>();
    println!("{} states, depth {}, missing {missing:?}", checker.unique_state_count(), checker.max_depth());
    assert!(missing.is_empty(), "never happened: {missing:?}");
    assert_eq!(checker.unique_state_count(), states);
}

/// Breaks one rule of the world, and sees `property` fail.
fn refute(setup: Setup, property: &'static str) -> Path<World, Step> {
    let checker = Contest { setup, witnessed: Arc::default() }
        .checker()
        .finish_when(HasDiscoveries::AnyOf([property].into()))
        .spawn_bfs()
        .join();
    let path = checker.assert_any_discovery(property);
    println!("{:?}", path.clone().into_actions());
    path
}

#[test]
fn scratch() {
    for (name, setup) in [
        (
            "2 breaks2 reap",
            Setup {
                directory: false,
                faults: Faults { breaks: 2, reaps: 1, ..Faults::default() },
                ..waiters(2)
            },
        ),
        (
            "3 break, patient",
            Setup {
                giving_up: false,
                looks: vec![Look::Count],
                faults: Faults { breaks: 1, ..Faults::default() },
                ..waiters(3)
            },
        ),
        (
            "3 expiry, patient",
            Setup {
                giving_up: false,
                looks: vec![Look::Count],
                faults: Faults { lapses: 1, expiries: 1, ..Faults::default() },
                ..waiters(3)
            },
        ),
        (
            "twins calm",
            Setup {
                contenders: vec![(0, Patience::Wait), (0, Patience::Wait), (1, Patience::Wait)],
                looks: vec![Look::Count],
                ..waiters(3)
            },
        ),
        (
            "twins break reap",
            Setup {
                contenders: vec![(0, Patience::Wait), (0, Patience::Wait), (1, Patience::Wait)],
                giving_up: false,
                looks: vec![Look::Count],
                faults: Faults { breaks: 1, reaps: 1, ..Faults::default() },
                ..waiters(3)
            },
        ),
        (
            "tries",
            Setup {
                contenders: vec![(0, Patience::Wait), (1, Patience::Try), (2, Patience::Try)],
                ..waiters(3)
            },
        ),
        (
            "settle",
            Setup {
                settling: true,
                faults: Faults { breaks: 1, lapses: 1, ..Faults::default() },
                ..waiters(2)
            },
        ),
        (
            "operator 2",
            Setup {
                settling: true,
                faults: Faults { breaks: 1, deletions: 1, ..Faults::default() },
                ..waiters(2)
            },
        ),
        (
            "operator 3",
            Setup {
                settling: true,
                looks: vec![Look::Count],
                giving_up: false,
                faults: Faults { deletions: 1, ..Faults::default() },
                ..waiters(3)
            },
        ),
    ] {
        let start = std::time::Instant::now();
        let witnessed = Arc::new(AtomicU32::new(0));
        let checker = Contest { setup, witnessed: witnessed.clone() }
            .checker()
            .threads(2)
            .timeout(std::time::Duration::from_secs(60))
            .spawn_bfs()
            .join();
        println!(
            "{name}: {} states, depth {}, {:?}, seen {:b}",
            checker.unique_state_count(),
            checker.max_depth(),
            start.elapsed(),
            witnessed.load(Ordering::Relaxed)
        );
        for (name, path) in checker.discoveries() {
            if checker.discovery_classification(name).to_string() == "counterexample" {
                println!("   {name}: {:?}", path.into_actions());
            }
        }
    }
}
