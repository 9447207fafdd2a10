//! By hand: clocks in milliseconds, whose leader has the epoch 1 or 2. A transaction has the number of its time.

use zklock_recipe::Moment;

use super::*;

fn ms(time: i64) -> i64 {
    time * MILLISECOND
}

fn moment(time: i64) -> Moment {
    let time = ms(time).unsigned_abs();
    (time, time).into()
}

/// A stamp of this leader, by a request that was sent then and answered a millisecond later.
fn stamp(leader: i64, sent: i64, time: i64) -> (usize, Stamp) {
    let (sent, answered) = (moment(sent), moment(sent + 1));
    (
        0,
        Stamp {
            session: 0,
            sent,
            answered,
            time,
            zxid: leader << 32 | time,
            releases: None,
            written: Vec::new(),
        },
    )
}

/// Clocks of machines with these stamps. None was suspended.
fn clocks(all: &[&[(usize, Stamp)]]) -> Clocks {
    let boots = (0..all.len()).map(|place| place.to_string()).collect::<Vec<_>>();
    let readings = all.iter().zip(&boots).map(|(stamps, boot)| Reading { boot, stamps, suspended: &[] });
    Clocks::new(&readings.collect::<Vec<_>>())
}

/// The time between two instants, in whole milliseconds: at the least and at the most.
fn between(clocks: &Clocks, from: (usize, i64), to: (usize, i64)) -> Option<(i64, i64)> {
    let found = clocks.between((from.0, ms(from.1)), (to.0, ms(to.1)))?;
    Some((found.least.div_euclid(MILLISECOND), (found.most + MILLISECOND - 1).div_euclid(MILLISECOND)))
}

/// Stamps of a machine whose clock began so long before the leader's, at these instants by its own.
fn regular(ahead: i64, times: &[i64]) -> Vec<(usize, Stamp)> {
    times.iter().map(|time| stamp(1, *time, time + ahead)).collect()
}

#[test]
fn two_clocks_are_related_by_what_the_leader_showed_to_both() {
    let (one, other) = (regular(10_000, &[500, 1_500]), regular(9_000, &[1_400, 2_600]));
    let clocks = clocks(&[&one, &other]);
    let (least, most) = between(&clocks, (0, 1_000), (1, 2_000)).unwrap();
    assert!(least <= 0 && 0 <= most && most - least <= 8, "{least} {most}");
    assert_eq!(between(&clocks, (0, 500), (0, 600)), Some((100, 100)), "one process has one clock");
}

/// A virtual machine may be paused with all its clocks. Then it falls behind.
#[test]
fn nothing_is_known_behind_the_last_stamp_and_before_the_first() {
    let (one, other) = (regular(10_000, &[500, 1_500]), regular(10_000, &[0, 9_000]));
    let known = clocks(&[&one, &other]);
    let at = |time| between(&known, (0, time), (1, 5_000)).is_some();
    assert_eq!([499, 500, 501, 1_500, 1_501].map(at), [false, false, true, true, false]);
    assert_eq!(known.known(0), Some((ms(501), ms(1_500))));
    // A later stamp shows a pause of a second, for which the drift of an hour has room.
    let paused = [stamp(1, 0, 10_000), stamp(1, 3_600_000, 3_611_000)];
    let known = clocks(&[&paused, &regular(10_000, &[0, 9_000])]);
    let (least, most) = between(&known, (0, 2_000), (1, 2_000)).unwrap();
    assert!(least <= -1_000 && 0 <= most, "paused before or behind: {least} {most}");
}

#[test]
fn processes_of_one_machine_have_one_clock() {
    let [one, other, third] = [&[500][..], &[1_500], &[0, 9_000]].map(|times| regular(10_000, times));
    let read = |boot, stamps| Reading { boot, stamps, suspended: &[] };
    let pooled = Clocks::new(&[read("a", &one), read("a", &other), read("b", &third)]);
    assert!(between(&pooled, (0, 1_000), (2, 1_000)).is_some());
    let apart = Clocks::new(&[read("a", &one), read("c", &other), read("b", &third)]);
    assert!(between(&apart, (0, 1_000), (2, 1_000)).is_none());
}

