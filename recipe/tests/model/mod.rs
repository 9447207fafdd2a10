//! Every order in which a few contenders, their network and their server can act, with the production
//! [`Group`](zklock_recipe::Group) and its machines in the middle.
//!
//! Each model is explored to its end, so the number of its states is a fact about protocol and world; it is pinned,
//! because a model that shrinks has stopped looking somewhere. The rules that must hold are in
//! `contest.rs`; what must have happened for them to mean something is in each test's list of
//! [`Witness`](findings::Witness)es; and each rule of the world that the protocol rests on is broken once, to see the model fail, as is each
//! rule that a machine could break.
//!
//! The largest models are there in release builds only, for `make model`.
//!
//! There are two kinds. Without a clock everything takes any time, and a lease is a fact that ends before its session
//! does. With a clock, sessions at a follower have the production [`Lease`](zklock_recipe::Lease), the leader expires them by
//! what it has heard of them, and what is under way arrives at once unless a stream between the two servers stands still:
//! so it is the lease that has to end in time.

mod broken;
mod changes;
mod contender;
mod contest;
mod delays;
mod driver;
mod findings;
mod follower;
mod foreigner;
mod mutant;
mod nodes;
mod queues;
mod readers;
mod requests;
mod run;
mod session;
mod setup;
mod several;
mod step;

use zklock_recipe::{Look, Takeover};

use crate::world::exploration::{explore, refute};
use contest::{GRANTED, NO_ORPHAN, ONE_HOLDER, ONE_KIND};
use findings::Witness::*;
use nodes::Make;
use setup::{
    Clock, Faults, Flaw, Setup, mixed, patient, reaped, timed, tries, waiters, waits, weakened, with,
};

#[test]
fn three_waiters_look_in_either_way() {
    let setup = Setup { giving_up: false, ..waiters(3) };
    explore(setup, 47_741, &[GrantByRelease, GrantByListing, GrantByCount]);
}

#[test]
fn three_waiters_give_up_at_any_time() {
    let setup = Setup { looks: vec![Look::Count], ..waiters(3) };
    explore(setup, 106_884, &[GrantByRelease, GrantByCount, GiveUpWhileEntering, GiveUpWhileWaiting]);
}

#[test]
fn one_waits_and_two_try() {
    let contenders = vec![waits(0), tries(1), tries(2)];
    let setup = Setup { contenders, looks: vec![Look::Count], ..waiters(3) };
    explore(setup, 94_624, &[GrantByListing, GrantByCount, Busy]);
}

#[test]
fn connections_break_and_the_directory_is_reaped() {
    explore(
        reaped(with(Faults { breaks: 2, ..Faults::default() }, waiters(2))),
        117_036,
        &[
            DirectoryCreated,
            DirectoryReset,
            RecoveryFindsNode,
            RecoveryFindsNone,
            RemovalFoundDone,
            RemovalFoundUndone,
            PredecessorVanishedWhileDisconnected,
            StrayCreate,
        ],
    );
}

#[test]
fn three_waiters_and_a_broken_connection() {
    explore(
        with(Faults { breaks: 1, ..Faults::default() }, patient(waiters(3))),
        214_432,
        &[
            GrantByRelease,
            RecoveryFindsNode,
            RemovalFoundDone,
            PredecessorVanishedWhileDisconnected,
            GoneBetweenItsWatches,
            NodesAsked,
        ],
    );
}

#[test]
fn sessions_end_in_every_way() {
    let faults = Faults { breaks: 1, lapses: 1, expiries: 1, closings: 1, ..Faults::default() };
    explore(
        with(faults, waiters(2)),
        169_169,
        &[GuardLost, GrantAfterLapse, GiveUpOnceGranted, RemovalFoundUndone],
    );
}

#[test]
fn three_waiters_and_an_expired_session() {
    explore(
        with(Faults { lapses: 1, expiries: 1, ..Faults::default() }, patient(waiters(3))),
        227_701,
        &[GuardLost, GrantAfterLapse, GrantByListing],
    );
}

