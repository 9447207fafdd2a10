//! Contenders that wait for several locks at once.

use super::contest::{CAUSED, FIRST_IS_TOLD, GRANTED, NO_ORPHAN, NOT_ANOTHERS, ONE_HOLDER, STUCK};
use super::exploration::{explored, refute_each};
use super::findings::Witness::*;
use super::mutant::Mutant;
use super::setup::{Actor, Fault::*, Flaw, Setup, of, reader, tries, waits, waits_for, writer};

/// Two that wait for the same two locks, and name them in opposite order.
fn opposite() -> Setup {
    of(vec![waits_for_both(0), waits_for(1, &[writer(1), writer(0)])])
}

/// Each reads in one queue and writes in the other.
fn mixed() -> Setup {
    of(vec![waits_for(0, &[reader(0), writer(1)]), waits_for(1, &[reader(1), writer(0)])])
}

/// One that waits for two locks, and one for each of these alone.
fn among_plain() -> Setup {
    of(vec![waits_for_both(0), waits(1), waits_for(2, &[writer(1)])])
}

/// One that waits for two locks, and nobody else.
fn lonely() -> Setup {
    of(vec![waits_for_both(0)])
}

fn waits_for_both(session: usize) -> Actor {
    waits_for(session, &[writer(0), writer(1)])
}

explored! {
    two_wait_for_two_locks_in_opposite_order: opposite(), 31_254,
        [GrantByRelease, GrantByListing, GrantByCount, GiveUpWhileEntering, GiveUpWhileWaiting];
    two_that_wait_for_two_locks_lose_their_connections: opposite().patient().with(&[Break]), 24_267,
        [GrantByRelease, RecoveryFindsNode, RecoveryFindsNone, RemovalFoundDone, RemovalFoundUndone];
    two_that_wait_for_two_locks_lose_their_sessions: opposite().counting().with(&[Lapse, Expiry]), 81_861,
        [GuardLost, GrantAfterLapse, GiveUpOnceGranted, GrantByRelease];
    two_that_wait_for_two_locks_delay_their_takeover:
        opposite().patient().delayed().with(&[Lapse, Expiry]), 26_047,
        [TakeoverDelayed, GuardLost, GrantByRelease];
    /// The others of its nodes do not stay behind: neither when it holds, nor when it waits, nor when it leaves.
    an_operator_deletes_one_node_of_several: opposite().patient().settling().with(&[Deletion]), 53_227,
        [HolderTold, ToldByMissingNode, ReleaseFindsNone];
    /// It is first in one queue and waits in the other, and is told at once.
    an_operator_deletes_the_node_of_a_member_that_is_first:
        of(vec![waits_for_both(0), waits(1)]).patient().with(&[Deletion, Break]), 53_330,
        [FirstAmongWaiting, ToldBeforeTheGrant, ToldByMissingNode];
}

/// An operator removes the common ancestor of both queues, and both are made again. Another contender has the names of the
/// holder's nodes by then.
fn uprooted() -> Setup {
    opposite().patient().settling().with(&[Uprooting])
}

explored! {
    /// The holder is told of one node, and looks at the other one before it removes the node of that name.
    an_operator_removes_the_directories_of_several_locks: uprooted(), 57_117,
        [HolderTold, DirectoryCreated, DirectoryReset, LookFindsNone];
    directories_of_several_locks_are_created_and_reaped: opposite().patient().reaped().with(&[Break]), 29_040,
        [DirectoryCreated, DirectoryReset, RecoveryFindsNode, RecoveryFindsNone, StrayCreate];
    one_of_two_that_wait_for_two_locks_is_at_a_follower:
        opposite().patient().following(&[0]).with(&[Break]), 113_641,
        [AnswerFromThePast, MovedToFollower, MovedToLeader, GrantByRelease];
    each_reads_in_one_queue_and_writes_in_the_other: mixed().patient().with(&[Break]), 21_235,
        [ReaderGrantedByRelease, RecoveryFindsNode, RemovalFoundDone];
    one_waits_for_two_locks_among_those_that_wait_for_one: among_plain().patient(), 30_730,
        [FirstAmongWaiting, GrantByRelease];
    several_locks_are_tried: of(vec![
        Actor { patience: tries(0).patience, ..waits_for_both(0) },
        waits_for_both(1),
        waits_for(2, &[writer(1)]),
    ]).patient(), 100_913,
        [Busy, GrantByListing];
}

