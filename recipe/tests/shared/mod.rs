//! Every order in which a few contenders of zklock's and of another client can act in one queue, with the production
//! [`Acquisition`](zklock_recipe::acquisition::Acquisition) in the middle: with
//! [`Takeover::Mixed`](zklock_recipe::Takeover::Mixed), or with `Reentrant` where one of theirs is a writer that reads as well.
//!
//! The other client's contenders have no lease. If a session of theirs expires, its contender goes on believing that it holds the
//! lock. The takeover delay outlasts that: this is what the user promises, and nothing else tells zklock of it. A server's answer
//! arrives at once here, and the next request at any time. What a broken connection leaves behind is another model's subject.
//!
//! The model found four flaws, and a reader of the code one. They are frozen below.

mod contender;
mod contest;
mod foreigner;
mod queue;
mod run;
mod setup;

use crate::world::exploration::{Setup as _, State, explored, next, refute_each, take};
use contest::{CLEAN, OURS, SERVED, THEIRS, TOUCHED, breach};
use run::Step;
use setup::{Fault, Fault::*, Habit, Habit::*, Mutant, Setup, Witness::*};
use zklock_recipe::{Kind, Layout, Patience};

const W: Kind = Kind::Exclusive;
const R: Kind = Kind::Shared;

/// These contenders of zklock's, and these of the other client, in the layout that all of these have.
fn setup(ours: &[Kind], theirs: &[Habit], faults: &[Fault]) -> Setup {
    let (foreigners, faults) = (theirs.to_vec(), faults.to_vec());
    let contenders = ours.iter().map(|kind| (*kind, Patience::Wait)).collect();
    let layout = match theirs {
        _ if theirs.contains(&Both) => Layout::CuratorReadWrite,
        _ if ours.contains(&R) || theirs.contains(&Shared) => Layout::Kazoo,
        _ => Layout::CuratorMutex,
    };
    Setup { contenders, foreigners, layout, traced: true, faults, mutant: None }
}

/// zklock may not write to the directory.
fn untraced(setup: Setup) -> Setup {
    Setup { traced: false, ..setup }
}

/// The last one of zklock's only tries.
fn tries(mut setup: Setup) -> Setup {
    setup.contenders.last_mut().into_iter().for_each(|(_, patience)| *patience = Patience::Try);
    setup
}

