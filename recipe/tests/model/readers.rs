//! Readers and writers of one queue.

use super::contest::{DELAYED, IN_VAIN, ONE_HOLDER, UNASKED};
use super::exploration::{explored, refute, refute_each};
use super::findings::Witness::*;
use super::mutant::Mutant;
use super::setup::{Actor, Clock, Fault::*, Flaw, Look, Setup, of, reads, tries, waits};
use super::step::Step;

/// One writer and two readers. Each may come first.
fn one_writer() -> Setup {
    of(vec![waits(0), reads(1), reads(2)])
}

/// Two writers and one reader.
fn two_writers() -> Setup {
    of(vec![waits(0), waits(1), reads(2)])
}

/// Nobody gives up, and each looks at the queue by a listing.
fn listing(setup: Setup) -> Setup {
    Setup { looks: vec![Look::List], ..setup.patient() }
}

explored! {
    readers_hold_the_lock_beside_each_other: Setup { giving_up: false, ..one_writer() }, 37_140,
        [ReaderGrantedByRelease, GrantBesideAnother, GrantByListing, GrantByCount];
    readers_and_a_writer_give_up_at_any_time: one_writer().counting(), 142_313,
        [ReaderGrantedByRelease, GrantBesideAnother, GiveUpWhileEntering, GiveUpWhileWaiting];
    writers_give_up_before_a_reader: two_writers().counting(), 153_026,
        [ReaderGrantedByRelease, GrantByRelease, GiveUpWhileEntering, GiveUpWhileWaiting];
    a_reader_and_a_writer_try:
        of(vec![waits(0), Actor { patience: tries(1).patience, ..reads(1) }, tries(2)]).patient(), 16_603,
        [Busy, GrantByListing, GrantByCount];
    the_connection_of_a_reader_or_a_writer_breaks: one_writer().patient().with(&[Break]), 240_289,
        [ReaderGrantedByRelease, GrantBesideAnother, RecoveryFindsNode, RemovalFoundDone,
         PredecessorVanishedWhileDisconnected, GoneBetweenItsWatches];
    readers_delay_their_takeover:
        of(vec![waits(0), reads(1)]).patient().delayed().with(&[Lapse, Expiry]), 3_404,
        [TakeoverDelayed, ReaderGrantedByRelease, GuardLost];
}

/// A reader, a writer, a reader and a writer have come in this order. Any of them may give up or vanish.
fn in_turns() -> Setup {
    let opening = (0..4).map(Step::Begin).collect();
    let setup = of(vec![reads(0), waits(1), reads(2), waits(3)]);
    Setup { opening, ..setup.counting().delayed().with(&[Closing]) }
}

explored! {
    readers_vanish_and_writers_give_up_in_turns: in_turns(), 21_843,
        [GuardVanished, TakeoverDelayed, GiveUpWhileWaiting, GrantBesideAnother];
    a_reader_is_at_a_follower: one_writer().patient().following(&[1]), 48_087,
        [AnswerFromThePast, ReaderGrantedByRelease, GrantBesideAnother];
    /// A write to a reader's node grants nobody, and neither does one to the writer's before its node is gone.
    anybody_writes_to_the_nodes_of_a_reader_and_a_writer:
        of(vec![waits(0), reads(1)]).settling().with(&[Break, Write]), 88_495,
        [HolderTold, DeletedAfterAWrite, ReaderGrantedByRelease];
}

/// A holder's session is ended by an operator, while its server hears of nothing: its guard is valid until the lease ends.
/// The first contender is at the follower.
fn evicted(end: u8, contenders: Vec<Actor>) -> Setup {
    let clock = Some(Clock { end, timeout: 3, lower: 3, drift_ppm: 0 });
    Setup { clock, ..of(contenders).patient().delayed().following(&[0]).with(&[Eviction, Stall]) }
}

/// A writer vanishes, and one reader that waits for it delays its takeover. Another one may come meanwhile, and waits as
/// well.
fn a_writer_vanishes(end: u8) -> Setup {
    evicted(end, vec![waits(0), reads(1), reads(2)])
}

/// A reader vanishes that a writer has seen, while the writer watches another one.
fn a_reader_vanishes(end: u8) -> Setup {
    evicted(end, vec![reads(0), reads(1), waits(2)])
}

