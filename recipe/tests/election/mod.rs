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

use crate::world::exploration::{explore, refute};
use contest::{CLEAN, FORWARD, GENUINE, HONEST, OWN, SHOWN, SOUND, STUCK, TRUE};
use setup::{Faults, Mutant, Setup, Witness::*};

fn setup(candidates: usize, faults: Faults) -> Setup {
    Setup { candidates, observed: true, prompt: true, named: true, faults, mutant: None }
}

/// Without an observer, and with answers that take their time.
fn slow(setup: Setup) -> Setup {
    Setup { observed: false, prompt: false, ..setup }
}

fn mutated(mutant: Mutant, setup: Setup) -> Setup {
    Setup { mutant: Some(mutant), ..setup }
}

#[test]
fn two_candidates_follow_each_other() {
    let occurrences =
        [Announced, ToldSomebody, ToldNobody, ToldTheNext, ResignedWithAnnouncement, ResignedBare];
    explore(setup(2, Faults::default()), 45_636, &occurrences);
}

#[test]
fn a_leader_proclaims() {
    let setup = setup(1, Faults { proclamations: 2, ..Faults::default() });
    explore(Setup { named: false, ..setup.clone() }, 9_965, &[Proclaimed, LookedAgain]);
    explore(setup, 12_263, &[Proclaimed, Coalesced, LookedAgain, EventOvertookTheAnswer, ReadFromThePast]);
}

#[test]
fn connections_of_candidates_break() {
    let setup = slow(setup(2, Faults { breaks: 1, ..Faults::default() }));
    explore(setup, 7_759, &[StrayApplied, AnnouncedAgain, ReleaseFoundDone]);
}

#[test]
fn sessions_of_leaders_end() {
    let setup = setup(2, Faults { lapses: 1, ..Faults::default() });
    explore(setup.clone(), 195_990, &[Expired, ToldTheNext]);
    let faults = Faults { lapses: 1, breaks: 1, ..Faults::default() };
    explore(slow(Setup { faults, ..setup }), 31_613, &[Expired, StrayApplied]);
}

#[test]
fn the_observer_loses_its_connection() {
    let setup = setup(2, Faults { outages: 1, ..Faults::default() });
    explore(setup, 105_537, &[ToldTheNext, LookedAgain]);
}

/// The server of the next connection is behind, as if no write had opened it.
#[test]
fn the_observer_asks_a_server_that_is_behind() {
    let setup = setup(2, Faults { outages: 1, rewinds: 1, ..Faults::default() });
    explore(setup, 211_191, &[ServerBehindWasAsked]);
}

#[test]
fn an_operator_touches_the_announcement() {
    let faults = Faults { deletions: 1, ..Faults::default() };
    explore(setup(1, faults), 4_136, &[AnnouncedAgain, LookedAgain]);
    let faults = Faults { writes: 1, evictions: 1, ..Faults::default() };
    explore(setup(1, faults), 20_658, &[AnnouncedAgain, Retracted]);
    let faults = Faults { forgeries: 1, proclamations: 1, ..Faults::default() };
    explore(setup(1, faults), 18_007, &[LeftoverReplaced]);
}

#[test]
fn an_operator_deletes_candidates() {
    let setup = setup(2, Faults { evictions: 1, ..Faults::default() });
    explore(setup.clone(), 1_107_648, &[Retracted, RetractedAnothers, AnnouncedAgain]);
    for faults in [Faults { breaks: 1, ..setup.faults }, Faults { lapses: 1, ..setup.faults }] {
        let setup = slow(Setup { faults, ..setup.clone() });
        explore(setup, if faults.breaks > 0 { 179_981 } else { 113_479 }, &[Retracted, AnnouncedAgain]);
    }
}

#[test]
fn an_operator_writes_to_a_leaders_node() {
    let setup = setup(2, Faults { touches: 1, ..Faults::default() });
    explore(setup.clone(), 577_352, &[Touched, Retracted, ToldTheNext]);
    let faults = Faults { breaks: 1, ..setup.faults };
    explore(slow(Setup { faults, ..setup }), 72_963, &[Touched, StrayApplied]);
}

