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

use crate::world::exploration::{explored, refute_each};
use contest::{
    AWAKE, BOUNDED, BUDGET, CLEAN, FRESH, HALF, IN_THE_END, ONE_CONTENDER, ONE_HOLDER, ORDER, PATIENT, PLACE,
    PRESENT, SERVED, STANDS, WANTED,
};
use world::{Fault, Fault::*, Mutant, Setup, Witness::*};

/// Processes with so many tasks, each of which wants the lock once, and a remote contender that does.
fn setup(tasks: &[usize], budget: u32, faults: &[Fault]) -> Setup {
    Setup {
        tasks: tasks.to_vec(),
        comings: 1,
        late: 0,
        remote: 1,
        budget,
        is_long: true,
        faults: faults.to_vec(),
        mutant: None,
    }
}

/// Each task wants the lock twice.
fn twice(setup: Setup) -> Setup {
    Setup { comings: 2, ..setup }
}

/// The remote contender wants the lock twice.
fn beside_one_that_comes_twice(setup: Setup) -> Setup {
    Setup { remote: 2, ..setup }
}

/// Another task comes often enough to pass the first one, which is late for ever, over in each hold.
fn beside_one_that_comes_often(faults: &[Fault]) -> Setup {
    late(1, Setup { comings: 4, remote: 0, ..setup(&[2], 1, faults) })
}

/// The time of a hold is over soon after the first offer may be withdrawn.
fn short(setup: Setup) -> Setup {
    Setup { is_long: false, ..setup }
}

/// Tasks come so often that a hold opens again with one that missed a half.
fn beside_others_that_come_often() -> Setup {
    Setup { comings: 4, remote: 0, ..setup(&[2], 0, &[Absence]) }
}

/// The first tasks are late for ever.
fn late(late: usize, setup: Setup) -> Setup {
    Setup { late, ..setup }
}

