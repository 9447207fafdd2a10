//! Every order in which a few processes can claim one run and end it, with the production
//! [`Claim`](zklock_recipe::claim::Claim) and [`Ending`](zklock_recipe::ending::Ending) in the middle, while connections break,
//! callers go, guards are lost, servers are busy, an operator writes to the record, and processes die.
//!
//! Another model explores the lock: here one process at a time holds it. `claimer.rs` is the client's side: the machines, and
//! how what they ask for is performed. `record.rs` has its record on the servers of `../world/`: a write takes effect only while the guard's node is there.

mod claimer;
mod record;
mod run;
mod setup;

use crate::world::exploration::{self, Rule, explored, refute_each};
use claimer::Caller;
use record::World;
use setup::{Fault, Fault::*, Mutant, Setup, Witness::*};
use stateright::Property;
use zklock_recipe::claim::{Progress, RunEnd};

const ONCE: Rule = "without a retry a run happens at most once, and after a success never";
/// No run begins by the record while another one is under way whose guard is valid.
const ALONE: Rule = "a run is done by one at a time";
const RECORDED: Rule = "a run happens only when a record says so";
/// Unless the claim that began it was cut short.
const HONEST: Rule = "nobody is told of a run that nobody ran";
const KEPT: Rule = "a success stays recorded";
const CLEAN: Rule = "no begin stays that nobody took";
const ENDED: Rule = "each claim and each end has its answer, or ends without a caller";
const TRUE: Rule = "an end is confirmed only if it is recorded";
const UNDENIED: Rule = "nobody is told that an end is not recorded that is, or will be";
const CAUSED: Rule = "nobody blames others or is left in doubt without a cause";

type Contest = exploration::Contest<Setup>;

fn properties() -> Vec<Property<Contest>> {
    vec![
        Contest::always(KEPT, |_, world| {
            let succeeded = Progress::Ended(RunEnd::Succeeded);
            !world.succeeded || world.record().is_some_and(|record| record.progress == succeeded)
        }),
        Contest::always(CLEAN, |contest, world| is_clean(world) || contest.goes_on(world)),
        Contest::always(ENDED, |contest, world| is_ended(world) || contest.goes_on(world)),
        Contest::sometimes("the run happens", |_, world| !world.ran.is_empty()),
    ]
}

fn is_clean(world: &World) -> bool {
    let begun = world.record().filter(|record| record.progress == Progress::Begun);
    begun.is_none_or(|record| world.knows(record.token))
}

fn is_ended(world: &World) -> bool {
    let ended = |caller| matches!(caller, Caller::Idle | Caller::Dead);
    world.claimers.iter().all(|claimer| claimer.machine.is_none() && ended(claimer.caller))
}

fn setup(retries: &'static [bool], claims: u8, faults: &[Fault]) -> Setup {
    Setup { retries, claims, faults: faults.to_vec(), mutant: None }
}

explored! {
    a_run_happens_once:
        setup(&[false, false, false], 1, &[]), 775, [Ran, ToldDone],
        setup(&[true, false, true], 2, &[]), 19_661, [Ran, RanAgain, ToldDone];
    connections_break: setup(&[true, false], 2, &[Break, Break, Break]), 10_689,
        [Ran, RanAgain, Adopted, StrayApplied];
    callers_go: setup(&[true, false], 2, &[Departure, Departure, Break, Break]), 32_137,
        [TakenBack, PutBack, StrayApplied];
    guards_are_lost: setup(&[true, false], 2, &[Loss, Eviction, Departure, Break]), 1_591_126,
        [Displaced, BeganAgain, TakenBack];
    processes_die: setup(&[true, false, true], 1, &[Crash, Loss, Break]), 387_107,
        [LeftByTheDead, RanAgain, Displaced];
    ends_are_told_as_they_are:
        setup(&[true], 1, &[Break, Break, Loss, Refusal, Meddling]), 4_815,
            [EndTold, EndSeen, EndWrittenAgain, EndUnconfirmed, EndReplaced, EndUnwritten, EndChanged],
        setup(&[true, false], 1, &[Break, Loss, Eviction, Refusal, Meddling]), 578_485,
            [EndTold, EndSeen, EndWrittenAgain, EndUnconfirmed, EndReplaced, EndUnwritten, EndChanged];
}

/// Each with a setup in which it must be caught, and the rule that it breaks.
#[test]
fn each_mutant_is_caught() {
    refute_each([
        (Mutant::BeginsWithoutTheLock, setup(&[true, true], 1, &[Eviction]), ALONE),
        (Mutant::TakesUnknownForBegun, setup(&[false], 1, &[Break]), RECORDED),
        (Mutant::TakesUnknownForFailed, setup(&[false], 1, &[Break]), CLEAN),
        (Mutant::ForgetsItsTokens, setup(&[false], 1, &[Loss, Break]), HONEST),
        (Mutant::LeavesItsBegin, setup(&[false], 1, &[Departure]), CLEAN),
        (Mutant::LooksTooEarly, setup(&[false], 1, &[Departure]), CLEAN),
        (Mutant::ForgetsWhatItReplaced, setup(&[true, false], 2, &[Departure]), ONCE),
        (Mutant::RetriesASuccess, setup(&[true], 2, &[]), ONCE),
        (Mutant::RetriesUnasked, setup(&[false], 2, &[]), ONCE),
        (Mutant::StopsAtSilence, setup(&[false], 1, &[Break]), ENDED),
        (Mutant::TakesUnknownForEnded, setup(&[false], 1, &[Break]), TRUE),
        (Mutant::DeniesTheUnknown, setup(&[false], 1, &[Break, Loss]), UNDENIED),
        (Mutant::DeniesTheReplaced, setup(&[false], 1, &[Break, Meddling]), UNDENIED),
        (Mutant::SettlesTooEarly, setup(&[false], 1, &[Break, Loss]), UNDENIED),
        (Mutant::TakesAnothersRecord, setup(&[false], 1, &[Meddling]), TRUE),
        (Mutant::TakesTouchedForBegun, setup(&[false], 1, &[Meddling]), CAUSED),
        (Mutant::OverwritesAnothersRecord, setup(&[false], 1, &[Meddling]), KEPT),
        (Mutant::BlamesOthersAtOnce, setup(&[false], 1, &[Refusal]), CAUSED),
        (Mutant::TakesRefusedForUnknown, setup(&[false], 1, &[Refusal, Loss]), CAUSED),
        (Mutant::GivesUpTheUnwritten, setup(&[false], 1, &[Refusal]), CAUSED),
        (Mutant::TakesBegunForEnded, setup(&[false], 1, &[Break]), TRUE),
        (Mutant::StopsAtSilenceInTheEnd, setup(&[false], 1, &[Break]), ENDED),
    ]);
}
