//! What must hold in every world of the model, and how one way through it is replayed.

use std::iter;

use stateright::Property;

use zklock_recipe::{Kind, Own};

use super::contender::{Caller, Contender, Seated, Target};
use super::exploration::{Contest, Rule, State, next, take};
use super::foreigner::Stay;
use super::nodes::{Make, Party};
use super::queues::World;
use super::session::at;
use super::setup::{Fault, Setup};
use super::step::Step;
use super::tree::Path;

pub(crate) const ONE_HOLDER: Rule = "at most one guard is valid";
pub(crate) const NO_ORPHAN: Rule = "no node is left without an owner";
pub(crate) const ONE_KIND: Rule = "no guard is valid while a contender of another client holds the lock";
pub(crate) const UNASKED: Rule =
    "a writer's release grants readers without a request, and no reader lists twice";
pub(crate) const DELAYED: Rule = "nobody in front of whom a guard has vanished is granted without a delay";
pub(crate) const IN_VAIN: Rule = "nobody waits whom nobody blocks";
pub(crate) const FIRST_IS_TOLD: Rule = "a member that is first and without its node is told";
pub(crate) const NOT_ANOTHERS: Rule = "nobody removes another's node";
pub(crate) const SEEN: Rule = "nobody is granted who should have looked, and would have found a node gone";
pub(crate) const CAUSED: Rule = "every end has its cause";
pub(crate) const AWAITED: Rule = "every grant has a caller";
pub(crate) const TOKENS: Rule = "tokens increase past those that a guard excludes";
pub(crate) const BY_ITSELF: Rule = "released means by its own transaction";
pub(crate) const FIRST_RELEASES: Rule = "only the first releases";
pub(crate) const KEPT: Rule = "no write is superseded";
pub(crate) const IN_TURN: Rule = "those who wait undisturbed are granted in turn";
pub(crate) const STUCK: Rule = "nobody is stuck";
pub(crate) const TOLD: Rule = "a settled holder without a node is told";
pub(crate) const FOUND: Rule = "a settled holder that is blocked finds that out";
pub(crate) const LIMITED: Rule = "no guard is valid at its limit";
pub(crate) const GRANTED: Rule = "every waiter whose session lives is granted in the end";

/// What an operator does is not foreseen.
pub(crate) fn tolerates(setup: &Setup, rule: Rule) -> bool {
    match rule {
        AWAITED | KEPT | SEEN | UNASKED | DELAYED => false,
        NOT_ANOTHERS => setup.is_meddled_with() && !setup.may(&[Fault::Uprooting]),
        _ => setup.is_overridden(),
    }
}