/// Two acquisitions share a session: its connection, and its nodes when one of them looks for its own.
#[test]
fn two_contenders_share_a_session() {
    let contenders = vec![waits(0), waits(0), waits(1)];
    let setup = Setup { contenders, ..patient(waiters(3)) };
    explore(
        reaped(with(Faults { breaks: 1, ..Faults::default() }, setup)),
        310_534,
        &[SearchShared, RecoveryFindsNode, RecoveryFindsNone, RemovalFoundDone, DirectoryReset],
    );
}

/// Two acquisitions of a session look for their nodes at once, and one of them has created its own after the other's search.
fn searching() -> Setup {
    let contenders = vec![waits(0), waits(0)];
    with(
        Faults { breaks: 1, doubts: 1, ..Faults::default() },
        Setup { contenders, looks: vec![Look::Count], ..waiters(2) },
    )
}

#[test]
fn searches_are_shared() {
    explore(searching(), 18_146, &[SearchShared, RecoveryFindsNode, RecoveryFindsNone]);
    refute(weakened(Flaw::SearchesOutliveConnections, searching()), NO_ORPHAN);
    let written = with(Faults { breaks: 1, writes: 1, ..Faults::default() }, waiters(1));
    refute(weakened(Flaw::WrittenNodesArePassedOver, written), NO_ORPHAN);
}

#[test]
fn holders_watch_their_own_nodes() {
    let setup = Setup { settling: true, ..waiters(2) };
    explore(
        with(Faults { breaks: 1, lapses: 1, ..Faults::default() }, setup),
        142_962,
        &[RemovalFoundDone, GuardLost, GrantByRelease],
    );
}

/// Two may believe that they hold a lock which an operator takes away from one of them; what is promised is that
/// this one is told, that nobody is stuck and that nothing is left behind. Among them is a waiter whose node was
/// deleted, and who is granted all the same when its predecessor releases.
#[test]
fn an_operator_deletes_nodes() {
    let setup = Setup { settling: true, ..waiters(2) };
    explore(
        with(Faults { breaks: 1, deletions: 1, ..Faults::default() }, setup),
        161_388,
        &[HolderTold, ToldByMissingNode],
    );
}

/// A write to a node costs its holder the lock, and grants nobody else: neither in place of a waiter that it hits, nor
/// before the holder's node is gone.
#[test]
fn anybody_writes_to_nodes() {
    let setup = Setup { settling: true, ..waiters(2) };
    explore(
        with(Faults { breaks: 1, writes: 1, ..Faults::default() }, setup),
        99_362,
        &[HolderTold, DeletedAfterAWrite, GrantByRelease],
    );
}

#[test]
fn anybody_writes_to_the_nodes_of_three() {
    let setup = Setup { settling: true, ..patient(waiters(3)) };
    explore(
        with(Faults { writes: 1, ..Faults::default() }, setup),
        216_667,
        &[HolderTold, DeletedAfterAWrite, GrantByRelease],
    );
}

/// As [`an_operator_deletes_nodes`], by ending a session whose lease is valid and whose client is connected.
#[test]
fn an_operator_ends_sessions() {
    let setup = Setup { following: vec![0], settling: true, ..patient(waiters(2)) };
    explore(
        with(Faults { breaks: 1, evictions: 1, ..Faults::default() }, setup),
        484_674,
        &[GuardLost, ServedAfterItsEnd, AnswerFromThePast],
    );
}

/// What an operator ends goes unnoticed for as long as the lease lasts, if the holder's server hears of nothing.
fn evicted(end: u8) -> Setup {
    let faults = Faults { evictions: 1, stalls: 1, beats: 1, ..Faults::default() };
    Setup { takeover: Takeover::Delayed, ..timed(end, faults) }
}

#[test]
fn a_delay_must_not_be_shorter() {
    refute(weakened(Flaw::DelayIsTooShort, evicted(6)), ONE_HOLDER);
}