explored! {
    mutexes_contend:
        setup(&[W, W], &[Exclusive], &[Vanishing]), 1_798,
            [OursAfterTheirs, TheirsAfterOurs, NewcomerAtOnce, WaiterAtOnce, Delayed, DelayOutlasted],
        setup(&[W, W], &[Exclusive, Exclusive], &[Vanishing, Vanishing]), 22_878,
            [OursAfterTheirs, TheirsAfterOurs, NewcomerAtOnce, WaiterAtOnce, ListerAtOnce, DelayOutlasted];
    waiters_give_up:
        setup(&[W, W, W], &[Exclusive], &[Vanishing, Departure]), 151_788,
            [GaveUp, NewcomerAtOnce, WaiterAtOnce, ListerAtOnce, DelayOutlasted];
    sessions_of_both_expire:
        setup(&[W, W], &[Exclusive], &[Vanishing, Expiry, Departure]), 7_311,
            [Expired, GaveUp, DelayOutlasted, TheirsAfterOurs];
    connections_break:
        setup(&[W, W], &[Exclusive], &[Vanishing, Break, Break]), 14_375,
            [NodeFound, NodeNotFound, RemovalFoundDone, NewcomerAtOnce, ListerAtOnce, DelayOutlasted],
        setup(&[W, W], &[Exclusive], &[Vanishing, Expiry, Break]), 10_070,
            [Expired, NodeFound, NodeNotFound, RemovalFoundDone, NewcomerAtOnce, DelayOutlasted];
    the_directory_is_reaped:
        setup(&[W, W], &[Exclusive, Exclusive], &[Vanishing, Reap, Reap]), 35_323,
            [DirectoryMadeAgain, NewcomerAtOnce, DelayOutlasted];
    readers_and_writers_contend:
        setup(&[W, R], &[Both, Shared], &[Vanishing, Vanishing]), 84_756,
            [HeldTogether, WaitedForTheSecondNode, NewcomerAtOnce, DelayOutlasted],
        setup(&[W, R, W], &[Both], &[Vanishing, Departure]), 412_495,
            [HeldTogether, WaitedForTheSecondNode, ListerAtOnce, DelayOutlasted];
    releases_leave_no_trace:
        untraced(setup(&[W, W], &[Exclusive, Exclusive], &[Vanishing, Vanishing])), 21_064,
            [OursAfterTheirs, TheirsAfterOurs, WaiterAtOnce, DelayOutlasted];
    operators_delete_nodes:
        setup(&[W, W], &[Exclusive], &[Vanishing, Eviction]), 2_548, [Evicted, WaiterAtOnce, DelayOutlasted],
        setup(&[W, W], &[Exclusive, Exclusive], &[Eviction, Reap]), 17_349, [Evicted, ListerAtOnce, DirectoryMadeAgain];
    waiters_are_asked_to_leave:
        setup(&[W, W], &[Exclusive], &[Vanishing, Revocation]), 3_351,
            [Displaced, NewcomerAtOnce, ListerAtOnce, DelayOutlasted],
        setup(&[W, R, W], &[Both], &[Revocation, Revocation]), 198_723, [Displaced, HeldTogether];
    one_that_only_tries_does_not_delay:
        tries(setup(&[W, W], &[Exclusive], &[Vanishing, Break])), 5_656, [FoundBusy, NewcomerAtOnce, DelayOutlasted];
}

/// Each with a setup in which it must be caught, and the rule that it breaks.
#[test]
fn each_mutant_is_caught() {
    let one = || setup(&[W], &[Exclusive], &[Vanishing]);
    refute_each([
        (Mutant::DelaysAsInItsOwnQueue, one(), THEIRS),
        (Mutant::TakesOverAtOnce, one(), THEIRS),
        (Mutant::DelaysTooShort, one(), THEIRS),
        (Mutant::ForgetsTheNumber, setup(&[W, W], &[Exclusive], &[Vanishing]), THEIRS),
        (Mutant::TrustsANewDirectory, setup(&[W], &[Exclusive], &[Vanishing, Reap]), THEIRS),
        (Mutant::TrustsAnotherDirectory, setup(&[W, W], &[Exclusive], &[Vanishing, Reap]), THEIRS),
        (Mutant::TakesEachListingForOneAfterARelease, one(), THEIRS),
        (Mutant::TakesForeignEndsForReleases, one(), THEIRS),
        (
            Mutant::TakesEachEndOfOursForARelease,
            setup(&[W, W], &[Exclusive], &[Vanishing, Departure]),
            THEIRS,
        ),
        (Mutant::RemembersWhoIsInFront, setup(&[W], &[Both], &[]), THEIRS),
        (Mutant::TrustsWithoutATrace, untraced(one()), THEIRS),
        (Mutant::GivesUpByATracedRelease, setup(&[W, W], &[Exclusive], &[Vanishing, Departure]), THEIRS),
        (Mutant::TracesReaders, setup(&[W, R], &[Shared], &[Vanishing]), THEIRS),
        (Mutant::SkipsTheReview, setup(&[W], &[Both], &[Vanishing, Rejoining]), THEIRS),
        (Mutant::TrustsItsNode, setup(&[W, W], &[Exclusive], &[Eviction]), THEIRS),
        (Mutant::KeepsAWrittenNode, setup(&[W], &[Exclusive], &[Revocation]), TOUCHED),
        (Mutant::KeepsAWrittenNode, setup(&[W, W], &[], &[Revocation]), TOUCHED),
        (Mutant::PassesOursOver, setup(&[W], &[Exclusive], &[]), THEIRS),
        (Mutant::OutlivesItsSession, setup(&[W], &[Exclusive], &[Expiry]), THEIRS),
        (Mutant::OutlivesItsSession, setup(&[W, W], &[], &[Expiry]), OURS),
        (Mutant::LeavesItsNode, setup(&[W], &[Exclusive], &[Departure]), CLEAN),
        (Mutant::LeavesItsNode, setup(&[W, W], &[Exclusive], &[Departure]), SERVED),
        (Mutant::ForgetsThatItsWatchIsLost, setup(&[W], &[Exclusive], &[Break]), SERVED),
    ]);
}

