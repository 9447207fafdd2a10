//! What must not be: each fault that a machine can have, each rule of the world without which the protocol would fail, and
//! the ways that were found so, frozen.

use zklock_recipe::{Look, Takeover};

use super::contest::{
    GRANTED, NO_ORPHAN, NOT_ANOTHERS, ONE_HOLDER, ONE_KIND, SEEN, replay, replay_timed, valid_guards,
};
use super::findings::Breach;
use super::follower::Streams;
use super::mutant::Mutant;
use super::nodes::Make;
use super::setup::{
    Faults, Flaw, Setup, mixed, mutated, patient, reaped, timed, tries, waiters, waits, weakened, with,
};
use super::step::Step;
use crate::world::exploration::refute;

/// Each fault that a machine can have, a model in which it shows, and the rule by which it does.
fn mutants() -> Vec<(Mutant, Setup, &'static str)> {
    let breaks = Faults { breaks: 1, ..Faults::default() };
    // A waiter's node goes, and was not released: its session is closed, or it only tried.
    let closings = Faults { closings: 1, ..Faults::default() };
    let closing = || with(closings, patient(waiters(3)));
    let contenders = vec![waits(0), tries(1), waits(2)];
    let sharing = || Setup { contenders: vec![waits(0), waits(0)], ..waiters(2) };
    let ending = Faults { lapses: 1, expiries: 1, ..Faults::default() };
    let deletions = Faults { deletions: 1, ..Faults::default() };
    let writes = Faults { writes: 1, ..Faults::default() };
    // An operator deletes the node of a waiter, which does not watch it.
    let unseen = || with(Faults { breaks: 1, ..deletions }, patient(waiters(2)));
    let delayed = || Setup { takeover: Takeover::Delayed, ..with(deletions, patient(waiters(2))) };
    vec![
        (Mutant::TrustsDeletions, closing(), ONE_HOLDER),
        (Mutant::TrustsAbsence, closing(), ONE_HOLDER),
        (Mutant::Miscounts, waiters(2), ONE_HOLDER),
        (Mutant::WatchesTheFirst, Setup { giving_up: false, ..waiters(3) }, ONE_HOLDER),
        (Mutant::ForgetsTheLease, with(ending, waiters(2)), ONE_HOLDER),
        (Mutant::LeavesLikeAHolder, Setup { contenders, ..patient(waiters(3)) }, ONE_HOLDER),
        (Mutant::CreatesAgain, with(breaks, waiters(1)), NO_ORPHAN),
        (Mutant::AdoptsAnothersNode, with(breaks, sharing()), ONE_HOLDER),
        (Mutant::RemovesAgain, reaped(with(breaks, waiters(2))), NOT_ANOTHERS),
        (Mutant::TrustsItsRemoval, with(breaks, waiters(1)), NO_ORPHAN),
        (Mutant::ForgetsItsCreate, waiters(1), NO_ORPHAN),
        (
            Mutant::IgnoresItsLoss,
            with(deletions, Setup { settling: true, ..waiters(2) }),
            "a settled holder without a node is told",
        ),
        (Mutant::TrustsWrites, with(writes, patient(waiters(3))), ONE_HOLDER),
        (
            Mutant::TrustsWritesBeforeDeletions,
            with(Faults { writes: 1, ..closings }, patient(waiters(3))),
            ONE_HOLDER,
        ),
        (Mutant::PassesForeignContendersOver, mixed(Make::Foreign, Faults::default()), ONE_KIND),
        (Mutant::TakesAnOldConnectionForThePresentOne, unseen(), SEEN),
        (Mutant::ConfirmsUnseenNodes, unseen(), SEEN),
        (Mutant::ConfirmsALapsedLease, with(Faults { breaks: 1, ..ending }, patient(waiters(2))), ONE_HOLDER),
        (Mutant::RemembersThroughARelease, delayed(), SEEN),
        (
            Mutant::RemembersThroughADelay,
            Setup { faults: Faults { closings: 1, ..deletions }, ..delayed() },
            SEEN,
        ),
        (Mutant::SharesAnOldSearch, super::searching(), NO_ORPHAN),
        (Mutant::LeavesAnUnclearNode, with(Faults { breaks: 1, ..writes }, waiters(1)), NO_ORPHAN),
    ]
}

