//! Every order in which the tasks of two processes, and a contender of another client, can act, with the production
//! [`Stage`](zklock_recipe::Stage) of each process in the middle.
//!
//! ZooKeeper's lock is a queue here: a contender is granted once its node is the first and its lease is valid. The other
//! model shows that. A hold is lost at once when its lease lapses, and when an operator deletes its node.

mod contest;
mod process;
mod run;
mod task;
mod world;

use crate::world::exploration::{explore, refute};
use contest::{
    AWAKE, BOUNDED, BUDGET, CLEAN, FRESH, HALF, IN_THE_END, ONE_CONTENDER, ONE_HOLDER, ORDER, PATIENT, PLACE,
    PRESENT, SERVED, STANDS, WANTED,
};
use world::{Faults, Mutant, Setup, Witness::*};

const NONE: Faults =
    Faults { tries: 0, departures: 0, absences: 0, lapses: 0, deletions: 0, failures: 0, refusals: 0 };

/// Processes with so many tasks, each of which wants the lock once, and a remote contender that does.
fn setup(tasks: &[usize], budget: u32, faults: Faults) -> Setup {
    Setup {
        tasks: tasks.to_vec(),
        comings: 1,
        late: 0,
        remote: 1,
        budget,
        is_long: true,
        faults,
        mutant: None,
    }
}

/// Each task wants the lock twice.
fn twice(setup: Setup) -> Setup {
    Setup { comings: 2, ..setup }
}

/// Another task comes often enough to pass the first one, which is late for ever, over in each hold.
fn beside_one_that_comes_often(faults: Faults) -> Setup {
    late(1, Setup { comings: 4, remote: 0, ..setup(&[2], 1, faults) })
}

/// The time of a hold is over soon after the first offer may be withdrawn.
fn short(setup: Setup) -> Setup {
    Setup { is_long: false, ..setup }
}

/// Tasks come so often that a hold opens again with one that missed a half.
fn beside_others_that_come_often() -> Setup {
    Setup { comings: 4, remote: 0, ..setup(&[2], 0, Faults { absences: 1, ..NONE }) }
}

/// The first tasks are late for ever.
fn late(late: usize, setup: Setup) -> Setup {
    Setup { late, ..setup }
}

fn mutated(mutant: Mutant, setup: Setup) -> Setup {
    Setup { mutant: Some(mutant), ..setup }
}

#[test]
fn two_processes_pass_their_holds_on() {
    for (budget, states) in [(0, 7_404), (1, 13_712), (2, 14_408)] {
        let occurrences: &[_] = if budget > 0 {
            &[PassedOn, ContendedAgain, WentBehindTheRemote]
        } else {
            &[BudgetEnded, ContendedAgain]
        };
        explore(setup(&[2, 2], budget, NONE), states, occurrences);
    }
}

#[test]
fn four_tasks_want_more_than_the_budget_allows() {
    for (budget, states) in [(0, 4_638), (1, 7_585), (2, 8_457)] {
        explore(setup(&[4], budget, NONE), states, &[BudgetEnded, WentBehindTheRemote, ContendedAgain]);
    }
}

#[test]
fn tasks_come_again() {
    for (budget, states) in [(0, 10_711), (1, 26_711), (2, 37_359)] {
        explore(
            Setup { remote: 2, ..twice(setup(&[3], budget, NONE)) },
            states,
            &[BudgetEnded, WentBehindTheRemote],
        );
    }
}

#[test]
fn holds_may_not_be_passed_on_for_long() {
    let faults = Faults { refusals: 2, ..NONE };
    explore(setup(&[2, 2], 1, faults), 39_452, &[PassedOn, PassingRefused]);
}

#[test]
fn tasks_give_up() {
    let faults = Faults { departures: 2, ..NONE };
    let occurrences =
        [LeftWhileOffered, LeftWhileOfferedToTheLast, Retired, RetireRaced, GrantedToNobody, PassedOn];
    explore(setup(&[3], 1, faults), 7_268, &occurrences);
    explore(setup(&[2, 2], 1, Faults { departures: 1, ..NONE }), 85_132, &occurrences);
    explore(twice(setup(&[2], 1, faults)), 12_729, &occurrences);
}

