//! Readers and writers of one queue.

use zklock_recipe::{Look, Takeover};

use super::contest::{DELAYED, IN_VAIN, ONE_HOLDER, UNASKED};
use super::findings::Witness::*;
use super::mutant::Mutant;
use super::setup::{Clock, Faults, Flaw, Setup, mutated, of, patient, reads, tries, waits, weakened, with};
use super::step::Step;
use crate::world::exploration::{explore, refute};

fn breaks() -> Faults {
    Faults { breaks: 1, ..Faults::default() }
}

fn sessions_end() -> Faults {
    Faults { lapses: 1, expiries: 1, ..Faults::default() }
}

/// One writer and two readers. Each may come first.
fn one_writer() -> Setup {
    of(vec![waits(0), reads(1), reads(2)])
}

/// Two writers and one reader.
fn two_writers() -> Setup {
    of(vec![waits(0), waits(1), reads(2)])
}

#[cfg(not(debug_assertions))]
fn two_of_each() -> Setup {
    of(vec![waits(0), waits(1), reads(2), reads(3)])
}

fn counting(setup: Setup) -> Setup {
    Setup { looks: vec![Look::Count], ..setup }
}

/// Nobody gives up, and each looks at the queue by a listing.
fn listing(setup: Setup) -> Setup {
    Setup { looks: vec![Look::List], ..patient(setup) }
}

fn delayed(setup: Setup) -> Setup {
    Setup { takeover: Takeover::Delayed, ..setup }
}

#[test]
fn readers_hold_the_lock_beside_each_other() {
    let setup = Setup { giving_up: false, ..one_writer() };
    explore(setup, 51_882, &[ReaderGrantedByRelease, GrantBesideAnother, GrantByListing, GrantByCount]);
}

#[test]
fn readers_and_a_writer_give_up_at_any_time() {
    explore(
        counting(one_writer()),
        110_886,
        &[ReaderGrantedByRelease, GrantBesideAnother, GiveUpWhileEntering, GiveUpWhileWaiting],
    );
}

#[test]
fn writers_give_up_before_a_reader() {
    explore(
        counting(two_writers()),
        116_590,
        &[ReaderGrantedByRelease, GrantByRelease, GiveUpWhileEntering, GiveUpWhileWaiting],
    );
}

#[test]
fn a_reader_and_a_writer_try() {
    let mut reader = reads(1);
    reader.patience = tries(1).patience;
    let setup = of(vec![waits(0), reader, tries(2)]);
    explore(patient(setup), 16_372, &[Busy, GrantByListing, GrantByCount]);
}

#[test]
fn the_connection_of_a_reader_or_a_writer_breaks() {
    explore(
        with(breaks(), patient(one_writer())),
        240_289,
        &[
            ReaderGrantedByRelease,
            GrantBesideAnother,
            RecoveryFindsNode,
            RemovalFoundDone,
            PredecessorVanishedWhileDisconnected,
            GoneBetweenItsWatches,
        ],
    );
}

#[test]
fn readers_delay_their_takeover() {
    explore(
        delayed(with(sessions_end(), patient(of(vec![waits(0), reads(1)])))),
        3_404,
        &[TakeoverDelayed, ReaderGrantedByRelease, GuardLost],
    );
}

/// A reader, a writer, a reader and a writer have come in this order. Any of them may give up or vanish.
fn in_turns() -> Setup {
    let closings = Faults { closings: 1, ..Faults::default() };
    let opening = (0..4).map(|party| Step::Begin(party, Look::Count)).collect();
    let setup = of(vec![reads(0), waits(1), reads(2), waits(3)]);
    delayed(with(closings, Setup { opening, ..counting(setup) }))
}

#[test]
fn readers_vanish_and_writers_give_up_in_turns() {
    let occurrences = [GuardVanished, TakeoverDelayed, GiveUpWhileWaiting, GrantBesideAnother];
    explore(in_turns(), 23_832, &occurrences);
    refute(mutated(Mutant::ForgetsEarlyReaders, in_turns()), DELAYED);
}

#[test]
fn a_reader_is_at_a_follower() {
    let setup = Setup { following: vec![1], ..patient(one_writer()) };
    explore(setup, 46_991, &[AnswerFromThePast, ReaderGrantedByRelease, GrantBesideAnother]);
}

/// A write to a reader's node grants nobody, and neither does one to the writer's before its node is gone.
#[test]
fn anybody_writes_to_the_nodes_of_a_reader_and_a_writer() {
    let setup = Setup { settling: true, ..of(vec![waits(0), reads(1)]) };
    explore(
        with(Faults { writes: 1, ..breaks() }, setup),
        98_534,
        &[HolderTold, DeletedAfterAWrite, ReaderGrantedByRelease],
    );
}

/// A holder's session is ended by an operator, while its server hears of nothing: its guard is valid until the lease ends.
/// The first contender is at the follower.
fn evicted(end: u8, setup: Setup) -> Setup {
    let clock = Clock { end, timeout: 3, lower: 3, drift_ppm: 0 };
    let faults = Faults { evictions: 1, stalls: 1, ..Faults::default() };
    let setup = Setup { clock: Some(clock), following: vec![0], ..delayed(patient(setup)) };
    with(faults, setup)
}

/// A writer vanishes, and one reader that waits for it delays its takeover. Another one may come meanwhile, and waits as
/// well.
fn a_writer_vanishes(end: u8) -> Setup {
    evicted(end, of(vec![waits(0), reads(1), reads(2)]))
}

