//! Relates the clocks of machines by the leader's clock.
//!
//! The reply to a write has the leader's time, in whole milliseconds. The leader took it between the instant when the request was sent
//! and the instant of its reply. So the distance of the leader's clock and the machine's own one (`CLOCK_MONOTONIC_RAW`, which nobody
//! slews) lies in an interval. All processes with one boot id have one such clock, so their stamps are pooled.
//!
//! A clock is known only between two stamps: the distance is between that of the stamp before and that of the stamp behind, or beyond
//! by [`DRIFT_PPM`] at most. This holds also if the leader's clock is slewed between the two, or the machine stands still for a moment
//! with all its clocks. Behind the last stamp and before the first one nothing is known.
//!
//! Stamps of one machine that contradict each other show that a clock was set, or is worse than that. It may be the leader's. So then
//! this leader's clock relates nobody's instants across the transactions between these two, and nobody's in between. The same holds
//! where a later transaction has an earlier time. If a machine was suspended, its clock stands still, which its two clocks show. Then
//! only its own clock is not known there.

use std::collections::BTreeMap;

use zklock_recipe::flight::Stamp;

/// By how much two clocks may part, in parts per million: each may be wrong by 500. NTP takes a clock that is off by more for broken.
const DRIFT_PPM: i64 = 1000;

const MILLISECOND: i64 = 1_000_000;

/// So many stamps on either side of an instant are tried: the nearest one may have been under way for long.
const NEAR: usize = 4;

/// Where something lies, at the least and at the most, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) least: i64,
    pub(crate) most: i64,
}

impl Interval {
    fn and(self, other: Self) -> Option<Self> {
        let (least, most) = (self.least.max(other.least), self.most.min(other.most));
        (least <= most).then_some(Self { least, most })
    }

    /// The interval that has both, and all that is between.
    fn or(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    fn minus(self, other: Self) -> Self {
        Self { least: self.least - other.most, most: self.most - other.least }
    }

    fn wider(self, by: i64) -> Self {
        Self { least: self.least - by, most: self.most + by }
    }

    fn width(self) -> i64 {
        self.most - self.least
    }

    /// The middle, and how far either end is from it.
    pub(crate) fn middle(self) -> (i64, i64) {
        (self.least + self.width() / 2, (self.width() + 1) / 2)
    }
}

fn drift(from: i64, to: i64) -> i64 {
    from.abs_diff(to).cast_signed() / 1_000_000 * DRIFT_PPM + DRIFT_PPM
}

/// The ensemble, and the epoch.
type Leader = (usize, i64);

/// The view that a process has of its machine's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    /// The machine, by its boot id.
    pub(crate) boot: &'a str,
    /// The stamps, each with its ensemble.
    pub(crate) stamps: &'a [(usize, Stamp)],
    /// The machine was suspended after the clock showed the first instant, and before it showed the second one.
    pub(crate) suspended: &'a [(i64, i64)],
}

/// A stamp: by how much the leader's clock was ahead at some instant between the two.
#[derive(Clone, Copy, Debug)]
struct Mark {
    sent: i64,
    answered: i64,
    zxid: i64,
    time: i64,
    ahead: Interval,
}

impl Mark {
    fn new(stamp: &Stamp) -> Self {
        let (sent, answered) = (raw(stamp.sent), raw(stamp.answered));
        let time = stamp.time.saturating_mul(MILLISECOND);
        let ahead = Interval { least: time - answered, most: time + MILLISECOND - sent };
        Self { sent, answered, zxid: stamp.zxid, time, ahead }
    }
}

/// The stamps of one machine by one leader.
#[derive(Debug, Default)]
struct Marks {
    by_sent: Vec<Mark>,
    by_answered: Vec<Mark>,
}

/// The clock of one leader.
#[derive(Debug, Default)]
struct Known {
    machines: BTreeMap<usize, Marks>,
    /// Between these transactions somebody's stamps contradict each other.
    cuts: Vec<(i64, i64)>,
}

/// The clocks of all machines.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// The machine of each process.
    machine: Vec<usize>,
    /// Where each machine was suspended.
    suspended: Vec<Vec<(i64, i64)>>,
    leaders: BTreeMap<Leader, Known>,
}

pub(crate) fn raw(moment: zklock_recipe::Moment) -> i64 {
    let (_, raw) = moment.into();
    raw.cast_signed()
}