/// If the leader's clock is slewed for a moment, an instant before that is near the first stamp and far from the second.
#[test]
fn what_is_between_two_stamps_may_be_as_either() {
    let slewed = [stamp(1, 0, 10_000), stamp(1, 15_000, 25_012)];
    let known = clocks(&[&slewed, &regular(10_000, &[0, 20_000])]);
    let (least, most) = between(&known, (0, 14_000), (1, 14_000)).unwrap();
    assert!(least <= -12 && 0 <= most, "{least} {most}");
}

#[test]
fn a_stamp_that_was_under_way_for_long_does_not_hide_the_others() {
    let mut stamps = regular(10_000, &[500, 1_500, 3_000]);
    stamps.push((0, Stamp { answered: moment(2_000), ..stamp(1, 1_000, 11_001).1 }));
    let clocks = clocks(&[&stamps, &regular(10_000, &[0, 9_000])]);
    let (least, most) = between(&clocks, (0, 2_500), (1, 2_500)).unwrap();
    assert!(least <= 0 && 0 <= most && most - least <= 20, "{least} {most}");
}

/// Somebody has set the leader's clock, and one machine shows it.
#[test]
fn a_contradiction_in_anybodys_stamps_cuts_the_leaders_clock_for_all() {
    let shows = [stamp(1, 0, 10_000), stamp(1, 1_000, 12_000), stamp(1, 3_000, 14_000)];
    let early = regular(10_000, &[0, 1_900]);
    let late = regular(10_000, &[2_100, 3_000]);
    let all = clocks(&[&shows, &early, &late]);
    assert_eq!(between(&all, (0, 500), (1, 500)), None);
    assert_eq!(between(&all, (1, 500), (1, 600)), Some((100, 100)));
    assert_eq!(between(&all, (1, 500), (2, 2_500)), None, "the step is between them");
    let (least, most) = between(&all, (0, 1_500), (2, 2_500)).unwrap();
    assert!(least <= 0 && 0 <= most && most - least <= 10, "{least} {most}");
    let without = clocks(&[&early, &late]);
    assert!(between(&without, (0, 500), (1, 2_500)).is_some());
    // A later transaction has an earlier time.
    let back = Stamp { zxid: 1 << 32 | 11_950, time: 11_000, ..stamp(1, 5_000, 0).1 };
    let all = clocks(&[&[(0, back)], &early, &late]);
    assert_eq!(between(&all, (1, 500), (2, 2_500)), None);
}

#[test]
fn a_suspension_parts_only_the_clock_of_its_machine() {
    let stamps = [stamp(1, 0, 10_000), stamp(1, 400, 10_400), stamp(1, 700, 70_700), stamp(1, 900, 70_900)];
    let others = regular(10_000, &[0, 80_000]);
    let suspended = [(ms(500), ms(600))];
    let read = |boot, stamps, suspended| Reading { boot, stamps, suspended };
    let clocks = Clocks::new(&[read("a", &stamps, &suspended), read("b", &others, &[])]);
    let known = |time| between(&clocks, (0, time), (1, 30_000)).is_some();
    assert_eq!([200, 450, 550, 650, 800].map(known), [true, false, false, false, true]);
}

#[test]
fn each_ensemble_has_its_own_leaders() {
    let (one, other) = (regular(10_000, &[0, 9_000]), regular(10_000, &[0, 9_000]));
    let other = other.into_iter().map(|(_, stamp)| (1, stamp)).collect::<Vec<_>>();
    assert_eq!(between(&clocks(&[&one, &other]), (0, 500), (1, 500)), None);
    let second = [stamp(2, 0, 10_000), stamp(2, 9_000, 19_000)];
    assert_eq!(between(&clocks(&[&one, &second]), (0, 500), (1, 500)), None);
}