/// The delay may take any time, and whatever can happen happens meanwhile.
#[test]
fn waiters_delay_their_takeover() {
    let faults = Faults { breaks: 1, lapses: 1, expiries: 1, ..Faults::default() };
    let setup = Setup { takeover: Takeover::Delayed, ..waiters(2) };
    explore(with(faults, setup), 137_154, &[TakeoverDelayed, GuardLost, GrantByRelease, GiveUpWhileDelayed]);
}

#[test]
fn three_waiters_delay_their_takeover() {
    let faults = Faults { lapses: 1, expiries: 1, ..Faults::default() };
    let setup = Setup { takeover: Takeover::Delayed, ..patient(waiters(3)) };
    explore(with(faults, setup), 242_464, &[TakeoverDelayed, GuardLost, GrantByRelease]);
}

#[test]
fn another_client_contends() {
    let faults = Faults { lapses: 1, expiries: 1, ..Faults::default() };
    explore(
        mixed(Make::Foreign, faults),
        63_499,
        &[ForeignerMet, ForeignerHeldNext, GuardLost, GrantByRelease],
    );
}

#[test]
fn another_client_contends_under_names_like_ours() {
    let faults = Faults { breaks: 1, ..Faults::default() };
    let setup = Setup { looks: vec![Look::Count], ..mixed(Make::Lookalike, faults) };
    explore(setup, 38_963, &[ForeignerMet, ForeignerHeldNext, GrantByRelease, RecoveryFindsNode]);
}

#[test]
fn another_client_contends_while_a_follower_is_behind() {
    let faults = Faults { lapses: 1, ..Faults::default() };
    let setup = Setup { looks: vec![Look::Count], following: vec![0], ..mixed(Make::Foreign, faults) };
    explore(setup, 70_229, &[ForeignerMet, ForeignerHeldNext, GuardLost, AnswerFromThePast]);
}

/// The two clients rely on the lease's end alone when a session expires.
#[test]
fn the_lease_must_end_before_another_client_holds_the_lock() {
    let setup = mixed(Make::Foreign, Faults { expiries: 1, ..Faults::default() });
    refute(weakened(Flaw::LeaseIsTooLong, setup), ONE_KIND);
}

/// A caller keeps the future of its acquisition and does not poll it, for a while or for ever. A second acquisition of its
/// session is the one with which it begins anew.
fn neglectful(faults: Faults) -> Setup {
    let contenders = vec![waits(0), waits(0), waits(1)];
    with(Faults { neglects: 1, returns: 1, ..faults }, Setup { contenders, ..patient(waiters(3)) })
}

#[test]
fn callers_stop_polling() {
    let occurrences = [Evicted, PolledAgain, GrantByRelease, GiveUpWhileEntering, GiveUpWhileWaiting];
    explore(neglectful(Faults::default()), 36_635, &occurrences);
}

#[test]
fn callers_stop_polling_while_sessions_end() {
    let faults = Faults { breaks: 1, lapses: 1, expiries: 1, ..Faults::default() };
    let setup = Setup { contenders: waiters(2).contenders, ..neglectful(faults) };
    explore(setup, 113_239, &[Evicted, PolledAgain, GiveUpOnceGranted, RecoveryFindsNode, GuardLost]);
}

#[test]
fn a_caller_that_does_not_poll_must_lose_its_place() {
    let setup = weakened(Flaw::NobodyIsEvicted, neglectful(Faults::default()));
    refute(setup.clone(), "nobody is stuck");
    // Those who poll again, later or never, would leave no end in which somebody is not granted.
    refute(Setup { faults: Faults { returns: 0, ..setup.faults }, ..setup }, GRANTED);
}

/// The first contender's session is at a follower, which has everything some time later.
#[test]
fn a_contender_is_at_a_follower() {
    let setup = Setup { following: vec![0], ..waiters(2) };
    let occurrences = [AnswerFromThePast, GrantByRelease, GrantByListing, GrantByCount];
    explore(setup, 4_308, &occurrences);
}

#[test]
fn three_contenders_and_a_follower() {
    let setup = Setup { following: vec![0, 1], ..patient(waiters(3)) };
    explore(setup, 26_187, &[AnswerFromThePast, GrantByRelease]);
}