pub(crate) fn properties(setup: &Setup) -> Vec<Property<Contest>> {
    let mut properties = vec![
        Contest::always(NO_ORPHAN, |_, world| {
            let mut ours = world.leader.tree.nodes().filter(|(_, node)| node.data.make == Make::Ours);
            ours.all(|(_, node)| {
                let creator = &world.contenders[node.data.creator];
                let session = &world.sessions[creator.session];
                let is_late = session.late.iter().any(|(party, _)| *party == node.data.creator);
                !creator.acquisition.is_ended() || session.over || is_late
            })
        }),
        Contest::always(ONE_KIND, |_, world| {
            valid_guards(world) == 0 || world.foreigners.iter().all(|it| it.stay != Stay::Holding)
        }),
        Contest::always("a contender has one watch of a kind in each queue", |_, world| {
            let servers = iter::once(&world.leader).chain(world.follower.iter().map(|it| &it.server));
            let watches = servers.flat_map(|server| {
                server.watches.iter().map(|watch| {
                    let Path::Child(queue, place) = watch.path else { unreachable!("{watch:?}") };
                    let node = server.tree.node(queue, place);
                    let own = node.is_some_and(|node| node.data.creator == watch.party);
                    (queue, watch.party, watch.kind, own)
                })
            });
            let mut watches = watches.collect::<Vec<_>>();
            let all = watches.len();
            watches.sort();
            watches.dedup();
            watches.len() == all
        }),
        Contest::always(STUCK, |contest, world| {
            if contest.setup.clock.is_some_and(|clock| clock.end == world.leader_time()) {
                return true;
            }
            let is_over =
                |contender: &Contender| contender.caller == Caller::Idle || contender.acquisition.is_ended();
            world.leader.tree.nodes().next().is_none() && world.contenders.iter().all(is_over)
                || contest.goes_on(world)
        }),
        Contest::sometimes("a guard is held", |_, world| valid_guards(world) > 0),
        Contest::sometimes("it is all over", |_, world| {
            world.contenders.iter().all(|contender| contender.acquisition.is_ended())
        }),
    ];
    // Whoever may give up is granted or gives up, so this would say nothing; and time ends.
    if !setup.giving_up && setup.clock.is_none() {
        properties.push(Property::eventually(GRANTED, |_: &Contest, world: &State| {
            let done = |contender: &Contender| {
                contender.acquisition.is_ended() || world.sessions[contender.session].over
            };
            world.contenders.iter().all(done) && world.foreigners.iter().all(|it| it.stay == Stay::Gone)
        }));
    }
    // What an operator does is not foreseen, but by a long delay.
    let meddled = setup.is_meddled_with();
    let overridden = setup.is_overridden();
    if !overridden || setup.clock.is_some() {
        properties.push(Contest::always(ONE_HOLDER, |_, world| !two_hold(world)));
    }
    if meddled || setup.may(&[Fault::Write]) {
        properties.push(Contest::always(TOLD, |contest, world| {
            let settled = |contender: &Contender| contender.settled && contender.holds();
            have_their_nodes(contest, world, settled, |_| true)
        }));
    }
    if setup.is_forged() {
        properties.push(Contest::always(FOUND, |contest, world| {
            let is_blocked = |(party, contender): (Party, &Contender)| {
                contender.settled && contender.holds() && !is_free(world, party)
            };
            !world.contenders.iter().enumerate().any(is_blocked) || !is_calm(contest, world)
        }));
    }
    // With a clock, time ends while somebody waits for a delay.
    if (setup.is_of_a_family() || setup.foreigners.contains(&Make::Ask)) && setup.clock.is_none() {
        properties.extend([
            Contest::always(IN_VAIN, |contest, world| {
                let waiting = |(party, contender): (Party, &Contender)| {
                    contender.caller == Caller::Waiting && is_free(world, party)
                };
                !world.contenders.iter().enumerate().any(waiting) || !is_calm(contest, world)
            }),
            Contest::always(FIRST_IS_TOLD, |contest, world| {
                let waits = |contender: &Contender| contender.caller == Caller::Waiting;
                let is_first = |seated: &Seated| !matches!(seated.watch, Some((Target::Predecessor, _)));
                have_their_nodes(contest, world, waits, is_first)
            }),
        ]);
    }
    if setup.longest.is_some() {
        properties.push(Contest::always(LIMITED, |_, world| {
            let is_over = |contender: &Contender| contender.limit.reached(at(world.now)).is_some();
            !world.contenders.iter().any(|contender| contender.holds() && is_over(contender))
        }));
    }
    if !overridden {
        properties.push(Contest::always(
            "nobody who blocks it is before a valid guard's node",
            |_, world| {
                let mut parties = world.contenders.iter().enumerate();
                parties.all(|(party, contender)| {
                    let knows =
                        |(queue, own): (usize, Option<Own>)| own == world.leader.tree.node_of(queue, party);
                    !contender.holds() || is_free(world, party) && contender.places().all(knows)
                })
            },
        ));
    }
    properties
}

pub(crate) fn valid_guards(world: &World) -> usize {
    world.contenders.iter().filter(|contender| contender.holds()).count()
}

/// Whether two guards are valid, at least one of which is exclusive in a queue of both.
fn two_hold(world: &World) -> bool {
    let seats = world.contenders.iter().filter(|contender| contender.holds()).flat_map(|it| &it.seats);
    let mut guards = vec![(0, 0); world.leader.tree.directories.len()];
    for Seated { seat, .. } in seats {
        let (all, exclusive) = &mut guards[seat.queue];
        *all += 1;
        *exclusive += usize::from(seat.kind == Kind::Exclusive);
    }
    guards.into_iter().any(|(all, exclusive)| exclusive > 0 && all > 1)
}

/// Nothing is under way, and only callers can do something, and askers.
fn is_calm(contest: &Contest, world: &State) -> bool {
    !contest.goes_on_without(world, |step| matches!(step, Step::LetGo(_) | Step::ForeignerLeaves(_)))
}

/// Whether the nodes of these contenders' members are there, once nothing is under way.
fn have_their_nodes(
    contest: &Contest,
    world: &State,
    whose: impl Fn(&Contender) -> bool,
    which: impl Fn(&Seated) -> bool,
) -> bool {
    let lacks = |(party, contender): (Party, &Contender)| {
        let mut seats = contender.seats.iter().filter(|seated| which(seated));
        whose(contender) && seats.any(|it| world.leader.tree.node_of(it.seat.queue, party).is_none())
    };
    !world.contenders.iter().enumerate().any(lacks) || !is_calm(contest, world)
}

/// Whether all of a contender's nodes are there, and none is blocked.
fn is_free(world: &World, party: Party) -> bool {
    world.contenders[party].places().all(|(queue, _)| {
        let own = world.leader.tree.node_of(queue, party);
        own.is_some_and(|own| !world.leader.tree.blocks(queue, own.place))
    })
}

/// Takes these steps, each of which must be possible, with everything that arrives by itself between them.
pub(crate) fn replay(setup: &Setup, steps: &[Step]) -> State {
    let mut world = State::new(setup);
    let settle = |world: &mut State| {
        while let Some(arrival) = world.arrival(setup) {
            take(setup, world, arrival, &|_| ());
        }
    };
    for step in steps {
        settle(&mut world);
        let possible = next(setup, &world);
        assert!(possible.contains(step), "{step:?} is not among {possible:?}");
        take(setup, &mut world, *step, &|_| ());
    }
    settle(&mut world);
    world
}