#[test]
fn servers_refuse_and_withhold() {
    let faults = Faults { refusals: 2, silences: 1, deletions: 2, ..Faults::default() };
    explore(setup(1, faults), 250_104, &[Refused, Hidden, Withheld, AnnouncedAgain]);
    let faults =
        Faults { refusals: 1, silences: 1, breaks: 1, deletions: 1, proclamations: 1, ..Faults::default() };
    explore(slow(setup(1, faults)), 10_156, &[Refused, Hidden, Withheld, ReleaseUnanswered]);
}

/// Each with a setup in which it must be caught, and the rule that it breaks.
#[test]
fn each_mutant_is_caught() {
    let none = Faults::default();
    let cases = [
        (Mutant::AnnouncesWithoutTheCheck, setup(1, Faults { evictions: 1, ..none }), SOUND),
        (Mutant::LeavesItsAnnouncement, setup(1, none), CLEAN),
        (Mutant::IsStoppedByALeftover, setup(1, Faults { forgeries: 1, ..none }), SHOWN),
        (Mutant::IgnoresItsAnnouncement, setup(1, Faults { deletions: 1, ..none }), SHOWN),
        (Mutant::ForgetsItsAnnouncement, setup(1, Faults { evictions: 1, ..none }), CLEAN),
        (
            Mutant::TakesAMissingNodeForAResignation,
            slow(setup(1, Faults { evictions: 1, breaks: 1, ..none })),
            CLEAN,
        ),
        (Mutant::TakesAnothersAnnouncement, setup(2, none), OWN),
        (Mutant::GivesUpAfterTheFirstDisturbance, setup(1, Faults { deletions: 2, ..none }), SHOWN),
        (Mutant::GivesUpWhenRefused, setup(1, Faults { refusals: 1, ..none }), SHOWN),
        (Mutant::StopsAtSilence, slow(setup(1, Faults { breaks: 1, ..none })), STUCK),
        (Mutant::TakesUnknownForAnnounced, slow(setup(1, Faults { breaks: 1, ..none })), HONEST),
        (Mutant::TakesTheReplyToAnOlderProclamation, setup(1, Faults { proclamations: 1, ..none }), HONEST),
        (Mutant::ForgetsAProclamation, setup(1, Faults { proclamations: 1, ..none }), SHOWN),
        (
            Mutant::ForgetsThatItsOwnWatchIsLost,
            slow(setup(1, Faults { breaks: 1, deletions: 1, ..none })),
            SHOWN,
        ),
        (Mutant::TrustsALongSilence, setup(1, Faults { deletions: 1, silences: 1, ..none }), SHOWN),
        (Mutant::StaysWithItsAnnouncement, setup(1, Faults { deletions: 1, ..none }), STUCK),
        (Mutant::TakesBackWhatIsNotIts, setup(2, Faults { evictions: 1, ..none }), OWN),
        (Mutant::LeavesWhatWasWrittenTo, setup(1, Faults { evictions: 1, writes: 1, ..none }), CLEAN),
        (Mutant::TakesBackOnce, slow(setup(1, Faults { evictions: 1, breaks: 1, ..none })), CLEAN),
        (Mutant::ReadsBeforeItWatches, setup(1, none), TRUE),
        (Mutant::TakesALowerToken, setup(2, Faults { outages: 1, rewinds: 1, ..none }), FORWARD),
        (Mutant::IgnoresChangesDuringALook, setup(1, Faults { proclamations: 1, ..none }), TRUE),
        (Mutant::ForgetsThatItsWatchIsLost, setup(1, Faults { outages: 1, ..none }), TRUE),
        (Mutant::TakesAnythingForAnAnnouncement, setup(1, Faults { writes: 1, ..none }), GENUINE),
    ];
    for (mutant, setup, rule) in cases {
        println!("{mutant:?}: {rule}");
        refute(mutated(mutant, setup), rule);
    }
}