#[test]
fn tasks_are_not_polled() {
    let faults = Faults { absences: 2, ..NONE };
    let occurrences = [PassedOver, AllPassedOver, CameBack, CameBackAlone, PassedOn, BudgetEnded];
    explore(setup(&[3], 1, faults), 103_372, &occurrences);
    explore(setup(&[2, 2], 1, Faults { absences: 1, ..NONE }), 160_912, &occurrences[..5]);
    let faults = Faults { absences: 2, refusals: 1, ..NONE };
    explore(
        short(setup(&[3], 1, faults)),
        110_080,
        &[PassedOver, PassingOverRefused, CameBack, BecameTheLast],
    );
    let faults = Faults { absences: 2, departures: 1, ..NONE };
    let occurrences = [PassedOver, CameBack, LeftWhileOffered, GrantedToNobody, MissedItsHalfForNobody];
    explore(setup(&[3], 1, faults), 326_710, &occurrences);
    let faults = Faults { absences: 2, departures: 1, refusals: 1, ..NONE };
    explore(twice(setup(&[2], 1, faults)), 659_023, &[BecameTheLast, TheLastHadATurn, LeftWithoutTime]);
    explore(beside_others_that_come_often(), 13_361, &[BecameTheLast, MissedAnotherHalf, HadAnotherHalf]);
}

/// Each of these explorations ends. So a task that is late for ever has its turn, whatever the others do.
#[test]
fn tasks_are_late_for_ever() {
    let faults = Faults { refusals: 1, ..NONE };
    explore(late(1, twice(setup(&[1], 1, faults))), 419, &[PassedOver, AllPassedOver, CameBackAlone]);
    let occurrences = [PassedOver, HadItsHalf, HadTheRest, CameBack, PassedOn, BudgetEnded];
    for (budget, states) in [(0, 1_427), (1, 2_335), (2, 2_495)] {
        explore(late(1, setup(&[3], budget, NONE)), states, &occurrences[..3]);
    }
    explore(late(2, setup(&[3], 1, NONE)), 3_870, &occurrences);
    explore(late(1, setup(&[2, 2], 1, NONE)), 18_715, &[PassedOver, HadTheRest]);
    explore(late(1, twice(setup(&[2], 1, faults))), 9_390, &occurrences);
    explore(late(2, twice(setup(&[2], 1, NONE))), 3_691, &[PassedOver, HadTheRest]);
    explore(beside_one_that_comes_often(NONE), 4_823, &[HadItsHalfThoughAbsent, BudgetEnded]);
    explore(
        beside_one_that_comes_often(faults),
        20_455,
        &[HadItsHalfThoughAbsent, MissedItsHalfThoughAbsent],
    );
    let faults = Faults { departures: 1, lapses: 1, ..NONE };
    explore(late(1, setup(&[2], 1, faults)), 12_114, &[PassedOver, LostWhileOffered, LeftWhileOffered]);
}

#[test]
fn tasks_try() {
    let faults = Faults { tries: 2, departures: 1, ..NONE };
    let occurrences =
        [TrySucceeded, TryFailed, TryRefused, TryDropped, TrySucceededBesideOthers, PassedOn, ContendedAgain];
    explore(setup(&[3], 1, faults), 15_468, &occurrences);
    explore(
        setup(&[2, 2], 1, Faults { tries: 1, ..NONE }),
        49_078,
        &[TrySucceeded, TryFailed, TrySucceededBesideOthers],
    );
    let faults = Faults { lapses: 1, ..faults };
    explore(setup(&[2], 1, faults), 16_668, &[TrySucceeded, LostWhileTaken, TryDropped]);
}

#[test]
fn leases_lapse_and_sessions_expire() {
    let faults = Faults { lapses: 1, ..NONE };
    let occurrences = [LostWhileOffered, LostWhileTaken, LostWhilePassed, LatePass, PutBack, PutBackAlone];
    explore(setup(&[2, 2], 1, faults), 374_534, &occurrences);
    let occurrences =
        [&occurrences[..], &[LatePassBesideATurn, PutBackBesideAHold, WaitedBehindItself]].concat();
    explore(setup(&[3], 1, faults), 22_287, &occurrences);
    explore(setup(&[2], 2, Faults { lapses: 2, ..NONE }), 13_740, &[LatePassBesideATurn, PutBackBesideAHold]);
}

#[test]
fn an_operator_deletes_nodes() {
    let faults = Faults { deletions: 1, ..NONE };
    let occurrences = [LostWhileOffered, LostWhileTaken, LatePassBesideATurn, PutBack, PutBackBesideAHold];
    explore(setup(&[2, 2], 1, faults), 195_352, &occurrences[..2]);
    explore(setup(&[3], 1, Faults { deletions: 2, ..NONE }), 56_413, &occurrences);
}

