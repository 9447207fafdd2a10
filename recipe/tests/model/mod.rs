//! Every order in which a few contenders, their network and their server can act, with the production
//! [`Group`](zklock_recipe::Group) and its machines in the middle.
//!
//! The rules that must hold are in `contest.rs`; what must have happened for them to mean something is in each test's list of
//! [`Witness`](findings::Witness)es; and each rule of the world that the protocol rests on is broken once, to see the model fail, as is each
//! rule that a machine could break.
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
mod exploration;
mod findings;
mod follower;
mod foreigner;
mod mutant;
mod nodes;
mod queues;
mod readers;
mod requests;
mod run;
mod server;
mod session;
mod setup;
mod several;
mod step;
mod tree;

use exploration::explored;
use findings::Witness::*;
use nodes::Make;
use setup::{Clock, Fault::*, Setup, mixed, of, timed, tries, waiters, waits};

/// Two acquisitions of a session look for their nodes at once, and one of them has created its own after the other's search.
fn searching() -> Setup {
    of(vec![waits(0), waits(0)]).counting().with(&[Break, Doubt])
}

/// What an operator ends goes unnoticed for as long as the lease lasts, if the holder's server hears of nothing.
fn evicted(end: u8) -> Setup {
    timed(end).delayed().with(&[Eviction, Stall, Beat])
}

/// A caller keeps the future of its acquisition and does not poll it. A second acquisition of its session is the one with
/// which it begins anew.
fn neglectful() -> Setup {
    of(vec![waits(0), waits(0), waits(1)]).patient().with(&[Neglect])
}

/// The leader grants less than the follower at which the session began.
fn clipped(end: u8) -> Setup {
    Setup { clock: Some(Clock { end, timeout: 5, lower: 3, drift_ppm: 0 }), ..timed(end) }
}

/// Two contend, and somebody asks whichever holds.
fn asked() -> Setup {
    mixed(Make::Ask)
}

/// Two contend, and a stranger forges a release once.
fn forged() -> Setup {
    mixed(Make::Forger).settling()
}

/// The leader's clock gets ahead of the clients'.
fn gaining() -> Setup {
    let clock = Clock { end: 6, timeout: 6, lower: 6, drift_ppm: 166_667 };
    Setup { clock: Some(clock), ..timed(6) }.with(&[Gain])
}

