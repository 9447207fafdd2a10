//! Every order in which a few contenders of a semaphore or of slots, their servers and an operator can act, with the production
//! [`Admission`](zklock_recipe::admission::Admission) in the middle.
//!
//! The turnstile is a lock, and a permit is released and lost as a lock is: the other model shows that. Here each contender that
//! holds the turnstile runs the shipped machine: the world carries out what it asks for, loses connections, and lets callers go.
//! A contender that has lost the turnstile queues again once the background has settled what it left.

mod contender;
mod contest;
mod pool;
mod run;
mod setup;

use crate::world::exploration::{explored, refute_each};
use contest::{CLEAN, DELAYED, ENDED, KEPT, ONCE, ORDER, PATIENT, REAL, SERVED, WITHIN};
use setup::{Fault, Fault::*, Mutant, Setup, Witness::*};
use zklock_recipe::{Patience, Stock, Takeover, Wish};

fn setup(weights: &[u32], capacity: u32, faults: &[Fault]) -> Setup {
    let wish = |weight: &u32| (Wish::Permit(*weight), Patience::Wait);
    let wishes = weights.iter().map(wish).collect();
    let (stock, takeover) = (Stock::Permits(capacity), Takeover::AtOnce);
    Setup { wishes, stock, takeover, following: Vec::new(), faults: faults.to_vec(), mutant: None }
}

fn delayed(weights: &[u32], capacity: u32, faults: &[Fault]) -> Setup {
    Setup { takeover: Takeover::Delayed, ..setup(weights, capacity, faults) }
}

fn slots(preferred: &[Option<u32>], count: u32, faults: &[Fault]) -> Setup {
    let wishes = preferred.iter().map(|index| (Wish::Slot(*index), Patience::Wait)).collect();
    Setup { wishes, stock: Stock::Slots(count), ..setup(&[], 0, faults) }
}

/// The servers of these contenders are behind.
fn behind(following: &[usize], setup: Setup) -> Setup {
    Setup { following: following.to_vec(), ..setup }
}

/// The last contender only tries.
fn tries(mut setup: Setup) -> Setup {
    setup.wishes.last_mut().into_iter().for_each(|(_, patience)| *patience = Patience::Try);
    setup
}

explored! {
    three_contenders_share_a_capacity:
        setup(&[1, 2, 1], 2, &[]), 1_416, [Waited, HeldTogether, LargeHeld, FoundRoomAtTheWatch],
        setup(&[1, 2, 3, 1], 3, &[]), 20_293, [Waited, HeldTogether, LargeHeld, FoundRoomAtTheWatch];
    connections_break: setup(&[1, 2, 1], 2, &[Break, Break, Late]), 93_902,
        [Adopted, NotCommitted, StrayApplied, StrayRefused, LateApplied];
    sessions_end: setup(&[1, 2, 1], 2, &[Expiry, Expiry, Break]), 219_047, [Expired, Adopted, Waited];
    callers_go: setup(&[1, 2, 1], 2, &[Departure, Break, Late]), 358_733, [GivenBack, LateApplied];
    servers_are_behind: behind(&[0, 1], setup(&[2, 1, 1], 2, &[Break])), 43_116,
        [AnsweredFromThePast, SentInVain];
    an_operator_deletes_permits_and_contenders:
        setup(&[1, 2, 1], 2, &[Eviction, Displacement, Break]), 474_559, [Told, QueuedAgain, Adopted];
    an_operator_changes_the_capacity: setup(&[2, 1, 1], 2, &[Change, Change, Break]), 227_152,
        [SentInVain, Refused, HeldTogether];
    /// No server is behind here: what it shows too long is waited for too long.
    contenders_delay_their_takeover:
        delayed(&[1, 2, 1], 2, &[Expiry, Expiry, Break]), 740_928,
            [Delayed, VanishedInTheDelay, AttemptedAtOnce, Expired],
        delayed(&[1, 2, 1], 2, &[Expiry, Eviction, Departure]), 1_469_572,
            [Delayed, VanishedInTheDelay, AttemptedAtOnce, Expired],
        delayed(&[1, 1], 2, &[Expiry, Eviction, Break, Late, Change]), 380_201,
            [Delayed, VanishedInTheDelay, AttemptedAtOnce, Expired];
    an_operator_writes_to_contenders: setup(&[1, 2], 2, &[Touch, Break, Late]), 5_062,
        [FoundTouched, QueuedAgain, LateApplied];
    one_that_only_tries_does_not_wait:
        tries(setup(&[1, 2, 1], 2, &[Expiry, Break])), 57_469, [FoundBusy, HeldTogether, Adopted],
        tries(delayed(&[1, 1], 2, &[Expiry, Break])), 4_984, [FoundBusy, AttemptedAtOnce];
    slots_are_held_once_each: slots(&[None, Some(0), Some(1)], 2, &[Break, Eviction, Change]), 482_613,
        [TookAnotherSlot, HeldTogether, SentInVain];
}

