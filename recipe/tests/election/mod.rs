//! Every order in which a few candidates, an operator, and an observer at a server that lags can act, with the production
//! [`Candidacy`](zklock_recipe::candidacy::Candidacy), [`Companion`](zklock_recipe::companion::Companion),
//! [`Machine`](zklock_recipe::Machine) and [`Observer`](zklock_recipe::Observer) in the middle.
//!
//! A candidate is granted once its node is the first and its lease is valid: another model shows that. Here it announces itself,
//! looks after its announcement, and takes it back.
//!
//! An observer that lags multiplies the states of the candidates by those of what it has not heard of yet. So answers that take their
//! time are explored without one. The deletion of a candidate has the most states: the loser and the next leader act at once.

mod act;
mod candidate;
mod contest;
mod office;
mod onlooker;
mod run;
mod setup;

use crate::world::exploration::{explored, refute_each};
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
    a_leader_proclaims:
        Setup { named: false, ..setup(1, &[Proclamation, Proclamation]) }, 9_965, [Proclaimed, LookedAgain],
        setup(1, &[Proclamation, Proclamation]), 12_263,
            [Proclaimed, Coalesced, LookedAgain, EventOvertookTheAnswer, ReadFromThePast];
    connections_of_candidates_break: slow(setup(2, &[Break])), 7_759,
        [StrayApplied, AnnouncedAgain, ReleaseFoundDone];
    sessions_of_leaders_end:
        setup(2, &[Lapse]), 195_990, [Expired, ToldTheNext],
        slow(setup(2, &[Lapse, Break])), 31_613, [Expired, StrayApplied];
    the_observer_loses_its_connection: setup(2, &[Outage]), 105_537, [ToldTheNext, LookedAgain];
    /// The server of the next connection is behind, as if no write had opened it.
    the_observer_asks_a_server_that_is_behind: setup(2, &[Outage, Rewind]), 217_401, [ServerBehindWasAsked, LookedBehindASync];
    an_operator_touches_the_announcement:
        setup(1, &[Deletion]), 4_136, [AnnouncedAgain, LookedAgain],
        setup(1, &[Write, Eviction]), 20_658, [AnnouncedAgain, Retracted],
        setup(1, &[Forgery, Proclamation]), 18_007, [LeftoverReplaced];
    an_operator_deletes_candidates:
        setup(1, &[Eviction]), 1_624, [Retracted],
        slow(setup(2, &[Eviction, Break])), 179_981, [Retracted, AnnouncedAgain],
        slow(setup(2, &[Eviction, Lapse])), 113_479, [Retracted, AnnouncedAgain];
    an_operator_writes_to_a_leaders_node:
        setup(2, &[Touch]), 577_352, [Touched, Retracted, ToldTheNext],
        slow(setup(2, &[Touch, Break])), 72_963, [Touched, StrayApplied];
    servers_refuse_and_withhold:
        setup(1, &[Refusal, Refusal, Silence, Deletion, Deletion]), 250_104,
            [Refused, Hidden, Withheld, AnnouncedAgain],
        slow(setup(1, &[Refusal, Silence, Break, Deletion, Proclamation])), 10_156,
            [Refused, Hidden, Withheld, ReleaseUnanswered];
}

/// A model of a million states.
#[cfg(not(debug_assertions))]
mod at_large {
    use super::*;

    explored! {
        an_operator_deletes_two_candidates:
            setup(2, &[Eviction]), 1_107_648, [Retracted, RetractedAnothers, AnnouncedAgain];
    }
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
        (Mutant::BelievesAServerThatIsBehind, setup(2, &[Outage, Rewind]), FORWARD),
        (Mutant::IgnoresChangesDuringALook, setup(1, &[Proclamation]), TRUE),
        (Mutant::ForgetsThatItsWatchIsLost, setup(1, &[Outage]), TRUE),
        (Mutant::TakesAnythingForAnAnnouncement, setup(1, &[Write]), GENUINE),
    ]);
}