explored! {
    three_waiters_look_in_either_way: Setup { giving_up: false, ..waiters(3) }, 35_814,
        [GrantByRelease, GrantByListing, GrantByCount];
    three_waiters_give_up_at_any_time: waiters(3).counting(), 145_954,
        [GrantByRelease, GrantByCount, GiveUpWhileEntering, GiveUpWhileWaiting];
    one_waits_and_two_try: of(vec![waits(0), tries(1), tries(2)]).counting(), 124_935,
        [GrantByListing, GrantByCount, Busy];
    connections_break_and_the_directory_is_reaped: waiters(2).reaped().with(&[Break, Break]), 88_674,
        [DirectoryCreated, DirectoryReset, RecoveryFindsNode, RecoveryFindsNone, RemovalFoundDone,
         RemovalFoundUndone, PredecessorVanishedWhileDisconnected, StrayCreate];
    three_waiters_and_a_broken_connection: waiters(3).patient().with(&[Break]), 235_898,
        [GrantByRelease, RecoveryFindsNode, RemovalFoundDone, PredecessorVanishedWhileDisconnected,
         GoneBetweenItsWatches, NodesAsked];
    sessions_end_in_every_way: waiters(2).with(&[Break, Lapse, Expiry, Closing]), 149_580,
        [GuardLost, GrantAfterLapse, GiveUpOnceGranted, RemovalFoundUndone];
    three_waiters_and_an_expired_session: waiters(3).patient().with(&[Lapse, Expiry]), 249_736,
        [GuardLost, GrantAfterLapse, GrantByListing];
    /// Two acquisitions share a session: its connection, and its nodes when one of them looks for its own.
    two_contenders_share_a_session:
        of(vec![waits(0), waits(0), waits(1)]).patient().reaped().with(&[Break]), 327_552,
        [SearchShared, RecoveryFindsNode, RecoveryFindsNone, RemovalFoundDone, DirectoryReset];
    searches_are_shared: searching(), 18_352, [SearchShared, RecoveryFindsNode, RecoveryFindsNone];
    holders_watch_their_own_nodes: waiters(2).settling().with(&[Break, Lapse]), 127_246,
        [RemovalFoundDone, GuardLost, GrantByRelease];
    /// Two may believe that they hold a lock which an operator takes away from one of them; what is promised is that
    /// this one is told, that nobody is stuck and that nothing is left behind. Among them is a waiter whose node was
    /// deleted, and who is granted all the same when its predecessor releases.
    an_operator_deletes_nodes: waiters(2).settling().with(&[Break, Deletion]), 150_759,
        [HolderTold, ToldByMissingNode];
    /// A write to a node costs its holder the lock, and grants nobody else: neither in place of a waiter that it hits, nor
    /// before the holder's node is gone.
    anybody_writes_to_nodes: waiters(2).settling().with(&[Break, Write]), 90_124,
        [HolderTold, DeletedAfterAWrite, GrantByRelease];
    anybody_writes_to_the_nodes_of_three: waiters(3).patient().settling().with(&[Write]), 265_243,
        [HolderTold, DeletedAfterAWrite, GrantByRelease];
    /// As [`an_operator_deletes_nodes`], by ending a session whose lease is valid and whose client is connected.
    an_operator_ends_sessions:
        waiters(2).patient().following(&[0]).settling().with(&[Break, Eviction]), 489_182,
        [GuardLost, ServedAfterItsEnd, AnswerFromThePast];
    /// The delay may take any time, and whatever can happen happens meanwhile.
    waiters_delay_their_takeover: waiters(2).delayed().with(&[Break, Lapse, Expiry]), 118_203,
        [TakeoverDelayed, GuardLost, GrantByRelease, GiveUpWhileDelayed];
    three_waiters_delay_their_takeover: waiters(3).patient().delayed().with(&[Lapse, Expiry]), 267_064,
        [TakeoverDelayed, GuardLost, GrantByRelease];
    /// Two hold the lock for a while, and then the one whose grant was forged knows.
    somebody_forges_a_release: forged().with(&[Break]), 134_220, [ReleaseForged, ForgeryFound, GrantByRelease];
    /// The contender looks before its grant.
    somebody_forges_a_release_and_waiters_delay_their_takeover:
        forged().delayed().with(&[Lapse, Expiry]), 94_772, [ReleaseForged, TakeoverDelayed, GuardLost];
    another_client_contends: mixed(Make::Foreign).with(&[Lapse, Expiry]), 61_016,
        [ForeignerMet, ForeignerHeldNext, GuardLost, GrantByRelease];
    another_client_contends_under_names_like_ours: mixed(Make::Lookalike).counting().with(&[Break]), 39_903,
        [ForeignerMet, ForeignerHeldNext, GrantByRelease, RecoveryFindsNode];
    another_client_contends_while_a_follower_is_behind:
        mixed(Make::Foreign).counting().following(&[0]).with(&[Lapse]), 72_865,
        [ForeignerMet, ForeignerHeldNext, GuardLost, AnswerFromThePast];
    /// An ask is a child of the directory, takes a number, and is no contender.
    somebody_asks_the_holder_to_let_go: asked().with(&[Break]), 51_045,
        [AskCounted, GrantByCount, GrantByListing, GrantByRelease, RecoveryFindsNode];
    somebody_asks_while_a_follower_is_behind: asked().patient().following(&[0]).with(&[Lapse]), 54_598,
        [AskCounted, AnswerFromThePast, GuardLost, GrantByRelease];
    callers_stop_polling: neglectful().with(&[Return]), 42_070,
        [Evicted, PolledAgain, GrantByRelease, GiveUpWhileEntering, GiveUpWhileWaiting];
    callers_stop_polling_while_sessions_end:
        waiters(2).patient().with(&[Neglect, Return, Break, Lapse, Expiry]), 117_609,
        [Evicted, PolledAgain, GiveUpOnceGranted, RecoveryFindsNode, GuardLost];
    /// The first contender's session is at a follower, which has everything some time later.
    a_contender_is_at_a_follower: waiters(2).following(&[0]), 3_610,
        [AnswerFromThePast, GrantByRelease, GrantByListing, GrantByCount];
    three_contenders_and_a_follower: waiters(3).patient().following(&[0, 1]), 28_613,
        [AnswerFromThePast, GrantByRelease];
    contenders_move_between_servers: waiters(2).patient().following(&[0]).with(&[Break]), 20_444,
        [AnswerFromThePast, MovedToFollower, MovedToLeader, RecoveryFindsNode, RecoveryFindsNone];
    /// A follower serves a session that the leader has ended.
    a_session_ends_unnoticed: waiters(2).patient().following(&[0]).with(&[Lapse, Expiry]), 7_174,
        [AnswerFromThePast, ServedAfterItsEnd, GuardLost];
    /// With the production lease, and a leader that expires sessions by what it has heard of them.
    leases_are_kept_by_the_clock: timed(5).with(&[Beat]), 64_361, [GuardLost, LeaseExtended];
    /// A guard ends at its limit while its lease lasts, or by its lease before.
    guards_end_at_their_limits: timed(5).limited(2).with(&[Beat]), 76_435, [LimitReached, GuardLost];
    leases_are_kept_where_servers_have_different_limits: clipped(5).with(&[Break]), 149_144,
        [GuardLost, MovedToLeader, MovedToFollower];
    leases_are_kept_though_a_request_to_resume_arrives_late: clipped(6).with(&[Break, Half]), 562_780,
        [GuardLost, ResumedLate, MovedToFollower];
    leases_are_kept_though_sessions_are_resumed_as_they_expire: timed(5).with(&[Break, Race]), 275_054,
        [GuardLost, MovedToLeader];
    leases_are_kept_though_the_leaders_clock_is_fast: gaining(), 35_311, [GuardLost];
}

