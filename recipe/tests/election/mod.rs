//! Every order in which a few candidates, an operator, and an observer at a server that lags can act, with the production
//! [`Candidacy`](zklock_recipe::candidacy::Candidacy), [`Companion`](zklock_recipe::companion::Companion),
//! [`Machine`](zklock_recipe::Machine) and [`Observer`](zklock_recipe::Observer) in the middle.
//!
//! A candidate is granted once its node is the first and its lease is valid: another model shows that. Here it announces itself,
//! looks after its announcement, and takes it back.
//!
//! An observer that lags multiplies the states of the candidates by those of what it has not heard of yet. So answers that take their
//! time are explored without one. The deletion of a candidate has the most states: the loser and the next leader act at once.

mod candidate;
mod contest;
mod office;
mod onlooker;
mod run;
mod setup;

use crate::world::exploration::{explore, explored, refute_each};
use contest::{CLEAN, FORWARD, GENUINE, HONEST, OWN, SHOWN, SOUND, STUCK, TRUE};
use setup::{Fault, Fault::*, Mutant, Setup, Witness::*};

fn setup(candidates: usize, faults: &[Fault]) -> Setup {
    Setup { candidates, observed: true, prompt: true, named: true, faults: faults.to_vec(), mutant: None }
}

/// Without an observer, and with answers that take their time.
fn slow(setup: Setup) -> Setup {
    Setup { observed: false, prompt: false, ..setup }
}

explored! {
    two_candidates_follow_each_other: setup(2, &[]), 45_636,
        [Announced, ToldSomebody, ToldNobody, ToldTheNext, ResignedWithAnnouncement, ResignedBare];
}

#[test]
fn a_leader_proclaims() {
    let setup = setup(1, &[Proclamation, Proclamation]);
    explore(Setup { named: false, ..setup.clone() }, 9_965, &[Proclaimed, LookedAgain]);
    explore(setup, 12_263, &[Proclaimed, Coalesced, LookedAgain, EventOvertookTheAnswer, ReadFromThePast]);
}

explored! {
    connections_of_candidates_break: slow(setup(2, &[Break])), 7_759,
        [StrayApplied, AnnouncedAgain, ReleaseFoundDone];
}

#[test]
fn sessions_of_leaders_end() {
    explore(setup(2, &[Lapse]), 195_990, &[Expired, ToldTheNext]);
    explore(slow(setup(2, &[Lapse, Break])), 31_613, &[Expired, StrayApplied]);
}

explored! {
    the_observer_loses_its_connection: setup(2, &[Outage]), 105_537, [ToldTheNext, LookedAgain];
    /// The server of the next connection is behind, as if no write had opened it.
    the_observer_asks_a_server_that_is_behind: setup(2, &[Outage, Rewind]), 211_191, [ServerBehindWasAsked];
}

#[test]
fn an_operator_touches_the_announcement() {
    let faults = &[Deletion];
    explore(setup(1, faults), 4_136, &[AnnouncedAgain, LookedAgain]);
    let faults = &[Write, Eviction];
    explore(setup(1, faults), 20_658, &[AnnouncedAgain, Retracted]);
    let faults = &[Forgery, Proclamation];
    explore(setup(1, faults), 18_007, &[LeftoverReplaced]);
}

#[test]
fn an_operator_deletes_candidates() {
    explore(setup(2, &[Eviction]), 1_107_648, &[Retracted, RetractedAnothers, AnnouncedAgain]);
    explore(slow(setup(2, &[Eviction, Break])), 179_981, &[Retracted, AnnouncedAgain]);
    explore(slow(setup(2, &[Eviction, Lapse])), 113_479, &[Retracted, AnnouncedAgain]);
}

#[test]
fn an_operator_writes_to_a_leaders_node() {
    explore(setup(2, &[Touch]), 577_352, &[Touched, Retracted, ToldTheNext]);
    explore(slow(setup(2, &[Touch, Break])), 72_963, &[Touched, StrayApplied]);
}

#[test]
fn servers_refuse_and_withhold() {
    let faults = &[Refusal, Refusal, Silence, Deletion, Deletion];
    explore(setup(1, faults), 250_104, &[Refused, Hidden, Withheld, AnnouncedAgain]);
    let faults = &[Refusal, Silence, Break, Deletion, Proclamation];
    explore(slow(setup(1, faults)), 10_156, &[Refused, Hidden, Withheld, ReleaseUnanswered]);
}

/// Each with a setup in which it must be caught, and the rule that it breaks.
#[test]
fn each_mutant_is_caught() {
    refute_each([
        (Mutant::AnnouncesWithoutTheCheck, setup(1, &[Eviction]), SOUND),
        (Mutant::LeavesItsAnnouncement, setup(1, &[]), CLEAN),
        (Mutant::IsStoppedByALeftover, setup(1, &[Forgery]), SHOWN),
        (Mutant::IgnoresItsAnnouncement, setup(1, &[Deletion]), SHOWN),
        (Mutant::ForgetsItsAnnouncement, setup(1, &[Eviction]), CLEAN),
        (Mutant::TakesAMissingNodeForAResignation, slow(setup(1, &[Eviction, Break])), CLEAN),
        (Mutant::TakesAnothersAnnouncement, setup(2, &[]), OWN),
        (Mutant::GivesUpAfterTheFirstDisturbance, setup(1, &[Deletion, Deletion]), SHOWN),
        (Mutant::GivesUpWhenRefused, setup(1, &[Refusal]), SHOWN),
        (Mutant::StopsAtSilence, slow(setup(1, &[Break])), STUCK),
        (Mutant::TakesUnknownForAnnounced, slow(setup(1, &[Break])), HONEST),
        (Mutant::TakesTheReplyToAnOlderProclamation, setup(1, &[Proclamation]), HONEST),
        (Mutant::ForgetsAProclamation, setup(1, &[Proclamation]), SHOWN),
        (Mutant::ForgetsThatItsOwnWatchIsLost, slow(setup(1, &[Break, Deletion])), SHOWN),
        (Mutant::TrustsALongSilence, setup(1, &[Deletion, Silence]), SHOWN),
        (Mutant::StaysWithItsAnnouncement, setup(1, &[Deletion]), STUCK),
        (Mutant::TakesBackWhatIsNotIts, setup(2, &[Eviction]), OWN),
        (Mutant::LeavesWhatWasWrittenTo, setup(1, &[Eviction, Write]), CLEAN),
        (Mutant::TakesBackOnce, slow(setup(1, &[Eviction, Break])), CLEAN),
        (Mutant::ReadsBeforeItWatches, setup(1, &[]), TRUE),
        (Mutant::TakesALowerToken, setup(2, &[Outage, Rewind]), FORWARD),
        (Mutant::IgnoresChangesDuringALook, setup(1, &[Proclamation]), TRUE),
        (Mutant::ForgetsThatItsWatchIsLost, setup(1, &[Outage]), TRUE),
        (Mutant::TakesAnythingForAnAnnouncement, setup(1, &[Write]), GENUINE),
    ]);
}