#[test]
fn contenders_move_between_servers() {
    let setup = Setup { following: vec![0], ..patient(waiters(2)) };
    explore(
        with(Faults { breaks: 1, ..Faults::default() }, setup),
        20_049,
        &[AnswerFromThePast, MovedToFollower, MovedToLeader, RecoveryFindsNode, RecoveryFindsNone],
    );
}

/// A follower serves a session that the leader has ended.
#[test]
fn a_session_ends_unnoticed() {
    let setup = Setup { following: vec![0], ..patient(waiters(2)) };
    explore(
        with(Faults { lapses: 1, expiries: 1, ..Faults::default() }, setup),
        7_040,
        &[AnswerFromThePast, ServedAfterItsEnd, GuardLost],
    );
}

/// With the production lease, and a leader that expires sessions by what it has heard of them.
#[test]
fn leases_are_kept_by_the_clock() {
    let faults = Faults { beats: 1, ..Faults::default() };
    explore(timed(5, faults), 32_561, &[GuardLost, LeaseExtended]);
}

/// The leader grants less than the follower at which the session began.
fn clipped(end: u8, faults: Faults) -> Setup {
    let setup = timed(end, faults);
    Setup { clock: Some(Clock { end, timeout: 5, lower: 3, drift_ppm: 0 }), ..setup }
}

#[test]
fn leases_are_kept_where_servers_have_different_limits() {
    let faults = Faults { breaks: 1, ..Faults::default() };
    explore(clipped(5, faults), 61_527, &[GuardLost, MovedToLeader, MovedToFollower]);
    refute(weakened(Flaw::LimitsAreIgnored, clipped(5, faults)), ONE_HOLDER);
}

#[test]
fn leases_are_kept_though_a_request_to_resume_arrives_late() {
    let faults = Faults { breaks: 1, halves: 1, ..Faults::default() };
    explore(clipped(4, faults), 90_404, &[GuardLost, ResumedLate, MovedToFollower]);
    refute(weakened(Flaw::HalvesAreForgotten, clipped(4, faults)), ONE_HOLDER);
}

#[test]
fn leases_are_kept_though_the_leaders_clock_is_fast() {
    let faults = Faults { gains: 1, ..Faults::default() };
    let clock = Clock { end: 6, timeout: 6, lower: 6, drift_ppm: 166_667 };
    let setup = Setup { clock: Some(clock), ..timed(6, faults) };
    explore(setup.clone(), 19_768, &[GuardLost]);
    refute(weakened(Flaw::DriftIsIgnored, setup), ONE_HOLDER);
}

#[test]
fn leases_are_kept_though_sessions_are_resumed_as_they_expire() {
    let faults = Faults { breaks: 1, races: 1, ..Faults::default() };
    explore(timed(5, faults), 74_974, &[GuardLost, MovedToLeader]);
    refute(weakened(Flaw::DoubtIsIgnored, timed(5, faults)), ONE_HOLDER);
}

/// Models of millions of states.
#[cfg(not(debug_assertions))]
mod at_large {
    use super::*;

    #[test]
    fn three_waiters_under_every_fault_of_their_sessions() {
        let faults = Faults { breaks: 1, lapses: 1, expiries: 1, ..Faults::default() };
        explore(
            with(faults, Setup { looks: vec![Look::Count], ..waiters(3) }),
            20_557_379,
            &[
                GuardLost,
                GrantAfterLapse,
                GrantByListing,
                GrantByRelease,
                RecoveryFindsNode,
                RemovalFoundDone,
            ],
        );
    }

    #[test]
    fn three_waiters_that_delay_give_up_and_expire() {
        let faults = Faults { lapses: 1, expiries: 1, ..Faults::default() };
        let setup = Setup { looks: vec![Look::Count], takeover: Takeover::Delayed, ..waiters(3) };
        explore(
            with(faults, setup),
            1_365_899,
            &[TakeoverDelayed, GiveUpWhileDelayed, GiveUpWhileWaiting, GuardLost, GrantAfterLapse],
        );
    }