/// Takes these steps, each of which is possible.
fn replay(setup: &Setup, steps: &[Step]) -> State<Setup> {
    let mut state = setup.first();
    for step in steps {
        assert!(next(setup, &state).contains(step), "{step:?} is not possible in {state:#?}");
        take(setup, &mut state, *step, &|_| {});
    }
    state
}

/// A reader of the other client's vanishes while a reader of ours holds the lock as well. If our reader's release leaves a trace, a
/// writer of ours takes that for proof that nobody holds the lock.
#[test]
fn frozen_a_reader_released_last_beside_one_that_vanished() {
    let steps = [Step::Come(0), Step::Look(0), Step::Begin(0)];
    let steps = steps.into_iter().chain([Step::Serve(0); 3]).chain([
        Step::Delayed(0),
        Step::Serve(0),
        Step::Serve(0),
    ]);
    let steps = steps.chain([Step::Vanish(0), Step::Release(0), Step::Serve(0), Step::Begin(1)]);
    let steps = steps.chain([Step::Serve(1); 3]).collect::<Vec<_>>();
    let setup = setup(&[R, W], &[Shared], &[Vanishing]);
    assert_eq!(breach(&replay(&setup, &steps)), None);
    assert_eq!(breach(&replay(&setup.mutated(Mutant::TracesReaders), &steps)), Some(THEIRS));
}

/// As that, and the writer has waited: a listing shows it our reader's release.
#[test]
fn frozen_a_listing_shows_the_release_of_a_reader_beside_one_that_vanished() {
    let steps = [Step::Come(0), Step::Look(0), Step::Begin(0)];
    let steps = steps.into_iter().chain([Step::Serve(0); 3]).chain([
        Step::Delayed(0),
        Step::Serve(0),
        Step::Serve(0),
    ]);
    let steps = steps.chain([Step::Begin(1)]).chain([Step::Serve(1); 4]);
    let steps =
        steps.chain([Step::Vanish(0), Step::Release(0), Step::Serve(0), Step::Notice(1), Step::Serve(1)]);
    let steps = steps.collect::<Vec<_>>();
    let setup = setup(&[R, W], &[Shared], &[Vanishing]);
    assert_eq!(breach(&replay(&setup, &steps)), None);
    let steps = [steps, vec![Step::Serve(1)]].concat();
    assert_eq!(breach(&replay(&setup.mutated(Mutant::TracesReaders), &steps)), Some(THEIRS));
}

/// Between a contender's look at the free directory and its create, the directory is removed and made again. The number that the
/// look announced is given in the new one as well, behind a contender of the other client's that has vanished.
#[test]
fn frozen_the_number_of_another_directory() {
    let steps = [Step::Begin(0)].into_iter().chain([Step::Serve(0); 3]);
    let steps =
        steps.chain([Step::Delayed(0), Step::Serve(0), Step::Serve(0), Step::Release(0), Step::Serve(0)]);
    let steps = steps.chain([
        Step::Begin(1),
        Step::Serve(1),
        Step::Reap,
        Step::Come(0),
        Step::Look(0),
        Step::Vanish(0),
    ]);
    let steps = steps.chain([Step::Serve(1); 2]).collect::<Vec<_>>();
    let setup = setup(&[W, W], &[Exclusive], &[Vanishing, Reap]);
    assert_eq!(breach(&replay(&setup, &steps)), None);
    assert_eq!(breach(&replay(&setup.mutated(Mutant::TrustsAnotherDirectory), &steps)), Some(THEIRS));
}

