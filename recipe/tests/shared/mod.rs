//! Every order in which a few contenders of zklock's and of another client can act in one queue, with the production
//! [`Acquisition`](zklock_recipe::acquisition::Acquisition) in the middle, and with its
//! [`Takeover::Mixed`](zklock_recipe::Takeover::Mixed).
//!
//! The other client's contenders have no lease. If a session of theirs expires, its contender goes on believing that it holds the
//! lock. The takeover delay outlasts that: this is what the user promises, and nothing else tells zklock of it. A server's answer
//! arrives at once here, and the next request at any time. What a broken connection leaves behind is another model's subject.
//!
//! The model found two flaws, and a reader of the code one. They are frozen below.

mod contender;
mod contest;
mod foreigner;
mod queue;
mod run;
mod setup;

use crate::world::exploration::{Setup as _, State, explored, next, refute_each, take};
use contest::{CLEAN, OURS, SERVED, THEIRS, TOUCHED, breach};
use setup::{Fault, Fault::*, Mutant, Setup, Witness::*};
use zklock_recipe::Patience;

/// So many contenders of zklock's, and so many of the other client.
fn setup(ours: usize, theirs: usize, faults: &[Fault]) -> Setup {
    let contenders = vec![Patience::Wait; ours];
    Setup { contenders, foreigners: theirs, traced: true, faults: faults.to_vec(), mutant: None }
}

/// zklock may not write to the directory.
fn untraced(setup: Setup) -> Setup {
    Setup { traced: false, ..setup }
}

/// The last one of zklock's only tries.
fn tries(mut setup: Setup) -> Setup {
    setup.contenders.last_mut().into_iter().for_each(|patience| *patience = Patience::Try);
    setup
}

explored! {
    mutexes_contend:
        setup(2, 1, &[Vanishing]), 1_622,
            [OursAfterTheirs, TheirsAfterOurs, NewcomerAtOnce, WaiterAtOnce, Delayed, DelayOutlasted],
        setup(2, 2, &[Vanishing, Vanishing]), 20_029,
            [OursAfterTheirs, TheirsAfterOurs, NewcomerAtOnce, WaiterAtOnce, ListerAtOnce, DelayOutlasted];
    waiters_give_up:
        setup(3, 1, &[Vanishing, Departure]), 137_462,
            [GaveUp, NewcomerAtOnce, WaiterAtOnce, ListerAtOnce, DelayOutlasted];
    sessions_of_both_expire:
        setup(2, 1, &[Vanishing, Expiry, Departure]), 6_725,
            [Expired, GaveUp, DelayOutlasted, TheirsAfterOurs];
    connections_break:
        setup(2, 1, &[Vanishing, Break, Break]), 13_411,
            [NodeFound, NodeNotFound, RemovalFoundDone, NewcomerAtOnce, ListerAtOnce, DelayOutlasted],
        setup(2, 1, &[Vanishing, Expiry, Break]), 9_284,
            [Expired, NodeFound, NodeNotFound, RemovalFoundDone, NewcomerAtOnce, DelayOutlasted];
    the_directory_is_reaped:
        setup(2, 2, &[Vanishing, Reap, Reap]), 31_678,
            [DirectoryMadeAgain, NewcomerAtOnce, DelayOutlasted];
    releases_leave_no_trace:
        untraced(setup(2, 2, &[Vanishing, Vanishing])), 18_321,
            [OursAfterTheirs, TheirsAfterOurs, WaiterAtOnce, DelayOutlasted];
    operators_delete_nodes:
        setup(2, 1, &[Vanishing, Eviction]), 2_327, [Evicted, WaiterAtOnce, DelayOutlasted],
        setup(2, 2, &[Eviction, Reap]), 16_132, [Evicted, ListerAtOnce, DirectoryMadeAgain];
    waiters_are_asked_to_leave:
        setup(2, 1, &[Vanishing, Revocation]), 3_109,
            [Displaced, NewcomerAtOnce, ListerAtOnce, DelayOutlasted],
        setup(3, 1, &[Revocation, Revocation]), 65_591, [Displaced, WaiterAtOnce];
    one_that_only_tries_does_not_delay:
        tries(setup(2, 1, &[Vanishing, Break])), 5_326, [FoundBusy, NewcomerAtOnce, DelayOutlasted];
}

