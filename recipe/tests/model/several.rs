//! Contenders that wait for several locks at once.

use zklock_recipe::{Look, Takeover};

use super::contest::{CAUSED, FIRST_IS_TOLD, GRANTED, NO_ORPHAN, NOT_ANOTHERS, ONE_HOLDER};
use super::findings::Witness::*;
use super::mutant::Mutant;
use super::setup::{
    Faults, Flaw, Seat, Setup, mutated, of, patient, reader, reaped, tries, waits, waits_for, weakened, with,
    writer,
};
use crate::world::exploration::{explore, refute};

/// Two that wait for the same two locks, and name them in opposite order.
fn opposite() -> Setup {
    let [first, second] = [writer(0), writer(1)];
    of(vec![waits_for(0, &[first, second]), waits_for(1, &[second, first])])
}

/// Each reads in one queue and writes in the other.
fn mixed() -> Setup {
    of(vec![waits_for(0, &[reader(0), writer(1)]), waits_for(1, &[reader(1), writer(0)])])
}

/// One that waits for two locks, and one for each of these alone.
fn among_plain() -> Setup {
    of(vec![waits_for(0, &both()), waits(1), waits_for(2, &[writer(1)])])
}

/// One that waits for two locks, and nobody else.
fn lonely() -> Setup {
    of(vec![waits_for(0, &both())])
}

fn both() -> [Seat; 2] {
    [writer(0), writer(1)]
}

fn faults() -> Faults {
    Faults::default()
}

fn counting(setup: Setup) -> Setup {
    Setup { looks: vec![Look::Count], ..setup }
}

#[test]
fn two_wait_for_two_locks_in_opposite_order() {
    explore(
        opposite(),
        12_916,
        &[GrantByRelease, GrantByListing, GrantByCount, GiveUpWhileEntering, GiveUpWhileWaiting],
    );
}

#[test]
fn two_that_wait_for_two_locks_lose_their_connections() {
    explore(
        with(Faults { breaks: 1, ..faults() }, patient(opposite())),
        23_721,
        &[GrantByRelease, RecoveryFindsNode, RecoveryFindsNone, RemovalFoundDone, RemovalFoundUndone],
    );
}

#[test]
fn two_that_wait_for_two_locks_lose_their_sessions() {
    explore(
        counting(with(Faults { lapses: 1, expiries: 1, ..faults() }, opposite())),
        70_903,
        &[GuardLost, GrantAfterLapse, GiveUpOnceGranted, GrantByRelease],
    );
}

#[test]
fn two_that_wait_for_two_locks_delay_their_takeover() {
    let setup = Setup { takeover: Takeover::Delayed, ..patient(opposite()) };
    explore(
        with(Faults { lapses: 1, expiries: 1, ..faults() }, setup),
        26_047,
        &[TakeoverDelayed, GuardLost, GrantByRelease],
    );
}

/// The others of its nodes do not stay behind: neither when it holds, nor when it waits, nor when it leaves.
#[test]
fn an_operator_deletes_one_node_of_several() {
    let setup = Setup { settling: true, ..patient(opposite()) };
    explore(
        with(Faults { deletions: 1, ..faults() }, setup),
        53_199,
        &[HolderTold, ToldByMissingNode, ReleaseFindsNone],
    );
}

/// It is first in one queue and waits in the other, and is told at once.
#[test]
fn an_operator_deletes_the_node_of_a_member_that_is_first() {
    let setup = patient(of(vec![waits_for(0, &both()), waits(1)]));
    explore(
        with(Faults { deletions: 1, breaks: 1, ..faults() }, setup),
        52_637,
        &[FirstAmongWaiting, ToldBeforeTheGrant, ToldByMissingNode],
    );
}

/// An operator removes the common ancestor of both queues, and both are made again. Another contender has the names of the
/// holder's nodes by then.
fn uprooted() -> Setup {
    let faults = Faults { uproots: 1, ..faults() };
    Setup { settling: true, ..with(faults, patient(opposite())) }
}

/// The holder is told of one node, and looks at the other one before it removes the node of that name.
#[test]
fn an_operator_removes_the_directories_of_several_locks() {
    explore(uprooted(), 57_061, &[HolderTold, DirectoryCreated, DirectoryReset, LookFindsNone]);
}

#[test]
fn directories_of_several_locks_are_created_and_reaped() {
    explore(
        reaped(with(Faults { breaks: 1, ..faults() }, patient(opposite()))),
        28_494,
        &[DirectoryCreated, DirectoryReset, RecoveryFindsNode, RecoveryFindsNone, StrayCreate],
    );
}

#[test]
fn one_of_two_that_wait_for_two_locks_is_at_a_follower() {
    let setup = Setup { following: vec![0], ..patient(opposite()) };
    explore(
        with(Faults { breaks: 1, ..faults() }, setup),
        112_076,
        &[AnswerFromThePast, MovedToFollower, MovedToLeader, GrantByRelease],
    );
}

#[test]
fn each_reads_in_one_queue_and_writes_in_the_other() {
    explore(
        with(Faults { breaks: 1, ..faults() }, patient(mixed())),
        21_235,
        &[ReaderGrantedByRelease, RecoveryFindsNode, RemovalFoundDone],
    );
}