#[test]
fn a_delay_that_is_shorter_has_readers_overlap_a_writer() {
    refute(a_writer_vanishes(3).weakened(Flaw::DelayIsTooShort), ONE_HOLDER);
    refute(a_reader_vanishes(4).weakened(Flaw::DelayIsTooShort), ONE_HOLDER);
}

/// A reader, a writer, a reader and a writer have come in this order, and the first writer has given up. So the second
/// reader holds the lock beside the first one. Now the first one may vanish, and nobody watches it.
fn a_reader_vanishes_before_a_writer(end: u8) -> Setup {
    let setup = evicted(end, vec![reads(0), waits(1), reads(2), waits(3)]).with(&[Beat, Beat]);
    let clock = Clock { end, timeout: 4, lower: 4, drift_ppm: 0 };
    let later = [Step::Tick, Step::Ping];
    // The lease of the first reader outlasts the delay of the second one.
    let opening = [
        &[Step::Begin(0), Step::Begin(1), Step::Begin(2), Step::Begin(3), Step::GiveUp(1)][..],
        &later,
        &[Step::Beat(0)],
        &later,
        &later,
        &[Step::Beat(0)],
        &later,
        &[Step::DelayOver(2, 0)],
    ];
    Setup { opening: opening.concat(), clock: Some(clock), ..setup }
}

explored! {
    /// The next writer has seen the first reader in front of it, and nobody has seen it go. So it waits for the delay.
    a_reader_vanishes_that_was_in_front_of_a_writer_that_gave_up:
        a_reader_vanishes_before_a_writer(8), 47_869, [TakeoverDelayed, GuardLost, ServedAfterItsEnd];
}

#[cfg(not(debug_assertions))]
mod at_large {
    use super::*;

    fn two_of_each() -> Setup {
        listing(of(vec![waits(0), waits(1), reads(2), reads(3)]))
    }

    explored! {
        two_writers_and_two_readers_close_a_session: two_of_each().with(&[Closing]), 2_229_453,
            [ReaderGrantedByRelease, GrantBesideAnother, GrantByRelease];
        /// They have come in turns, and may give up.
        two_writers_and_two_readers_under_every_fault_of_their_sessions: Setup {
            opening: [0, 2, 1, 3].map(Step::Begin).to_vec(),
            giving_up: true,
            ..two_of_each().with(&[Break, Lapse, Expiry])
        }, 602_118,
            [ReaderGrantedByRelease, RemovalFoundDone, GuardLost, GrantAfterLapse];
        anybody_writes_to_the_nodes_of_two_writers_and_two_readers: two_of_each().with(&[Write]), 3_491_834,
            [ReaderGrantedByRelease, DeletedAfterAWrite];
        one_of_two_readers_behind_two_writers_is_at_a_follower: two_of_each().following(&[2]), 2_331_712,
            [AnswerFromThePast, ReaderGrantedByRelease, GrantBesideAnother];
        readers_and_a_writer_lose_their_sessions: one_writer().patient().with(&[Lapse, Expiry]), 226_283,
            [ReaderGrantedByRelease, GrantBesideAnother, GuardLost, GrantAfterLapse];
        two_writers_and_a_reader_delay_their_takeover:
            two_writers().patient().delayed().with(&[Lapse, Expiry]), 317_292,
            [ReaderGrantedByRelease, TakeoverDelayed, GuardLost];
    }
}

#[test]
fn every_mutant_is_caught() {
    refute_each([
        (Mutant::TakesReadersForHolders, one_writer().patient(), ONE_HOLDER),
        (Mutant::ReaderTrustsDeletions, two_writers().patient().with(&[Closing]), ONE_HOLDER),
        (Mutant::ReaderPassesWritersOver, one_writer().patient(), ONE_HOLDER),
        (Mutant::ReaderWaitsForReaders, listing(one_writer()), IN_VAIN),
        (Mutant::ReaderLooksOn, listing(two_writers()), UNASKED),
        (Mutant::ForgetsEarlyReaders, in_turns(), DELAYED),
        (Mutant::ForgetsEarlyReaders, a_reader_vanishes_before_a_writer(6), ONE_HOLDER),
        (Mutant::ReaderJoinsAtOnce, a_writer_vanishes(2), ONE_HOLDER),
    ]);
}