    #[test]
    fn three_wait_and_one_tries() {
        let contenders = vec![waits(0), tries(1), waits(2), waits(3)];
        let setup = Setup { contenders, ..patient(waiters(4)) };
        explore(setup, 1_126_939, &[GrantByRelease, GrantByListing, GrantByCount, Busy]);
    }

    #[test]
    fn four_waiters_give_up_at_any_time() {
        let setup = Setup { looks: vec![Look::Count], ..waiters(4) };
        explore(setup, 32_475_925, &[GrantByRelease, GrantByCount, GiveUpWhileEntering, GiveUpWhileWaiting]);
    }

    #[test]
    fn three_waiters_give_up_while_anybody_writes_to_their_nodes() {
        let setup = Setup { looks: vec![Look::Count], ..waiters(3) };
        explore(
            with(Faults { writes: 1, ..Faults::default() }, setup),
            446_180,
            &[DeletedAfterAWrite, GrantByRelease, GiveUpWhileWaiting],
        );
    }

    #[test]
    fn leases_are_kept_though_streams_stand_still() {
        let faults = Faults { beats: 1, stalls: 2, ..Faults::default() };
        explore(timed(5, faults), 9_639_441, &[GuardLost, LeaseExtended, ServedAfterItsEnd]);
    }

    #[test]
    fn a_delay_of_a_session_timeout_outlasts_what_an_operator_ends() {
        explore(evicted(6), 3_755_225, &[ServedAfterItsEnd, TakeoverDelayed, GuardLost]);
    }

    #[test]
    fn leases_are_kept_though_connections_break() {
        let faults = Faults { beats: 1, breaks: 1, stalls: 1, ..Faults::default() };
        explore(timed(5, faults), 17_575_600, &[GuardLost, LeaseExtended, MovedToLeader, MovedToFollower]);
    }

    #[test]
    fn three_contenders_two_at_a_follower_under_every_fault_of_their_sessions() {
        let faults = Faults { breaks: 1, lapses: 1, expiries: 1, ..Faults::default() };
        let setup = Setup { following: vec![0, 1], ..patient(waiters(3)) };
        explore(
            with(faults, setup),
            23_872_315,
            &[AnswerFromThePast, ServedAfterItsEnd, MovedToFollower, MovedToLeader, GuardLost],
        );
    }

    #[test]
    fn leases_are_kept_under_every_fault_of_limits_and_late_requests() {
        let faults = Faults { breaks: 1, halves: 1, races: 1, ..Faults::default() };
        explore(clipped(5, faults), 183_025, &[GuardLost, ResumedLate, MovedToLeader, MovedToFollower]);
    }

    #[test]
    fn anybody_writes_to_nodes_while_connections_break() {
        let setup = Setup { settling: true, ..patient(waiters(3)) };
        explore(
            with(Faults { breaks: 1, writes: 1, ..Faults::default() }, setup),
            3_201_074,
            &[HolderTold, DeletedAfterAWrite, GrantByRelease, RecoveryFindsNode],
        );
    }

    #[test]
    fn another_client_contends_under_every_fault_of_sessions() {
        let faults = Faults { breaks: 1, lapses: 1, expiries: 1, ..Faults::default() };
        let setup = Setup { looks: vec![Look::Count], ..mixed(Make::Foreign, faults) };
        explore(
            setup,
            316_097,
            &[ForeignerMet, ForeignerHeldNext, GuardLost, GrantByRelease, RecoveryFindsNode],
        );
    }

    #[test]
    fn a_write_alone_must_not_confirm() {
        let faults = Faults { beats: 1, stalls: 2, ..Faults::default() };
        refute(weakened(Flaw::WritesConfirmAlone, timed(5, faults)), ONE_HOLDER);
    }

    #[test]
    fn three_waiters_whose_directory_is_reaped_and_whose_connections_break() {
        let setup = Setup { looks: vec![Look::Count], ..waiters(3) };
        explore(
            reaped(with(Faults { breaks: 1, ..Faults::default() }, setup)),
            1_942_410,
            &[DirectoryReset, RecoveryFindsNode, RecoveryFindsNone, RemovalFoundDone, StrayCreate],
        );
    }
}