/// The leader may carry a create out between two members' searches, because it heard of a connection that was left.
fn late_create() -> Setup {
    lonely().with(&[Break]).weakened(Flaw::CreatesComeLate)
}

explored! {
    a_create_that_comes_late_is_found_or_deleted: late_create(), 1_414, [RecoveryFindsNone, LateCreateSwept];
}

/// Each fault that a group can have.
#[test]
fn every_mutant_is_caught() {
    refute_each([
        // The models above would notice a deadlock.
        (Mutant::EnqueuesOneByOne, opposite().patient(), STUCK),
        (Mutant::EnqueuesOneByOne, opposite().patient(), GRANTED),
        (Mutant::TakesAllWithTheFirst, among_plain().patient(), ONE_HOLDER),
        (Mutant::LeavesOthersBehind, lonely().settling().with(&[Deletion]), NO_ORPHAN),
        (Mutant::NamesNodesBlindly, uprooted(), NOT_ANOTHERS),
        (Mutant::TrustsOneMembersSearch, lonely().with(&[Break, Deletion]), NO_ORPHAN),
        (Mutant::SearchesOnce, late_create(), CAUSED),
        (Mutant::ForgetsALateCreate, late_create(), NO_ORPHAN),
        (Mutant::RemembersThroughALoss, uprooted(), NOT_ANOTHERS),
        (Mutant::RemembersThroughAnEnd, uprooted(), NOT_ANOTHERS),
        (Mutant::IgnoresItsDeletedNode, among_plain().patient().with(&[Deletion]), FIRST_IS_TOLD),
    ]);
}

#[cfg(not(debug_assertions))]
mod at_large {
    use super::*;

    explored! {
        two_wait_for_two_locks_under_every_fault_of_their_sessions:
            opposite().patient().with(&[Break, Lapse, Expiry]), 250_357,
            [GuardLost, GrantAfterLapse, RecoveryFindsNode, RemovalFoundUndone];
        two_give_up_two_locks_while_their_connections_break: opposite().counting().with(&[Break]), 142_079,
            [GiveUpWhileEntering, GiveUpWhileWaiting, RecoveryFindsNode, StrayCreate];
        an_operator_deletes_one_node_of_several_while_connections_break:
            opposite().patient().settling().with(&[Break, Deletion]), 900_181,
            [HolderTold, ToldByMissingNode, ReleaseFindsNone, RecoveryFindsNode, RemovalFoundDone];
        an_operator_deletes_one_node_of_several_while_callers_give_up:
            opposite().counting().settling().with(&[Deletion]), 164_189,
            [HolderTold, ToldByMissingNode, ReleaseFindsNone, GiveUpWhileWaiting];
        one_gives_up_two_locks_among_those_that_wait_for_one: among_plain().counting(), 306_658,
            [FirstAmongWaiting, GiveUpWhileEntering, GiveUpWhileWaiting];
        one_waits_for_two_locks_among_others_while_connections_break:
            among_plain().patient().with(&[Break]), 491_471,
            [FirstAmongWaiting, RecoveryFindsNode, RemovalFoundDone];
        one_waits_for_two_locks_among_others_while_sessions_end:
            among_plain().patient().with(&[Lapse, Expiry]), 397_681,
            [FirstAmongWaiting, GuardLost, GrantAfterLapse];
        three_wait_for_two_locks: of(vec![
            waits_for_both(0),
            waits_for(1, &[writer(1), writer(0)]),
            waits_for_both(2),
        ]).patient(), 421_458,
            [GrantByRelease];
    }
}