/// Models of millions of states.
#[cfg(not(debug_assertions))]
mod at_large {
    use super::*;

    explored! {
        three_waiters_under_every_fault_of_their_sessions:
            waiters(3).counting().with(&[Break, Lapse, Expiry]), 17_368_148,
            [GuardLost, GrantAfterLapse, GrantByListing, GrantByRelease, RecoveryFindsNode, RemovalFoundDone];
        three_waiters_that_delay_give_up_and_expire:
            waiters(3).counting().delayed().with(&[Lapse, Expiry]), 1_704_184,
            [TakeoverDelayed, GiveUpWhileDelayed, GiveUpWhileWaiting, GuardLost, GrantAfterLapse];
        three_wait_and_one_tries: of(vec![waits(0), tries(1), waits(2), waits(3)]).patient(), 1_199_389,
            [GrantByRelease, GrantByListing, GrantByCount, Busy];
        four_waiters_give_up_at_any_time: waiters(4).counting(), 20_899_167,
            [GrantByRelease, GrantByCount, GiveUpWhileEntering, GiveUpWhileWaiting];
        three_waiters_give_up_while_anybody_writes_to_their_nodes:
            waiters(3).counting().with(&[Write]), 606_654,
            [DeletedAfterAWrite, GrantByRelease, GiveUpWhileWaiting];
        leases_are_kept_though_streams_stand_still: timed(5).with(&[Beat, Stall, Stall]), 14_049_281,
            [GuardLost, LeaseExtended, ServedAfterItsEnd];
        guards_end_at_their_limits_though_streams_stand_still: timed(5).limited(2).with(&[Beat, Stall]), 2_391_183,
            [LimitReached, GuardLost, ServedAfterItsEnd];
        a_delay_of_a_session_timeout_outlasts_what_an_operator_ends: evicted(6), 7_136_140,
            [ServedAfterItsEnd, TakeoverDelayed, GuardLost];
        leases_are_kept_though_connections_break: timed(5).with(&[Beat, Break, Stall]), 36_409_795,
            [GuardLost, LeaseExtended, MovedToLeader, MovedToFollower];
        three_contenders_two_at_a_follower_under_every_fault_of_their_sessions:
            waiters(3).patient().following(&[0, 1]).with(&[Break, Lapse, Expiry]), 25_608_779,
            [AnswerFromThePast, ServedAfterItsEnd, MovedToFollower, MovedToLeader, GuardLost];
        leases_are_kept_under_every_fault_of_limits_and_late_requests:
            clipped(5).with(&[Break, Half, Race]), 369_557,
            [GuardLost, ResumedLate, MovedToLeader, MovedToFollower];
        anybody_writes_to_nodes_while_connections_break:
            waiters(3).patient().settling().with(&[Break, Write]), 3_977_272,
            [HolderTold, DeletedAfterAWrite, GrantByRelease, RecoveryFindsNode];
        another_client_contends_under_every_fault_of_sessions:
            mixed(Make::Foreign).counting().with(&[Break, Lapse, Expiry]), 319_138,
            [ForeignerMet, ForeignerHeldNext, GuardLost, GrantByRelease, RecoveryFindsNode];
        three_waiters_whose_directory_is_reaped_and_whose_connections_break:
            waiters(3).counting().reaped().with(&[Break]), 2_376_592,
            [DirectoryReset, RecoveryFindsNode, RecoveryFindsNone, RemovalFoundDone, StrayCreate];
    }
}