explored! {
    two_processes_pass_their_holds_on:
        setup(&[2, 2], 0, &[]), 7_404, [BudgetEnded, ContendedAgain],
        setup(&[2, 2], 1, &[]), 13_712, [PassedOn, ContendedAgain, WentBehindTheRemote],
        setup(&[2, 2], 2, &[]), 14_408, [PassedOn, ContendedAgain, WentBehindTheRemote];
    four_tasks_want_more_than_the_budget_allows:
        setup(&[4], 0, &[]), 4_638, [BudgetEnded, WentBehindTheRemote, ContendedAgain],
        setup(&[4], 1, &[]), 7_585, [BudgetEnded, WentBehindTheRemote, ContendedAgain],
        setup(&[4], 2, &[]), 8_457, [BudgetEnded, WentBehindTheRemote, ContendedAgain];
    tasks_come_again:
        beside_one_that_comes_twice(twice(setup(&[3], 0, &[]))), 10_711, [BudgetEnded, WentBehindTheRemote],
        beside_one_that_comes_twice(twice(setup(&[3], 1, &[]))), 26_711, [BudgetEnded, WentBehindTheRemote],
        beside_one_that_comes_twice(twice(setup(&[3], 2, &[]))), 37_359, [BudgetEnded, WentBehindTheRemote];
    holds_may_not_be_passed_on_for_long: setup(&[2, 2], 1, &[Refusal, Refusal]), 39_452,
        [PassedOn, PassingRefused];
    tasks_give_up:
        setup(&[3], 1, &[Departure, Departure]), 7_268,
            [LeftWhileOffered, LeftWhileOfferedToTheLast, Retired, RetireRaced, GrantedToNobody, PassedOn],
        setup(&[2, 2], 1, &[Departure]), 85_132,
            [LeftWhileOffered, LeftWhileOfferedToTheLast, Retired, RetireRaced, GrantedToNobody, PassedOn],
        twice(setup(&[2], 1, &[Departure, Departure])), 12_729,
            [LeftWhileOffered, LeftWhileOfferedToTheLast, Retired, RetireRaced, GrantedToNobody, PassedOn];
    tasks_are_not_polled:
        setup(&[3], 1, &[Absence, Absence]), 103_372,
            [PassedOver, AllPassedOver, CameBack, CameBackAlone, PassedOn, BudgetEnded],
        setup(&[2, 2], 1, &[Absence]), 160_912,
            [PassedOver, AllPassedOver, CameBack, CameBackAlone, PassedOn],
        short(setup(&[3], 1, &[Absence, Absence, Refusal])), 110_080,
            [PassedOver, PassingOverRefused, CameBack, BecameTheLast],
        setup(&[3], 1, &[Absence, Absence, Departure]), 326_710,
            [PassedOver, CameBack, LeftWhileOffered, GrantedToNobody, MissedItsHalfForNobody],
        twice(setup(&[2], 1, &[Absence, Absence, Departure, Refusal])), 659_023,
            [BecameTheLast, TheLastHadATurn, LeftWithoutTime],
        beside_others_that_come_often(), 13_361, [BecameTheLast, MissedAnotherHalf, HadAnotherHalf];
    /// Each of these explorations ends. So a task that is late for ever has its turn, whatever the others do.
    tasks_are_late_for_ever:
        late(1, twice(setup(&[1], 1, &[Refusal]))), 419, [PassedOver, AllPassedOver, CameBackAlone],
        late(1, setup(&[3], 0, &[])), 1_427, [PassedOver, HadItsHalf, HadTheRest],
        late(1, setup(&[3], 1, &[])), 2_335, [PassedOver, HadItsHalf, HadTheRest],
        late(1, setup(&[3], 2, &[])), 2_495, [PassedOver, HadItsHalf, HadTheRest],
        late(2, setup(&[3], 1, &[])), 3_870,
            [PassedOver, HadItsHalf, HadTheRest, CameBack, PassedOn, BudgetEnded],
        late(1, setup(&[2, 2], 1, &[])), 18_715, [PassedOver, HadTheRest],
        late(1, twice(setup(&[2], 1, &[Refusal]))), 9_390,
            [PassedOver, HadItsHalf, HadTheRest, CameBack, PassedOn, BudgetEnded],
        late(2, twice(setup(&[2], 1, &[]))), 3_691, [PassedOver, HadTheRest],
        beside_one_that_comes_often(&[]), 4_823, [HadItsHalfThoughAbsent, BudgetEnded],
        beside_one_that_comes_often(&[Refusal]), 20_455, [HadItsHalfThoughAbsent, MissedItsHalfThoughAbsent],
        late(1, setup(&[2], 1, &[Departure, Lapse])), 12_114,
            [PassedOver, LostWhileOffered, LeftWhileOffered];
    tasks_try:
        setup(&[3], 1, &[Try, Try, Departure]), 15_468,
            [TrySucceeded, TryFailed, TryRefused, TryDropped, TrySucceededBesideOthers, PassedOn,
             ContendedAgain],
        setup(&[2, 2], 1, &[Try]), 49_078, [TrySucceeded, TryFailed, TrySucceededBesideOthers],
        setup(&[2], 1, &[Try, Try, Departure, Lapse]), 16_668, [TrySucceeded, LostWhileTaken, TryDropped];
    leases_lapse_and_sessions_expire:
        setup(&[2, 2], 1, &[Lapse]), 374_534,
            [LostWhileOffered, LostWhileTaken, LostWhilePassed, LatePass, PutBack, PutBackAlone],
        setup(&[3], 1, &[Lapse]), 22_287,
            [LostWhileOffered, LostWhileTaken, LostWhilePassed, LatePass, PutBack, PutBackAlone,
             LatePassBesideATurn, PutBackBesideAHold, WaitedBehindItself],
        setup(&[2], 2, &[Lapse, Lapse]), 13_740, [LatePassBesideATurn, PutBackBesideAHold];
    an_operator_deletes_nodes:
        setup(&[2, 2], 1, &[Deletion]), 195_352, [LostWhileOffered, LostWhileTaken],
        setup(&[3], 1, &[Deletion, Deletion]), 56_413,
            [LostWhileOffered, LostWhileTaken, LatePassBesideATurn, PutBack, PutBackBesideAHold];
    acquisitions_fail:
        setup(&[2, 2], 1, &[Failure]), 72_492, [Failed, PassedOn],
        setup(&[3], 1, &[Failure, Departure]), 18_669, [Failed, RetireRaced],
        twice(setup(&[2], 1, &[Failure, Lapse])), 63_743, [Failed, PutBackAlone, LatePass];
    two_tasks_under_every_fault:
        setup(&[2], 1, &[Try, Departure, Absence, Lapse, Deletion, Failure, Refusal]), 811_758,
        [PassedOn, PassingRefused, PassedOver, PassingOverRefused, AllPassedOver, CameBack, CameBackAlone,
         LeftWhileOffered, LeftWhileOfferedToTheLast, LeftWithoutTime, LostWhileOffered, LostWhileTaken,
         LostWhilePassed, LatePass, LatePassBesideATurn, Retired, RetireRaced, GrantedToNobody,
         ContendedAgain, TrySucceeded, TryFailed, TryRefused, TryDropped, TrySucceededBesideOthers, PutBack,
         PutBackAlone, PutBackBesideAHold, Failed, WentBehindTheRemote, WaitedBehindItself];
}