/// Each with a setup in which it must be caught, and the rule that it breaks.
#[test]
fn each_mutant_is_caught() {
    refute_each([
        (Mutant::IgnoresTheVersion, behind(&[1], setup(&[2, 1], 2, &[])), WITHIN),
        (Mutant::IgnoresTheVersion, setup(&[2], 2, &[Change]), KEPT),
        (Mutant::SumsCounts, setup(&[2, 1], 2, &[]), WITHIN),
        (Mutant::ListsBeforeItReads, behind(&[1], setup(&[2, 1], 2, &[])), WITHIN),
        (Mutant::CountsItself, setup(&[2], 2, &[]), SERVED),
        (Mutant::TrustsItsFirstLook, setup(&[2, 1], 2, &[]), SERVED),
        (Mutant::WatchesPermitsOnly, setup(&[2, 1], 2, &[Change]), SERVED),
        (Mutant::ForgetsThatItsWatchIsLost, setup(&[2, 1], 2, &[Break]), SERVED),
        (Mutant::IgnoresTheTurnstile, setup(&[1, 1], 2, &[Displacement]), ORDER),
        (Mutant::PassesTheLarge, setup(&[1, 2, 1], 2, &[]), ORDER),
        (Mutant::IgnoresTheTurnstile, setup(&[1], 2, &[Break, Late, Late, Departure]), CLEAN),
        (Mutant::TriesAgain, setup(&[1], 2, &[Break]), ONCE),
        (Mutant::OutlivesItsSession, setup(&[1], 1, &[Expiry]), REAL),
        (Mutant::TakesUnknownForFailed, setup(&[1], 2, &[Break]), CLEAN),
        (Mutant::SettlesInTheWrongOrder, setup(&[1], 2, &[Break]), CLEAN),
        (Mutant::DropsItsAttempt, setup(&[1], 2, &[Departure]), CLEAN),
        (Mutant::ForgetsItsDoubt, setup(&[1], 2, &[Break, Late, Departure]), CLEAN),
        (Mutant::GivesItsDoubtUp, setup(&[1], 2, &[Break, Break, Late, Departure]), CLEAN),
        (Mutant::StopsAtSilence, setup(&[1], 2, &[Break, Break]), ENDED),
        (Mutant::ForgetsThatItsCallerHasGone, setup(&[1], 2, &[Departure]), CLEAN),
        (Mutant::WaitsThoughItTries, tries(delayed(&[1, 1], 2, &[Break])), PATIENT),
        (Mutant::TakesGoneForFailed, setup(&[1], 2, &[Break, Late]), CLEAN),
        (Mutant::TakesTouchedForGone, setup(&[1], 2, &[Touch]), SERVED),
        (Mutant::WaitsThoughItTries, tries(setup(&[2, 1], 2, &[])), PATIENT),
        (Mutant::IgnoresTheVersion, behind(&[1], slots(&[None, None], 2, &[])), WITHIN),
        (Mutant::ForgetsTheTurnstile, delayed(&[2, 1, 1], 2, &[Eviction]), DELAYED),
        (Mutant::ForgetsThatItWaited, delayed(&[2, 1], 2, &[Eviction]), DELAYED),
        (Mutant::ForgetsItsAttempt, delayed(&[1, 1], 2, &[Eviction, Change, Break]), DELAYED),
        (Mutant::LooksAfterItsDelay, delayed(&[1, 1, 1], 2, &[Eviction, Change]), DELAYED),
    ]);
}

explored! {
    #[cfg(not(debug_assertions))]
    contenders_delay_their_takeover_while_an_operator_deletes_what_he_likes:
        delayed(&[1, 2, 1], 2, &[Expiry, Eviction, Displacement]), 1_888_922,
        [Delayed, VanishedInTheDelay, AttemptedAtOnce, QueuedAgain];
    /// Nearly everything at once.
    #[cfg(not(debug_assertions))]
    two_contenders_with_every_fault:
        setup(&[1, 2], 2, &[Break, Late, Expiry, Departure, Eviction, Displacement, Change]), 8_083_128,
        [LateApplied, GivenBack, Told, QueuedAgain];
    #[cfg(not(debug_assertions))]
    two_contenders_one_of_them_at_a_server_that_is_behind:
        behind(&[1], setup(&[1, 2], 2, &[Break, Break, Late, Departure, Change])), 1_291_789,
        [LateApplied, GivenBack, AnsweredFromThePast, SentInVain];
}