pub(crate) fn refute_each(mutants: Vec<(Mutant, Setup, &'static str)>) {
    for (mutant, setup, property) in mutants {
        println!("{mutant:?}: {property}");
        refute(mutated(mutant, setup), property);
    }
}

#[test]
fn every_mutant_is_caught() {
    refute_each(mutants());
}

#[test]
fn every_mutant_has_its_model() {
    let mutants = [mutants(), super::readers::mutants(), super::several::mutants()].concat();
    for mutant in Mutant::ALL {
        assert_eq!(mutants.iter().filter(|(it, ..)| *it == mutant).count(), 1, "{mutant:?}");
    }
    assert_eq!(mutants.len(), Mutant::ALL.len());
}

#[test]
fn the_lease_must_end_before_the_session() {
    let setup = with(Faults { expiries: 1, ..Faults::default() }, waiters(2));
    refute(weakened(Flaw::LeaseIsTooLong, setup), ONE_HOLDER);
}

#[test]
fn a_lost_watch_must_be_told() {
    let setup = with(Faults { breaks: 1, ..Faults::default() }, waiters(2));
    refute(weakened(Flaw::WatchesAreForgotten, setup.clone()), "nobody is stuck");
    refute(weakened(Flaw::WatchesAreForgotten, patient(setup)), GRANTED);
}

#[test]
fn a_new_connection_must_not_read_what_was_before_the_barrier() {
    let setup = Setup { following: vec![0], ..patient(waiters(2)) };
    refute(
        weakened(Flaw::ReadsOvertakeTheBarrier, with(Faults { breaks: 1, ..Faults::default() }, setup)),
        NO_ORPHAN,
    );
}

#[test]
fn a_connection_that_was_left_must_not_be_heard_any_more() {
    let setup = with(Faults { breaks: 1, ..Faults::default() }, waiters(1));
    refute(weakened(Flaw::OldConnectionLingers, setup), "nobody is stuck");
}

#[test]
fn a_recovery_must_ask_the_quorum() {
    let setup = Setup { following: vec![0], ..patient(waiters(2)) };
    refute(
        weakened(Flaw::RecoveryIsLocal, with(Faults { breaks: 1, ..Faults::default() }, setup)),
        "nobody is stuck",
    );
}

#[test]
fn the_look_must_be_behind_the_create() {
    refute(weakened(Flaw::ReadOvertakesCreate, waiters(2)), ONE_HOLDER);
}

/// A quorum write used to be proof that the leader knew of all that was answered a lag before. Here the follower hears the
/// ping that asks for the first contender's touch together with the write's answer, and is not heard any more. On
/// servers: `proof/src/margins/stalled_server.rs`.
#[test]
fn frozen_a_write_came_before_the_report() {
    let faults = Faults { beats: 1, stalls: 2, ..Faults::default() };
    let steps = [
        Step::Tick,
        Step::Ping,
        Step::Beat(0),
        Step::Stall(Streams { up: false, down: true }),
        Step::Tick,
        Step::Ping,
        Step::Tick,
        Step::Begin(0, Look::Count),
        Step::Begin(1, Look::Count),
        Step::Stall(Streams { up: true, down: false }),
        Step::Ping,
        Step::Tick,
        Step::Expire(0),
    ];
    let world = replay_timed(&weakened(Flaw::WritesConfirmAlone, timed(5, faults)), &steps);
    assert_eq!(valid_guards(&world), 2);
    let world = replay_timed(&timed(5, faults), &steps);
    assert_eq!(valid_guards(&world), 1);
}

/// The server has removed the first contender's node, but the reply is lost with the connection. The empty directory
/// is reaped, and in a new one the second contender's node gets the same name; it is granted. Then the first is back.
const NAME_PASSED_ON: [Step; 13] = [
    Step::Break { session: 0, kept: 0 },
    Step::Reap(0),
    Step::Begin(1, Look::List),
    Step::Apply(1),
    Step::Deliver(1),
    Step::Apply(1),
    Step::Deliver(1),
    Step::Apply(1),
    Step::Deliver(1),
    Step::Apply(1),
    Step::Deliver(1),
    Step::Deliver(0),
    Step::Reconnect(0),
];

/// What the first contender does next: it removes the second one's node if it does not look first.
fn repeats_its_removal(removal: &[Step]) {
    let faults = Faults { breaks: 1, reaps: 1, ..Faults::default() };
    let setup = || with(faults, waiters(2));
    let before = [removal, &NAME_PASSED_ON].concat();

    let blindly = [&before[..], &[Step::Apply(0)]].concat();
    let world = replay(&mutated(Mutant::RemovesAgain, setup()), &blindly);
    assert_eq!(world.breach, Some(Breach::RemovalOfAnothersNode));
    assert_eq!((valid_guards(&world), world.leader.tree.nodes().count()), (1, 0));

    let looking = [&before[..], &[Step::Apply(0), Step::Deliver(0)]].concat();
    let world = replay(&setup(), &looking);
    assert_eq!(world.breach, None);
    assert!(world.contenders[0].acquisition.is_ended());
    assert_eq!((valid_guards(&world), world.leader.tree.nodes().count()), (1, 1));
}

/// Found by this model: the machine used to repeat its release at once. It then released for the second contender,
/// which went on believing that it held the lock.
#[test]
fn frozen_a_repeated_release_met_another_contenders_node() {
    let [begin, apply, deliver] = [Step::Begin(0, Look::List), Step::Apply(0), Step::Deliver(0)];
    repeats_its_removal(&[begin, apply, deliver, apply, deliver, Step::LetGo(0), apply]);
}

/// The same with the deletion by a contender that gives up.
#[test]
fn frozen_a_repeated_deletion_met_another_contenders_node() {
    let [begin, apply, deliver] = [Step::Begin(0, Look::List), Step::Apply(0), Step::Deliver(0)];
    repeats_its_removal(&[begin, Step::GiveUp(0), apply, deliver, apply, deliver, apply]);
}