#[test]
fn one_waits_for_two_locks_among_those_that_wait_for_one() {
    explore(patient(among_plain()), 30_730, &[FirstAmongWaiting, GrantByRelease]);
}

#[test]
fn several_locks_are_tried() {
    let mut trying = waits_for(0, &both());
    trying.patience = tries(0).patience;
    let setup = of(vec![trying, waits_for(1, &both()), waits_for(2, &[writer(1)])]);
    explore(patient(setup), 96_977, &[Busy, GrantByListing]);
}

/// The models above would notice a deadlock.
#[test]
fn queues_must_be_entered_at_once() {
    refute(mutated(Mutant::EnqueuesOneByOne, patient(opposite())), "nobody is stuck");
}

#[test]
fn every_mutant_is_caught() {
    super::broken::refute_each(mutants());
}

/// The leader may carry a create out between two members' searches, because it heard of a connection that was left.
fn late_create() -> Setup {
    weakened(Flaw::CreatesComeLate, with(Faults { breaks: 1, ..faults() }, lonely()))
}

#[test]
fn a_create_that_comes_late_is_found_or_deleted() {
    explore(late_create(), 987, &[RecoveryFindsNone, LateCreateSwept]);
}

/// Each fault that a group can have.
pub(crate) fn mutants() -> Vec<(Mutant, Setup, &'static str)> {
    let deletions = Faults { deletions: 1, ..faults() };
    let settling = Setup { settling: true, ..lonely() };
    let lost = Faults { breaks: 1, ..deletions };
    vec![
        (Mutant::EnqueuesOneByOne, patient(opposite()), GRANTED),
        (Mutant::TakesAllWithTheFirst, patient(among_plain()), ONE_HOLDER),
        (Mutant::LeavesOthersBehind, with(deletions, settling), NO_ORPHAN),
        (Mutant::NamesNodesBlindly, uprooted(), NOT_ANOTHERS),
        (Mutant::TrustsOneMembersSearch, with(lost, lonely()), NO_ORPHAN),
        (Mutant::SearchesOnce, late_create(), CAUSED),
        (Mutant::ForgetsALateCreate, late_create(), NO_ORPHAN),
        (Mutant::RemembersThroughALoss, uprooted(), NOT_ANOTHERS),
        (Mutant::RemembersThroughAnEnd, uprooted(), NOT_ANOTHERS),
        (Mutant::IgnoresItsDeletedNode, with(deletions, patient(among_plain())), FIRST_IS_TOLD),
    ]
}

#[cfg(not(debug_assertions))]
mod at_large {
    use super::*;

    #[test]
    fn two_wait_for_two_locks_under_every_fault_of_their_sessions() {
        let faults = Faults { breaks: 1, lapses: 1, expiries: 1, ..faults() };
        explore(
            with(faults, patient(opposite())),
            247_308,
            &[GuardLost, GrantAfterLapse, RecoveryFindsNode, RemovalFoundUndone],
        );
    }

    #[test]
    fn two_give_up_two_locks_while_their_connections_break() {
        explore(
            counting(with(Faults { breaks: 1, ..faults() }, opposite())),
            126_393,
            &[GiveUpWhileEntering, GiveUpWhileWaiting, RecoveryFindsNode, StrayCreate],
        );
    }

    #[test]
    fn an_operator_deletes_one_node_of_several_while_connections_break() {
        let setup = Setup { settling: true, ..patient(opposite()) };
        explore(
            with(Faults { breaks: 1, deletions: 1, ..faults() }, setup),
            887_731,
            &[HolderTold, ToldByMissingNode, ReleaseFindsNone, RecoveryFindsNode, RemovalFoundDone],
        );
    }

    #[test]
    fn an_operator_deletes_one_node_of_several_while_callers_give_up() {
        let setup = Setup { settling: true, ..counting(opposite()) };
        explore(
            with(Faults { deletions: 1, ..faults() }, setup),
            151_783,
            &[HolderTold, ToldByMissingNode, ReleaseFindsNone, GiveUpWhileWaiting],
        );
    }

    #[test]
    fn one_gives_up_two_locks_among_those_that_wait_for_one() {
        explore(
            counting(among_plain()),
            240_739,
            &[FirstAmongWaiting, GiveUpWhileEntering, GiveUpWhileWaiting],
        );
    }

    #[test]
    fn one_waits_for_two_locks_among_others_while_connections_break() {
        explore(
            with(Faults { breaks: 1, ..faults() }, patient(among_plain())),
            482_787,
            &[FirstAmongWaiting, RecoveryFindsNode, RemovalFoundDone],
        );
    }

    #[test]
    fn one_waits_for_two_locks_among_others_while_sessions_end() {
        explore(
            with(Faults { lapses: 1, expiries: 1, ..faults() }, patient(among_plain())),
            397_681,
            &[FirstAmongWaiting, GuardLost, GrantAfterLapse],
        );
    }

    #[test]
    fn three_wait_for_two_locks() {
        let setup =
            of(vec![waits_for(0, &both()), waits_for(1, &[writer(1), writer(0)]), waits_for(2, &both())]);
        explore(patient(setup), 365_714, &[GrantByRelease]);
    }
}