#[test]
fn acquisitions_fail() {
    let faults = Faults { failures: 1, ..NONE };
    explore(setup(&[2, 2], 1, faults), 72_492, &[Failed, PassedOn]);
    explore(setup(&[3], 1, Faults { departures: 1, ..faults }), 18_669, &[Failed, RetireRaced]);
    explore(twice(setup(&[2], 1, Faults { lapses: 1, ..faults })), 63_743, &[Failed, PutBackAlone, LatePass]);
}

#[test]
fn two_tasks_under_every_fault() {
    let faults =
        Faults { tries: 1, departures: 1, absences: 1, lapses: 1, deletions: 1, failures: 1, refusals: 1 };
    let occurrences = [
        PassedOn,
        PassingRefused,
        PassedOver,
        PassingOverRefused,
        AllPassedOver,
        CameBack,
        CameBackAlone,
        LeftWhileOffered,
        LeftWhileOfferedToTheLast,
        LeftWithoutTime,
        LostWhileOffered,
        LostWhileTaken,
        LostWhilePassed,
        LatePass,
        LatePassBesideATurn,
        Retired,
        RetireRaced,
        GrantedToNobody,
        ContendedAgain,
        TrySucceeded,
        TryFailed,
        TryRefused,
        TryDropped,
        TrySucceededBesideOthers,
        PutBack,
        PutBackAlone,
        PutBackBesideAHold,
        Failed,
        WentBehindTheRemote,
        WaitedBehindItself,
    ];
    explore(setup(&[2], 1, faults), 811_758, &occurrences);
}

/// Models of millions of states.
#[cfg(not(debug_assertions))]
mod at_large {
    use super::*;

    #[test]
    fn two_processes_whose_tasks_give_up_while_leases_lapse() {
        let faults = Faults { departures: 1, lapses: 1, ..NONE };
        explore(
            setup(&[2, 2], 1, faults),
            1_981_890,
            &[LeftWhileOffered, LatePassBesideATurn, PutBackBesideAHold],
        );
    }

    #[test]
    fn two_processes_whose_tasks_are_not_polled_while_leases_lapse() {
        let faults = Faults { absences: 1, lapses: 1, ..NONE };
        explore(
            setup(&[2, 2], 1, faults),
            4_406_748,
            &[PassedOver, CameBackAlone, LatePassBesideATurn, PutBack],
        );
    }

    #[test]
    fn two_processes_whose_nodes_are_deleted_while_leases_lapse() {
        let faults = Faults { lapses: 1, deletions: 1, ..NONE };
        explore(
            setup(&[2, 2], 1, faults),
            3_399_072,
            &[LatePassBesideATurn, PutBackBesideAHold, WaitedBehindItself],
        );
    }

    #[test]
    fn two_processes_whose_tasks_give_up_and_are_not_polled() {
        let faults = Faults { departures: 1, absences: 1, ..NONE };
        for (budget, states) in [(0, 583_630), (1, 896_303), (2, 921_186)] {
            explore(setup(&[2, 2], budget, faults), states, &[LeftWhileOffered, PassedOver, CameBackAlone]);
        }
    }

    #[test]
    fn two_processes_whose_tasks_come_again() {
        for (budget, states) in [(0, 174_615), (1, 657_516), (2, 998_628)] {
            let setup = Setup { remote: 2, ..twice(setup(&[2, 2], budget, NONE)) };
            explore(setup, states, &[ContendedAgain, WentBehindTheRemote, BudgetEnded]);
        }
    }

    #[test]
    fn two_processes_whose_tasks_give_up_and_are_not_polled_while_leases_lapse() {
        let faults = Faults { departures: 1, absences: 1, lapses: 1, ..NONE };
        let occurrences = [PassedOver, LeftWhileOffered, LatePassBesideATurn, PutBackBesideAHold];
        explore(setup(&[2, 2], 1, faults), 20_763_750, &occurrences);
    }

    #[test]
    fn two_processes_with_a_late_task_whose_others_give_up_while_leases_lapse() {
        let faults = Faults { departures: 1, lapses: 1, ..NONE };
        let occurrences = [PassedOver, HadTheRest, LeftWhileOffered, LatePassBesideATurn, PutBackBesideAHold];
        explore(late(1, setup(&[2, 2], 1, faults)), 2_660_247, &occurrences);
    }

    #[test]
    fn three_tasks_under_most_faults() {
        let faults = Faults { departures: 1, absences: 1, lapses: 1, failures: 1, ..NONE };
        explore(
            setup(&[3], 1, faults),
            1_874_438,
            &[LatePassBesideATurn, PutBackBesideAHold, Failed, CameBackAlone],
        );
    }
}