/// Curator asks the thread, not the server, whether a writer holds the lock. So a writer whose session has expired, and which has not
/// noticed that, makes its reader's node in the next session, and holds the lock as a reader with that node. A contender that
/// delays meanwhile lists the queue again after its delay.
#[test]
fn frozen_a_lower_reader_comes_during_the_delay() {
    let steps = [Step::Come(0), Step::Look(0), Step::Vanish(0), Step::Begin(0)];
    let steps = steps.into_iter().chain([Step::Serve(0); 3]);
    let steps =
        steps.chain([Step::Rejoin(0), Step::Delayed(0), Step::Serve(0), Step::Serve(0)]).collect::<Vec<_>>();
    let setup = setup(&[W], &[Both], &[Vanishing, Rejoining]);
    assert_eq!(breach(&replay(&setup, &steps)), None);
}

/// An operator deletes a waiter's node, and nobody tells the waiter. The release of its predecessor would grant it, and its successor, too.
/// So the waiter asks a quorum for its node first.
#[test]
fn frozen_a_waiter_whose_node_was_deleted_hears_of_a_release() {
    let steps = [Step::Begin(0)].into_iter().chain([Step::Serve(0); 3]).chain([
        Step::Delayed(0),
        Step::Serve(0),
        Step::Serve(0),
    ]);
    let steps = steps.chain([Step::Begin(1)]).chain([Step::Serve(1); 4]);
    let steps = steps.chain([Step::Evict(1), Step::Come(0), Step::Release(0), Step::Serve(0), Step::Look(0)]);
    let steps = steps.chain([Step::Notice(1), Step::Serve(1)]).collect::<Vec<_>>();
    let setup = setup(&[W, W], &[Exclusive], &[Eviction]);
    assert_eq!(breach(&replay(&setup, &steps)), None);
    assert_eq!(breach(&replay(&setup.mutated(Mutant::TrustsItsNode), &steps)), Some(THEIRS));
}

/// An operator deletes a waiter's node, and the directory is removed and made again. A mutex has the waiter's number there. A listing
/// shows that name first, after the release of another contender of ours. So the waiter asks a quorum for its node first.
#[test]
fn frozen_a_listing_shows_another_node_by_the_name_of_a_waiters() {
    let steps = [Step::Come(0), Step::Look(0), Step::Begin(1)].into_iter().chain([Step::Serve(1); 4]);
    let steps = steps.chain([Step::Evict(1), Step::Leave(0), Step::Reap, Step::Begin(0)]);
    let steps = steps.chain([Step::Serve(0); 6]).chain([Step::Delayed(0), Step::Serve(0), Step::Serve(0)]);
    let steps = steps.chain([Step::Come(1), Step::Release(0), Step::Serve(0)]);
    let steps = steps.chain([Step::Notice(1), Step::Serve(1), Step::Serve(1), Step::Look(1)]);
    let steps = steps.collect::<Vec<_>>();
    let setup = setup(&[W, W], &[Exclusive, Exclusive], &[Eviction, Reap]);
    assert_eq!(breach(&replay(&setup, &steps)), None);
    assert_eq!(breach(&replay(&setup.mutated(Mutant::TrustsItsNode), &steps)), Some(THEIRS));
}

explored! {
    #[cfg(not(debug_assertions))]
    three_mutexes_and_two_of_the_other_client:
        setup(&[W, W, W], &[Exclusive, Exclusive], &[Vanishing, Vanishing, Departure, Reap]), 4_348_443,
        [NewcomerAtOnce, WaiterAtOnce, ListerAtOnce, DelayOutlasted, DirectoryMadeAgain, GaveUp];
    #[cfg(not(debug_assertions))]
    readers_and_writers_under_every_fault:
        setup(&[W, R, W], &[Both, Shared], &[Vanishing, Break, Expiry]), 14_706_043,
        [HeldTogether, WaitedForTheSecondNode, ListerAtOnce, DelayOutlasted, NodeFound, Expired];
}