/// Models of millions of states.
#[cfg(not(debug_assertions))]
mod at_large {
    use super::*;

    explored! {
        two_processes_whose_tasks_give_up_while_leases_lapse:
            setup(&[2, 2], 1, &[Departure, Lapse]), 1_981_890,
            [LeftWhileOffered, LatePassBesideATurn, PutBackBesideAHold];
        two_processes_whose_tasks_are_not_polled_while_leases_lapse:
            setup(&[2, 2], 1, &[Absence, Lapse]), 4_406_748,
            [PassedOver, CameBackAlone, LatePassBesideATurn, PutBack];
        two_processes_whose_nodes_are_deleted_while_leases_lapse:
            setup(&[2, 2], 1, &[Lapse, Deletion]), 3_399_072,
            [LatePassBesideATurn, PutBackBesideAHold, WaitedBehindItself];
        two_processes_whose_tasks_give_up_and_are_not_polled:
            setup(&[2, 2], 0, &[Departure, Absence]), 583_630, [LeftWhileOffered, PassedOver, CameBackAlone],
            setup(&[2, 2], 1, &[Departure, Absence]), 896_303, [LeftWhileOffered, PassedOver, CameBackAlone],
            setup(&[2, 2], 2, &[Departure, Absence]), 921_186, [LeftWhileOffered, PassedOver, CameBackAlone];
        two_processes_whose_tasks_come_again:
            beside_one_that_comes_twice(twice(setup(&[2, 2], 0, &[]))), 174_615,
                [ContendedAgain, WentBehindTheRemote, BudgetEnded],
            beside_one_that_comes_twice(twice(setup(&[2, 2], 1, &[]))), 657_516,
                [ContendedAgain, WentBehindTheRemote, BudgetEnded],
            beside_one_that_comes_twice(twice(setup(&[2, 2], 2, &[]))), 998_628,
                [ContendedAgain, WentBehindTheRemote, BudgetEnded];
        two_processes_whose_tasks_give_up_and_are_not_polled_while_leases_lapse:
            setup(&[2, 2], 1, &[Departure, Absence, Lapse]), 20_763_750,
            [PassedOver, LeftWhileOffered, LatePassBesideATurn, PutBackBesideAHold];
        two_processes_with_a_late_task_whose_others_give_up_while_leases_lapse:
            late(1, setup(&[2, 2], 1, &[Departure, Lapse])), 2_660_247,
            [PassedOver, HadTheRest, LeftWhileOffered, LatePassBesideATurn, PutBackBesideAHold];
        three_tasks_under_most_faults: setup(&[3], 1, &[Departure, Absence, Lapse, Failure]), 1_874_438,
            [LatePassBesideATurn, PutBackBesideAHold, Failed, CameBackAlone];
    }
}