impl Clocks {
    pub(crate) fn new(readings: &[Reading<'_>]) -> Self {
        let (mut boots, mut machine) = (BTreeMap::new(), Vec::new());
        let (mut suspended, mut leaders) = (Vec::new(), BTreeMap::<Leader, BTreeMap<_, Vec<_>>>::new());
        for reading in readings {
            let next = boots.len();
            let place = *boots.entry(reading.boot).or_insert(next);
            machine.push(place);
            suspended.resize_with(boots.len(), Vec::new);
            suspended[place].extend_from_slice(reading.suspended);
            for (ensemble, stamp) in reading.stamps {
                let leader = leaders.entry((*ensemble, stamp.zxid >> 32)).or_default();
                leader.entry(place).or_default().push(Mark::new(stamp));
            }
        }
        let leaders = leaders.into_iter().map(|(leader, marks)| (leader, Known::new(marks, &suspended)));
        Self { leaders: leaders.collect(), machine, suspended }
    }

    /// How long after the first instant the second one is. Each is what the clock of a process shows. `None` if the clocks cannot be
    /// related.
    pub(crate) fn between(&self, (one, from): (usize, i64), (other, to): (usize, i64)) -> Option<Interval> {
        if one == other {
            return Some(Interval { least: to - from, most: to - from });
        }
        let mut all = self.leaders.values().filter_map(|leader| {
            let (era, from) = self.by(leader, one, from)?;
            let (other_era, to) = self.by(leader, other, to)?;
            (era == other_era).then(|| to.minus(from))
        });
        let first = all.next()?;
        all.try_fold(first, Interval::and)
    }

    /// The instant in nanoseconds since the Unix epoch by this leader's clock, and how many cuts of that clock are before it.
    fn by(&self, leader: &Known, process: usize, time: i64) -> Option<(usize, Interval)> {
        let machine = self.machine[process];
        let (era, ahead) = leader.ahead(machine, time, &self.suspended[machine])?;
        Some((era, Interval { least: time + ahead.least, most: time + ahead.most }))
    }

    /// The instant in milliseconds since the Unix epoch, by the leader's clock that is known best.
    pub(crate) fn time(&self, process: usize, time: i64) -> Option<f64> {
        let all = self.leaders.values().filter_map(|leader| self.by(leader, process, time));
        let (_, best) = all.min_by_key(|(_, it)| it.width())?;
        Some(best.middle().0 as f64 / 1e6)
    }

    /// From when to when the clock of this process may be known: from its machine's first answer to the last request.
    pub(crate) fn known(&self, process: usize) -> Option<(i64, i64)> {
        let marks = self.leaders.values().filter_map(|it| it.machines.get(&self.machine[process]));
        let ends = marks.filter_map(|it| Some((it.by_answered.first()?.answered, it.by_sent.last()?.sent)));
        ends.reduce(|(first, last), (begin, end)| (first.min(begin), last.max(end)))
    }
}

/// Whether the machine was suspended between these instants.
fn parts(suspended: &[(i64, i64)], from: i64, to: i64) -> bool {
    suspended.iter().any(|(begin, end)| *begin < to && *end > from)
}

impl Known {
    fn new(machines: BTreeMap<usize, Vec<Mark>>, suspended: &[Vec<(i64, i64)>]) -> Self {
        let mut cuts = Vec::new();
        let mut times = machines.values().flatten().map(|mark| (mark.zxid, mark.time)).collect::<Vec<_>>();
        times.sort_unstable();
        cuts.extend(times.windows(2).filter(|it| it[1].1 < it[0].1).map(|it| (it[0].0, it[1].0)));
        let machines = machines.into_iter().map(|(machine, mut marks)| {
            marks.sort_by_key(|mark| mark.zxid);
            contradictions(&marks, &suspended[machine], &mut cuts);
            let mut by_sent = marks.clone();
            by_sent.sort_by_key(|mark| mark.sent);
            marks.sort_by_key(|mark| mark.answered);
            (machine, Marks { by_sent, by_answered: marks })
        });
        let machines = machines.collect();
        cuts.sort_unstable();
        cuts.dedup_by(|next, cut| {
            let is_one = next.0 < cut.1;
            if is_one {
                cut.1 = cut.1.max(next.1);
            }
            is_one
        });
        Self { machines, cuts }
    }

    /// By how much the leader's clock is ahead of this machine's at this instant of the latter.
    fn ahead(&self, machine: usize, time: i64, suspended: &[(i64, i64)]) -> Option<(usize, Interval)> {
        let Marks { by_sent, by_answered } = self.machines.get(&machine)?;
        let end = by_answered.partition_point(|mark| mark.answered <= time);
        let begin = by_sent.partition_point(|mark| mark.sent < time);
        let before = &by_answered[end.saturating_sub(NEAR)..end];
        let behind = &by_sent[begin..by_sent.len().min(begin + NEAR)];
        let pairs = before.iter().flat_map(|one| behind.iter().map(move |other| (one, other)));
        let known = pairs.filter_map(|(one, other)| {
            let era = self.era(one.zxid, other.zxid)?;
            if parts(suspended, one.sent, other.answered) {
                return None;
            }
            let (early, late) = (drift(one.sent, time), drift(time, other.answered));
            Some((era, one.ahead.wider(early).or(other.ahead.wider(late))))
        });
        known.min_by_key(|(_, ahead)| ahead.width())
    }

    /// How many cuts are before these transactions; `None` if one is between them.
    fn era(&self, from: i64, to: i64) -> Option<usize> {
        let era = self.cuts.partition_point(|(_, end)| *end <= from);
        (from < to && self.cuts.get(era).is_none_or(|(begin, _)| *begin >= to)).then_some(era)
    }
}

/// Finds where the stamps of one machine, in the order of their transactions, contradict each other.
fn contradictions(marks: &[Mark], suspended: &[(i64, i64)], cuts: &mut Vec<(i64, i64)>) {
    let Some(first) = marks.first() else { return };
    let agree = |one: &Mark, other: &Mark| {
        one.sent <= other.answered
            && one.ahead.wider(drift(one.sent, other.answered)).and(other.ahead).is_some()
    };
    // Since when the stamps agree, and what all of them show of the last one.
    let (mut since, mut known) = (0, first.ahead);
    for place in 1..marks.len() {
        let (last, mark) = (&marks[place - 1], &marks[place]);
        if parts(suspended, last.sent.min(mark.sent), last.answered.max(mark.answered)) {
            (since, known) = (place, mark.ahead);
            continue;
        }
        let both = known.wider(drift(last.sent, mark.answered)).and(mark.ahead);
        match both.filter(|_| last.sent <= mark.answered) {
            Some(both) => known = both,
            None => {
                // The clock was set behind this one.
                let before = marks[since..place].iter().rev().find(|before| !agree(before, mark));
                cuts.push((before.unwrap_or(last).zxid, mark.zxid));
                (since, known) = (place, mark.ahead);
            }
        }
    }
}

#[cfg(test)]
mod tests;
