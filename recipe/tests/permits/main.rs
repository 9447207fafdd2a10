//! Every order in which a few contenders of a semaphore, their servers and an operator can act, with the production
//! [`rule`](zklock_recipe::rule) in the middle.
//!
//! The turnstile is a lock, and a permit is released and lost as a lock is: the other model shows that. Here a contender looks
//! at the permits, watches them, sends its transaction, and finds out what became of it. As in the other models, each
//! exploration ends, the number of its states is pinned, and each rule is broken once, to see the model fail.

#[path = "../exploration/mod.rs"]
mod exploration;

mod contest;
mod run;
mod world;

use contest::{CLEAN, DELAYED, ONCE, ORDER, REAL, SERVED, WITHIN};
use exploration::{explore, refute};
use world::{Faults, Mutant, Setup, Witness::*};

fn setup(weights: &'static [u32], capacity: u32, faults: Faults) -> Setup {
    Setup { weights, capacity, delayed: false, faults, mutant: None }
}

fn delayed(weights: &'static [u32], capacity: u32, faults: Faults) -> Setup {
    Setup { delayed: true, ..setup(weights, capacity, faults) }
}

const NONE: Faults = Faults {
    breaks: 0,
    late: 0,
    expiries: 0,
    stale: 0,
    departures: 0,
    evictions: 0,
    displacements: 0,
    changes: 0,
};

#[test]
fn three_contenders_share_a_capacity() {
    let occurrences = [Waited, HeldTogether, LargeHeld, FoundRoomAtTheWatch];
    explore(setup(&[1, 2, 1], 2, NONE), 419, &occurrences);
    explore(setup(&[1, 2, 3, 1], 3, NONE), 3_815, &occurrences);
}

#[test]
fn connections_break() {
    let faults = Faults { breaks: 2, late: 1, ..NONE };
    explore(
        setup(&[1, 2, 1], 2, faults),
        14_342,
        &[Adopted, NotCommitted, StrayApplied, StrayRefused, LateApplied],
    );
}

#[test]
fn sessions_end() {
    let faults = Faults { expiries: 2, breaks: 1, ..NONE };
    explore(setup(&[1, 2, 1], 2, faults), 69_036, &[Expired, Adopted, Waited]);
}

#[test]
fn callers_go() {
    let faults = Faults { departures: 1, breaks: 1, late: 1, ..NONE };
    explore(setup(&[1, 2, 1], 2, faults), 18_129, &[GivenBack, LateApplied]);
}

#[test]
fn servers_are_behind() {
    let faults = Faults { stale: 2, breaks: 1, ..NONE };
    explore(setup(&[2, 1, 1], 2, faults), 9_566, &[AnsweredFromThePast, SentInVain]);
}

#[test]
fn an_operator_deletes_permits_and_contenders() {
    let faults = Faults { evictions: 1, displacements: 1, breaks: 1, ..NONE };
    explore(setup(&[1, 2, 1], 2, faults), 104_283, &[Told, QueuedAgain, Adopted]);
}

#[test]
fn an_operator_changes_the_capacity() {
    let faults = Faults { changes: 2, breaks: 1, ..NONE };
    explore(setup(&[2, 1, 1], 2, faults), 27_604, &[SentInVain, Refused, HeldTogether]);
}

/// No server is behind here: what it shows too long is waited for too long.
#[test]
fn contenders_delay_their_takeover() {
    let occurrences = [Delayed, VanishedInTheDelay, AdmittedAtOnce, Expired];
    explore(delayed(&[1, 2, 1], 2, Faults { expiries: 2, breaks: 1, ..NONE }), 496_541, &occurrences);
    let faults = Faults { expiries: 1, evictions: 1, departures: 1, ..NONE };
    explore(delayed(&[1, 2, 1], 2, faults), 236_579, &occurrences);
    let faults = Faults { expiries: 1, evictions: 1, breaks: 1, late: 1, changes: 1, ..NONE };
    explore(delayed(&[1, 1], 2, faults), 187_723, &occurrences);
}