/// Each with a setup in which it must be caught, and the rule that it breaks.
#[test]
fn each_mutant_is_caught() {
    let one = || setup(1, 1, &[Vanishing]);
    refute_each([
        (Mutant::DelaysAsInItsOwnQueue, one(), THEIRS),
        (Mutant::TakesOverAtOnce, one(), THEIRS),
        (Mutant::DelaysTooShort, one(), THEIRS),
        (Mutant::ForgetsTheNumber, setup(2, 1, &[Vanishing]), THEIRS),
        (Mutant::TrustsANewDirectory, setup(1, 1, &[Vanishing, Reap]), THEIRS),
        (Mutant::TrustsAnotherDirectory, setup(2, 1, &[Vanishing, Reap]), THEIRS),
        (Mutant::TakesEachListingForOneAfterARelease, one(), THEIRS),
        (Mutant::TakesForeignEndsForReleases, one(), THEIRS),
        (Mutant::TakesEachEndOfOursForARelease, setup(2, 1, &[Vanishing, Departure]), THEIRS),
        (Mutant::TrustsWithoutATrace, untraced(one()), THEIRS),
        (Mutant::GivesUpByATracedRelease, setup(2, 1, &[Vanishing, Departure]), THEIRS),
        (Mutant::TrustsItsNode, setup(2, 1, &[Eviction]), THEIRS),
        (Mutant::KeepsAWrittenNode, setup(1, 1, &[Revocation]), TOUCHED),
        (Mutant::KeepsAWrittenNode, setup(2, 0, &[Revocation]), TOUCHED),
        (Mutant::PassesOursOver, setup(1, 1, &[]), THEIRS),
        (Mutant::OutlivesItsSession, setup(1, 1, &[Expiry]), THEIRS),
        (Mutant::OutlivesItsSession, setup(2, 0, &[Expiry]), OURS),
        (Mutant::LeavesItsNode, setup(1, 1, &[Departure]), CLEAN),
        (Mutant::LeavesItsNode, setup(2, 1, &[Departure]), SERVED),
        (Mutant::ForgetsThatItsWatchIsLost, setup(1, 1, &[Break]), SERVED),
    ]);
}

/// Takes the steps, each by its name and its contender. Every step must be possible.
fn replay(setup: &Setup, steps: &[(&str, usize)]) -> State<Setup> {
    let mut state = setup.first();
    for step in steps {
        let possible = next(setup, &state);
        let act = possible.iter().find(|act| (act.label.name, act.label.subject) == *step);
        let act = *act.unwrap_or_else(|| panic!("{step:?} is not among {possible:?}"));
        take(setup, &mut state, act, &|_| {});
    }
    state
}

/// Between a contender's look at the free directory and its create, the directory is removed and made again. The number that the
/// look announced is given in the new one as well, behind a contender of the other client's that has vanished.
#[test]
fn frozen_the_number_of_another_directory() {
    let steps = [("begin", 0)].into_iter().chain([("answer", 0); 3]);
    let steps = steps.chain([("delayed", 0), ("answer", 0), ("release", 0), ("answer", 0)]);
    let steps =
        steps.chain([("begin", 1), ("answer", 1), ("reap", 0), ("come", 0), ("look", 0), ("vanish", 0)]);
    let steps = steps.chain([("answer", 1); 2]).collect::<Vec<_>>();
    let setup = setup(2, 1, &[Vanishing, Reap]);
    assert_eq!(breach(&replay(&setup, &steps)), None);
    assert_eq!(breach(&replay(&setup.mutated(Mutant::TrustsAnotherDirectory), &steps)), Some(THEIRS));
}

/// An operator deletes a waiter's node, and nobody tells the waiter. The release of its predecessor would grant it, and its successor, too.
/// So the waiter asks a quorum for its node first.
#[test]
fn frozen_a_waiter_whose_node_was_deleted_hears_of_a_release() {
    let steps = [("begin", 0)].into_iter().chain([("answer", 0); 3]);
    let steps = steps.chain([("delayed", 0), ("answer", 0)]);
    let steps = steps.chain([("begin", 1)]).chain([("answer", 1); 4]);
    let steps = steps.chain([("evict", 1), ("come", 0), ("release", 0), ("answer", 0), ("look", 0)]);
    let steps = steps.chain([("notice", 1), ("answer", 1)]).collect::<Vec<_>>();
    let setup = setup(2, 1, &[Eviction]);
    assert_eq!(breach(&replay(&setup, &steps)), None);
    assert_eq!(breach(&replay(&setup.mutated(Mutant::TrustsItsNode), &steps)), Some(THEIRS));
}

/// An operator deletes a waiter's node, and the directory is removed and made again. A mutex has the waiter's number there. A listing
/// shows that name first, after the release of another contender of ours. So the waiter asks a quorum for its node first.
#[test]
fn frozen_a_listing_shows_another_node_by_the_name_of_a_waiters() {
    let steps = [("come", 0), ("look", 0), ("begin", 1)].into_iter().chain([("answer", 1); 4]);
    let steps = steps.chain([("evict", 1), ("leave", 0), ("reap", 0), ("begin", 0)]);
    let steps = steps.chain([("answer", 0); 6]).chain([("delayed", 0), ("answer", 0)]);
    let steps = steps.chain([("come", 1), ("release", 0), ("answer", 0)]);
    let steps = steps.chain([("notice", 1), ("answer", 1), ("answer", 1), ("look", 1)]);
    let steps = steps.collect::<Vec<_>>();
    let setup = setup(2, 2, &[Eviction, Reap]);
    assert_eq!(breach(&replay(&setup, &steps)), None);
    assert_eq!(breach(&replay(&setup.mutated(Mutant::TrustsItsNode), &steps)), Some(THEIRS));
}

explored! {
    #[cfg(not(debug_assertions))]
    three_mutexes_and_two_of_the_other_client:
        setup(3, 2, &[Vanishing, Vanishing, Departure, Reap]), 3_766_235,
            [NewcomerAtOnce, WaiterAtOnce, ListerAtOnce, DelayOutlasted, DirectoryMadeAgain, GaveUp],
        setup(3, 2, &[Vanishing, Break, Expiry]), 3_908_175,
            [NewcomerAtOnce, WaiterAtOnce, ListerAtOnce, DelayOutlasted, NodeFound, Expired];
}