/// Each with a setup in which it must be caught, and the rule that it breaks.
#[test]
fn each_mutant_is_caught() {
    let departures = Faults { departures: 1, ..NONE };
    let absences = Faults { absences: 1, ..NONE };
    let lapses = Faults { lapses: 1, ..NONE };
    let tries = Faults { tries: 1, ..NONE };
    let failures = Faults { failures: 1, ..NONE };
    let cases = [
        (Mutant::EndsTheTurnTooLate, setup(&[2], 1, NONE), ONE_HOLDER),
        (Mutant::PassesALostHold, setup(&[2], 1, lapses), FRESH),
        (Mutant::IgnoresTheHoldNumber, setup(&[3], 1, lapses), PRESENT),
        (Mutant::IgnoresTheBudget, setup(&[2], 0, NONE), BUDGET),
        (Mutant::IgnoresTheRefusal, setup(&[2], 1, Faults { refusals: 1, ..NONE }), BUDGET),
        (Mutant::CountsTheBudgetAnew, setup(&[3], 1, NONE), BUDGET),
        (Mutant::KeepsItsPlace, setup(&[2], 0, NONE), BOUNDED),
        (Mutant::NeverPassesOn, setup(&[2], 1, NONE), SERVED),
        (Mutant::KeepsTheOffer, setup(&[2], 1, departures), AWAKE),
        (Mutant::KeepsTheOffer, setup(&[1], 1, departures), CLEAN),
        (Mutant::NeverLooks, setup(&[2], 1, absences), AWAKE),
        (Mutant::LooksOnce, setup(&[2], 1, absences), PATIENT),
        (Mutant::PassesTheOnlyOneOver, setup(&[1], 1, absences), STANDS),
        (Mutant::PassesTheOnlyOneOver, late(1, setup(&[1], 1, NONE)), IN_THE_END),
        (Mutant::NeverWaitsForTheLate, setup(&[3], 0, Faults { absences: 2, ..NONE }), HALF),
        (Mutant::WaitsForTheLateForTooLong, setup(&[3], 0, Faults { absences: 2, ..NONE }), STANDS),
        (Mutant::OpensWithoutTheAbsent, beside_one_that_comes_often(NONE), IN_THE_END),
        (Mutant::NeverForgives, beside_others_that_come_often(), ORDER),
        (Mutant::HandsOnWithoutTime, setup(&[2], 1, Faults { refusals: 1, ..absences }), BUDGET),
        (Mutant::HandsOnWithoutALease, setup(&[2], 1, Faults { refusals: 1, ..absences }), BUDGET),
        (Mutant::LeavesWithoutTime, setup(&[2], 1, Faults { refusals: 1, ..departures }), BUDGET),
        (Mutant::LeavesWithoutALease, setup(&[2], 1, Faults { refusals: 1, ..departures }), BUDGET),
        (Mutant::ForgetsTheFailure, setup(&[1], 1, failures), AWAKE),
        (Mutant::OffersAnEarlierHold, setup(&[1], 1, NONE), PRESENT),
        (Mutant::ForgetsToContendAgain, setup(&[2], 0, NONE), AWAKE),
        (Mutant::RetiresThoughWanted, setup(&[2], 1, departures), PLACE),
        (Mutant::TriesBesideTheLine, setup(&[2], 1, tries), ORDER),
        (Mutant::WakesOnlyTheFirst, setup(&[2], 1, failures), AWAKE),
        (Mutant::TakesALostHold, setup(&[1], 1, lapses), FRESH),
        (Mutant::PutsBackAtTheEnd, setup(&[2], 1, lapses), ORDER),
        (Mutant::ForgetsToPutBack, setup(&[1], 1, lapses), AWAKE),
        (Mutant::ForgetsToContendForThePutBack, setup(&[1], 1, lapses), AWAKE),
        (Mutant::ForgetsTheAbsent, setup(&[1], 1, absences), AWAKE),
        (Mutant::KeepsTheFirstWaker, setup(&[1], 1, absences), AWAKE),
        (Mutant::ContendsForEach, setup(&[2], 1, NONE), ONE_CONTENDER),
        (Mutant::KeepsALostOffer, setup(&[1], 1, lapses), CLEAN),
        (Mutant::LeavesTheNodeOfALostHold, setup(&[1], 1, lapses), CLEAN),
        (Mutant::NeverRetires, setup(&[1], 1, departures), WANTED),
    ];
    for (mutant, setup, rule) in cases.clone() {
        println!("{mutant:?}: {rule}");
        refute(mutated(mutant, setup), rule);
    }
    for mutant in 0..Mutant::COUNT {
        assert!(cases.iter().any(|(it, ..)| *it as usize == mutant), "mutant {mutant} has no setup");
    }
}