/// Each with a setup in which it must be caught, and the rule that it breaks.
#[test]
fn each_mutant_is_caught() {
    let cases = [
        (Mutant::EndsTheTurnTooLate, setup(&[2], 1, &[]), ONE_HOLDER),
        (Mutant::PassesALostHold, setup(&[2], 1, &[Lapse]), FRESH),
        (Mutant::IgnoresTheHoldNumber, setup(&[3], 1, &[Lapse]), PRESENT),
        (Mutant::IgnoresTheBudget, setup(&[2], 0, &[]), BUDGET),
        (Mutant::IgnoresTheRefusal, setup(&[2], 1, &[Refusal]), BUDGET),
        (Mutant::CountsTheBudgetAnew, setup(&[3], 1, &[]), BUDGET),
        (Mutant::KeepsItsPlace, setup(&[2], 0, &[]), BOUNDED),
        (Mutant::NeverPassesOn, setup(&[2], 1, &[]), SERVED),
        (Mutant::KeepsTheOffer, setup(&[2], 1, &[Departure]), AWAKE),
        (Mutant::KeepsTheOffer, setup(&[1], 1, &[Departure]), CLEAN),
        (Mutant::NeverLooks, setup(&[2], 1, &[Absence]), AWAKE),
        (Mutant::LooksOnce, setup(&[2], 1, &[Absence]), PATIENT),
        (Mutant::PassesTheOnlyOneOver, setup(&[1], 1, &[Absence]), STANDS),
        (Mutant::PassesTheOnlyOneOver, late(1, setup(&[1], 1, &[])), IN_THE_END),
        (Mutant::NeverWaitsForTheLate, setup(&[3], 0, &[Absence, Absence]), HALF),
        (Mutant::WaitsForTheLateForTooLong, setup(&[3], 0, &[Absence, Absence]), STANDS),
        (Mutant::OpensWithoutTheAbsent, beside_one_that_comes_often(&[]), IN_THE_END),
        (Mutant::NeverForgives, beside_others_that_come_often(), ORDER),
        (Mutant::HandsOnWithoutTime, setup(&[2], 1, &[Absence, Refusal]), BUDGET),
        (Mutant::HandsOnWithoutALease, setup(&[2], 1, &[Absence, Refusal]), BUDGET),
        (Mutant::LeavesWithoutTime, setup(&[2], 1, &[Departure, Refusal]), BUDGET),
        (Mutant::LeavesWithoutALease, setup(&[2], 1, &[Departure, Refusal]), BUDGET),
        (Mutant::ForgetsTheFailure, setup(&[1], 1, &[Failure]), AWAKE),
        (Mutant::OffersAnEarlierHold, setup(&[1], 1, &[]), PRESENT),
        (Mutant::ForgetsToContendAgain, setup(&[2], 0, &[]), AWAKE),
        (Mutant::RetiresThoughWanted, setup(&[2], 1, &[Departure]), PLACE),
        (Mutant::TriesBesideTheLine, setup(&[2], 1, &[Try]), ORDER),
        (Mutant::WakesOnlyTheFirst, setup(&[2], 1, &[Failure]), AWAKE),
        (Mutant::TakesALostHold, setup(&[1], 1, &[Lapse]), FRESH),
        (Mutant::PutsBackAtTheEnd, setup(&[2], 1, &[Lapse]), ORDER),
        (Mutant::ForgetsToPutBack, setup(&[1], 1, &[Lapse]), AWAKE),
        (Mutant::ForgetsToContendForThePutBack, setup(&[1], 1, &[Lapse]), AWAKE),
        (Mutant::ForgetsTheAbsent, setup(&[1], 1, &[Absence]), AWAKE),
        (Mutant::KeepsTheFirstWaker, setup(&[1], 1, &[Absence]), AWAKE),
        (Mutant::ContendsForEach, setup(&[2], 1, &[]), ONE_CONTENDER),
        (Mutant::KeepsALostOffer, setup(&[1], 1, &[Lapse]), CLEAN),
        (Mutant::LeavesTheNodeOfALostHold, setup(&[1], 1, &[Lapse]), CLEAN),
        (Mutant::NeverRetires, setup(&[1], 1, &[Departure]), WANTED),
    ];
    for mutant in 0..Mutant::COUNT {
        assert!(cases.iter().any(|(it, ..)| *it as usize == mutant), "mutant {mutant} has no setup");
    }
    refute_each(cases);
}
