//! What must not be: each fault that a machine can have, each rule of the world without which the protocol would fail, and
//! a way that was found so, frozen.

use super::contest::{
    FOUND, GRANTED, IN_VAIN, LIMITED, NO_ORPHAN, NOT_ANOTHERS, ONE_HOLDER, ONE_KIND, SEEN, STUCK, TOLD,
    replay, valid_guards,
};
use super::exploration::{refute, refute_each};
use super::follower::Streams;
use super::mutant::Mutant;
use super::nodes::Make;
use super::setup::{Fault::*, Flaw, Setup, mixed, of, timed, tries, waiters, waits};
use super::step::Step;
use super::{asked, clipped, evicted, forged, gaining, neglectful, searching};

/// Each fault that a machine can have, a model in which it shows, and the rule by which it does.
#[test]
fn every_mutant_is_caught() {
    // A waiter's node goes, and was not released: its session is closed, or it only tried.
    let closing = || waiters(3).patient().with(&[Closing]);
    let trying = of(vec![waits(0), tries(1), waits(2)]).patient();
    let sharing = of(vec![waits(0), waits(0)]).with(&[Break]);
    // An operator deletes the node of a waiter, which does not watch it.
    let unseen = || waiters(2).patient().with(&[Break, Deletion]);
    let delayed = || waiters(2).patient().delayed().with(&[Deletion]);
    refute_each([
        (Mutant::TrustsDeletions, closing(), ONE_HOLDER),
        (Mutant::TrustsAbsence, closing(), ONE_HOLDER),
        (Mutant::Miscounts, waiters(2), ONE_HOLDER),
        (Mutant::WatchesTheFirst, Setup { giving_up: false, ..waiters(3) }, ONE_HOLDER),
        (Mutant::ForgetsTheLease, waiters(2).with(&[Lapse, Expiry]), ONE_HOLDER),
        (Mutant::LeavesLikeAHolder, trying, ONE_HOLDER),
        (Mutant::CreatesAgain, waiters(1).with(&[Break]), NO_ORPHAN),
        (Mutant::AdoptsAnothersNode, sharing, ONE_HOLDER),
        (Mutant::RemovesAgain, waiters(2).reaped().with(&[Break]), NOT_ANOTHERS),
        (Mutant::TrustsItsRemoval, waiters(1).with(&[Break]), NO_ORPHAN),
        (Mutant::ForgetsItsCreate, waiters(1), NO_ORPHAN),
        (Mutant::IgnoresItsLoss, waiters(2).settling().with(&[Deletion]), TOLD),
        (Mutant::TrustsReleases, forged(), FOUND),
        (Mutant::TrustsReleases, forged().delayed(), ONE_HOLDER),
        (Mutant::TrustsWrites, waiters(3).patient().with(&[Write]), ONE_HOLDER),
        (Mutant::TrustsWritesBeforeDeletions, closing().with(&[Write]), ONE_HOLDER),
        (Mutant::CountsAsks, asked(), IN_VAIN),
        (Mutant::ForgetsItsLimit, timed(4).limited(2), LIMITED),
        (Mutant::GivesItsNodeUpFirst, timed(4).limited(2).with(&[Stall]), ONE_HOLDER),
        (Mutant::PutsItsLossOff, timed(6).limited(6), ONE_HOLDER),
        (Mutant::PassesForeignContendersOver, mixed(Make::Foreign), ONE_KIND),
        (Mutant::TakesAnOldConnectionForThePresentOne, unseen(), SEEN),
        (Mutant::ConfirmsUnseenNodes, unseen(), SEEN),
        (Mutant::ConfirmsALapsedLease, waiters(2).patient().with(&[Break, Lapse, Expiry]), ONE_HOLDER),
        (Mutant::RemembersThroughARelease, delayed(), SEEN),
        (Mutant::RemembersThroughADelay, delayed().with(&[Closing]), SEEN),
        (Mutant::SharesAnOldSearch, searching(), NO_ORPHAN),
        (Mutant::LeavesAnUnclearNode, waiters(1).with(&[Break, Write]), NO_ORPHAN),
    ]);
}

/// Each rule of the world that a model rests on. Those of readers and of several queues are beside their models.
#[test]
fn every_rule_of_the_world_is_needed() {
    let breaking = || waiters(2).with(&[Break]);
    let at_a_follower = || breaking().patient().following(&[0]);
    let flaws = [
        (Flaw::LeaseIsTooLong, waiters(2).with(&[Expiry]), ONE_HOLDER),
        (Flaw::WatchesAreForgotten, breaking(), STUCK),
        (Flaw::WatchesAreForgotten, breaking().patient(), GRANTED),
        (Flaw::ReadsOvertakeTheBarrier, at_a_follower(), NO_ORPHAN),
        (Flaw::OldConnectionLingers, waiters(1).with(&[Break]), STUCK),
        (Flaw::RecoveryIsLocal, at_a_follower(), STUCK),
        (Flaw::ReadOvertakesCreate, waiters(2), ONE_HOLDER),
        (Flaw::SearchesOutliveConnections, searching(), NO_ORPHAN),
        (Flaw::WrittenNodesArePassedOver, waiters(1).with(&[Break, Write]), NO_ORPHAN),
        (Flaw::DelayIsTooShort, evicted(6), ONE_HOLDER),
        // The two clients rely on the lease's end alone when a session expires.
        (Flaw::LeaseIsTooLong, mixed(Make::Foreign).with(&[Expiry]), ONE_KIND),
        // Those who poll again, later or never, would leave no end in which somebody is not granted.
        (Flaw::NobodyIsEvicted, neglectful(), GRANTED),
        (Flaw::NobodyIsEvicted, neglectful().with(&[Return]), STUCK),
        (Flaw::LimitsAreIgnored, clipped(5).with(&[Break]), ONE_HOLDER),
        (Flaw::LimitsAreLearnedLate, clipped(6).with(&[Break, Half]), ONE_HOLDER),
        (Flaw::HalvesAreForgotten, clipped(6).with(&[Break, Half]), ONE_HOLDER),
        (Flaw::DriftIsIgnored, gaining(), ONE_HOLDER),
        (Flaw::DoubtIsIgnored, timed(5).with(&[Break, Race]), ONE_HOLDER),
        #[cfg(not(debug_assertions))]
        (Flaw::WritesConfirmAlone, timed(5).with(&[Beat, Stall, Stall]), ONE_HOLDER),
    ];
    for (flaw, setup, property) in flaws {
        println!("{flaw:?}: {property}");
        refute(setup.weakened(flaw), property);
    }
}

/// A quorum write used to be proof that the leader knew of all that was answered a lag before. Here the follower hears the
/// ping that asks for the first contender's touch together with the write's answer, and is not heard any more. On
/// servers: `proof/src/margins/stalled_server.rs`.
#[test]
fn frozen_a_write_came_before_the_report() {
    let setup = timed(5).with(&[Beat, Stall, Stall]);
    let steps = [
        Step::Tick,
        Step::Ping,
        Step::Beat(0),
        Step::Stall(Streams { up: false, down: true }),
        Step::Tick,
        Step::Ping,
        Step::Tick,
        Step::Begin(0),
        Step::Begin(1),
        Step::Stall(Streams { up: true, down: false }),
        Step::Ping,
        Step::Tick,
        Step::Expire(0),
    ];
    assert_eq!(valid_guards(&replay(&setup, &steps)), 1);
    assert_eq!(valid_guards(&replay(&setup.weakened(Flaw::WritesConfirmAlone), &steps)), 2);
}