/// A reader vanishes that a writer has seen, while the writer watches another one.
fn a_reader_vanishes(end: u8) -> Setup {
    evicted(end, of(vec![reads(0), reads(1), waits(2)]))
}

#[test]
fn a_delay_that_is_shorter_has_readers_overlap_a_writer() {
    refute(weakened(Flaw::DelayIsTooShort, a_writer_vanishes(3)), ONE_HOLDER);
    refute(weakened(Flaw::DelayIsTooShort, a_reader_vanishes(4)), ONE_HOLDER);
}

/// A reader, a writer, a reader and a writer have come in this order, and the first writer has given up. So the second
/// reader holds the lock beside the first one. Now the first one may vanish, and nobody watches it.
fn a_reader_vanishes_before_a_writer(end: u8) -> Setup {
    let setup = evicted(end, of(vec![reads(0), waits(1), reads(2), waits(3)]));
    let clock = Clock { end, timeout: 4, lower: 4, drift_ppm: 0 };
    let begin = |party| Step::Begin(party, Look::Count);
    let later = [Step::Tick, Step::Ping];
    // The lease of the first reader outlasts the delay of the second one.
    let opening = [
        &[begin(0), begin(1), begin(2), begin(3), Step::GiveUp(1)][..],
        &later,
        &[Step::Beat(0)],
        &later,
        &later,
        &[Step::Beat(0)],
        &later,
        &[Step::DelayOver(2, 0)],
    ];
    let faults = Faults { beats: 2, ..setup.faults };
    Setup { opening: opening.concat(), clock: Some(clock), faults, ..setup }
}

/// The next writer has seen the first reader in front of it, and nobody has seen it go. So it waits for the delay.
#[test]
fn a_reader_vanishes_that_was_in_front_of_a_writer_that_gave_up() {
    let setup = a_reader_vanishes_before_a_writer(8);
    explore(setup, 47_869, &[TakeoverDelayed, GuardLost, ServedAfterItsEnd]);
}

#[cfg(not(debug_assertions))]
mod at_large {
    use super::*;

    #[test]
    fn two_writers_and_two_readers() {
        explore(
            listing(two_of_each()),
            626_719,
            &[ReaderGrantedByRelease, GrantBesideAnother, GrantByRelease],
        );
    }

    #[test]
    fn two_writers_and_two_readers_close_a_session() {
        let closings = Faults { closings: 1, ..Faults::default() };
        let occurrences = [ReaderGrantedByRelease, GrantBesideAnother, GrantByRelease];
        explore(with(closings, listing(two_of_each())), 2_207_750, &occurrences);
    }

    /// They have come in turns, and may give up.
    #[test]
    fn two_writers_and_two_readers_under_every_fault_of_their_sessions() {
        let opening = [0, 2, 1, 3].map(|party| Step::Begin(party, Look::List)).to_vec();
        let faults = Faults { breaks: 1, ..sessions_end() };
        explore(
            with(faults, Setup { opening, giving_up: true, ..listing(two_of_each()) }),
            621_770,
            &[ReaderGrantedByRelease, RemovalFoundDone, GuardLost, GrantAfterLapse],
        );
    }

    #[test]
    fn anybody_writes_to_the_nodes_of_two_writers_and_two_readers() {
        let writes = Faults { writes: 1, ..Faults::default() };
        let occurrences = [ReaderGrantedByRelease, DeletedAfterAWrite];
        explore(with(writes, listing(two_of_each())), 3_466_877, &occurrences);
    }

    #[test]
    fn one_of_two_readers_behind_two_writers_is_at_a_follower() {
        let setup = Setup { following: vec![2], ..listing(two_of_each()) };
        explore(setup, 2_252_115, &[AnswerFromThePast, ReaderGrantedByRelease, GrantBesideAnother]);
    }

    #[test]
    fn readers_and_a_writer_lose_their_sessions() {
        explore(
            with(sessions_end(), patient(one_writer())),
            226_283,
            &[ReaderGrantedByRelease, GrantBesideAnother, GuardLost, GrantAfterLapse],
        );
    }

    #[test]
    fn two_writers_and_a_reader_delay_their_takeover() {
        explore(
            delayed(with(sessions_end(), patient(two_writers()))),
            306_741,
            &[ReaderGrantedByRelease, TakeoverDelayed, GuardLost],
        );
    }
}

#[test]
fn every_mutant_is_caught() {
    super::broken::refute_each(mutants());
}

/// Each fault that a reader, or a writer among readers, can have.
pub(crate) fn mutants() -> Vec<(Mutant, Setup, &'static str)> {
    let closings = Faults { closings: 1, ..Faults::default() };
    vec![
        (Mutant::TakesReadersForHolders, patient(one_writer()), ONE_HOLDER),
        (Mutant::ReaderTrustsDeletions, with(closings, patient(two_writers())), ONE_HOLDER),
        (Mutant::ReaderPassesWritersOver, patient(one_writer()), ONE_HOLDER),
        (Mutant::ReaderWaitsForReaders, listing(one_writer()), IN_VAIN),
        (Mutant::ReaderLooksOn, listing(two_writers()), UNASKED),
        (Mutant::ForgetsEarlyReaders, a_reader_vanishes_before_a_writer(6), ONE_HOLDER),
        (Mutant::ReaderJoinsAtOnce, a_writer_vanishes(2), ONE_HOLDER),
    ]
}