/// Each with a setup in which it must be caught, and the rule that it breaks.
#[test]
fn each_mutant_is_caught() {
    let cases = [
        (Mutant::IgnoresTheVersion, setup(&[2, 1], 2, Faults { stale: 2, ..NONE }), WITHIN),
        (Mutant::IgnoresTheVersion, setup(&[2], 2, Faults { changes: 1, ..NONE }), WITHIN),
        (Mutant::SumsCounts, setup(&[2, 1], 2, NONE), WITHIN),
        (Mutant::ListsBeforeItReads, setup(&[2, 1], 2, Faults { stale: 2, ..NONE }), WITHIN),
        (Mutant::CountsItself, setup(&[2], 2, NONE), SERVED),
        (Mutant::TrustsItsFirstLook, setup(&[2, 1], 2, NONE), SERVED),
        (Mutant::WatchesPermitsOnly, setup(&[2, 1], 2, Faults { changes: 1, ..NONE }), SERVED),
        (Mutant::ForgetsThatItsWatchIsLost, setup(&[2, 1], 2, Faults { breaks: 1, ..NONE }), SERVED),
        (Mutant::IgnoresTheTurnstile, setup(&[1, 1], 2, Faults { displacements: 1, ..NONE }), ORDER),
        (Mutant::PassesTheLarge, setup(&[1, 2, 1], 2, NONE), ORDER),
        (
            Mutant::IgnoresTheTurnstile,
            setup(&[1], 2, Faults { breaks: 1, late: 1, departures: 1, ..NONE }),
            ORDER,
        ),
        (Mutant::TriesAgain, setup(&[1], 2, Faults { breaks: 1, ..NONE }), ONCE),
        (Mutant::OutlivesItsSession, setup(&[1], 1, Faults { expiries: 1, ..NONE }), REAL),
        (Mutant::TakesUnknownForFailed, setup(&[1], 2, Faults { breaks: 1, ..NONE }), CLEAN),
        (Mutant::SettlesInTheWrongOrder, setup(&[1], 2, Faults { breaks: 1, ..NONE }), CLEAN),
        (Mutant::DropsItsAttempt, setup(&[1], 2, Faults { departures: 1, ..NONE }), CLEAN),
        (
            Mutant::ForgetsItsDoubt,
            setup(&[1], 2, Faults { breaks: 1, late: 1, departures: 1, ..NONE }),
            CLEAN,
        ),
        (Mutant::ForgetsTheTurnstile, delayed(&[2, 1, 1], 2, Faults { evictions: 1, ..NONE }), DELAYED),
        (Mutant::ForgetsThatItWaited, delayed(&[2, 1], 2, Faults { evictions: 1, ..NONE }), DELAYED),
        (
            Mutant::ForgetsItsAttempt,
            delayed(&[1, 1], 2, Faults { evictions: 1, changes: 1, breaks: 1, ..NONE }),
            DELAYED,
        ),
        (
            Mutant::LooksAfterItsDelay,
            delayed(&[1, 1, 1], 2, Faults { evictions: 1, changes: 1, ..NONE }),
            DELAYED,
        ),
    ];
    for (mutant, setup, rule) in cases {
        println!("{mutant:?}: {rule}");
        refute(Setup { mutant: Some(mutant), ..setup }, rule);
    }
}

#[cfg(not(debug_assertions))]
#[test]
fn contenders_delay_their_takeover_while_an_operator_deletes_what_he_likes() {
    let faults = Faults { expiries: 1, evictions: 1, departures: 1, displacements: 1, ..NONE };
    explore(
        delayed(&[1, 2, 1], 2, faults),
        3_211_619,
        &[Delayed, VanishedInTheDelay, AdmittedAtOnce, QueuedAgain],
    );
}

/// The largest: nearly everything at once.
#[cfg(not(debug_assertions))]
#[test]
fn two_contenders_with_every_fault() {
    let faults = Faults {
        breaks: 2,
        late: 1,
        expiries: 1,
        stale: 1,
        departures: 1,
        evictions: 1,
        displacements: 1,
        changes: 1,
    };
    explore(
        setup(&[1, 2], 2, faults),
        8_270_873,
        &[LateApplied, GivenBack, Told, QueuedAgain, AnsweredFromThePast],
    );
}
