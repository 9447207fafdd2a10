//! Compares the holds of a path.
//!
//! # Proofs that one guard was over before another one was granted
//!
//! 1. *The order of transactions.* The guard's process sent a request after the guard was over. What the transaction of that request
//!    precedes came later: the creation of the other node, or another transaction that the other process had heard of before its grant.
//!    And if the guard's release was the transaction that removed its node, then a contender that waited behind it was granted later, if
//!    its inputs on record make the shipped machine grant it: they show that no node blocked it any more. No clock matters, but if the
//!    clocks contradict that order, nothing is proven.
//! 2. *One process.* It has one clock.
//! 3. *The leader's clock*, with its error; see [`clocks`](crate::clocks).
//!
//! Everything else is unproven: what the clocks cannot tell, and what no record shows.

use std::collections::BTreeMap;

use zklock_recipe::{Kind, Layout, Stock};

use crate::clocks::{Interval, raw};
use crate::judge::{Held, Judge};
use crate::report::{EXAMPLES, Margin, Pair, PathAudit};

/// Tells the reader of an overlap near an edge of the window.
const OUTSIDE: &str = "both were valid, and the stamps do not show whether that was within the window";

/// How two holds that exclude each other lie.
enum Relation {
    /// One was over before the other one. By the clocks, with this time between them.
    Apart(Option<Interval>),
    /// Both were valid for at least this long.
    Overlap(i64),
    Unknown(String),
}

impl Judge<'_> {
    /// Compares each hold with those before it that may still be valid.
    pub(crate) fn pairs(&self, held: &[Held<'_>], found: &mut PathAudit) {
        let listed = self.options.pairs.unwrap_or(EXAMPLES);
        // The holds that may be valid when the next one is granted.
        let mut open = Vec::<usize>::new();
        // The last hold that was certainly granted after such a one had ended. Those after that last one were as well.
        let mut next = BTreeMap::<usize, usize>::new();
        for (second, later) in held.iter().enumerate() {
            let (mut sum, mut certain, mut doubts, mut partners) = (0, 0, Vec::new(), Vec::new());
            open.retain(|&first| {
                let earlier = &held[first];
                let relation = match self.relation(earlier, later) {
                    Relation::Unknown(_)
                        if next.get(&first).is_some_and(|next| self.precedes(&held[*next], later)) =>
                    {
                        Relation::Apart(None)
                    }
                    relation => relation,
                };
                if self.precedes(earlier, later) {
                    next.insert(first, second);
                }
                if let Relation::Apart(between) = &relation {
                    if let Some(between) = between.filter(|_| excludes(earlier.kind, later.kind)) {
                        let (middle, error) = between.middle();
                        let margin =
                            Margin { first, second, ms: middle as f64 / 1e6, error_ms: error as f64 / 1e6 };
                        if found.nearest.as_ref().is_none_or(|nearest| margin.ms < nearest.ms) {
                            found.nearest = Some(margin);
                        }
                    }
                } else if let (Kind::Permit(weight), Kind::Permit(_)) = (earlier.kind, later.kind) {
                    sum += u64::from(weight);
                    match relation {
                        Relation::Overlap(_) if earlier.is_within => certain += u64::from(weight),
                        Relation::Overlap(_) => doubts.push(OUTSIDE.to_owned()),
                        Relation::Unknown(why) => doubts.push(why),
                        Relation::Apart(_) => {}
                    }
                    partners.push(first);
                } else if excludes(earlier.kind, later.kind) {
                    match relation {
                        Relation::Overlap(_) if !(earlier.is_within && later.is_within) => {
                            found.doubt(
                                Pair { first, second, what: OUTSIDE.to_owned(), least_ms: None },
                                listed,
                            );
                        }
                        Relation::Overlap(least) => {
                            let ms = least as f64 / 1e6;
                            let what = "both were valid".to_owned();
                            found.overlap(Pair { first, second, what, least_ms: Some(ms) }, listed);
                        }
                        Relation::Unknown(what) => {
                            found.doubt(Pair { first, second, what, least_ms: None }, listed);
                        }
                        Relation::Apart(_) => {}
                    }
                }
                !earlier.is_past(later)
            });
            if let (Kind::Permit(weight), Some(Stock::Permits(capacity))) = (later.kind, later.stock)
                && let Some(first) = partners.first().copied()
            {
                let (sum, certain) = (sum + u64::from(weight), certain + u64::from(weight));
                let pair = |sum, why: &str| Pair {
                    first,
                    second,
                    what: format!("{sum} of {capacity} with {} others{why}", partners.len()),
                    least_ms: None,
                };
                if certain > u64::from(capacity) && later.is_within {
                    found.overlap(pair(certain, ""), listed);
                } else if sum > u64::from(capacity) {
                    found.doubt(pair(sum, &format!(", if those were valid: {}", doubts.join("; "))), listed);
                }
            }
            open.push(second);
        }
    }

    /// Whether the first one was certainly over before the second one was granted.
    fn precedes(&self, first: &Held<'_>, second: &Held<'_>) -> bool {
        first.is_before(second) || self.gap(first, second).is_some_and(|between| between.least >= 0)
    }

    /// The time from the end of one hold to the grant of another one, by the clocks.
    fn gap(&self, one: &Held<'_>, other: &Held<'_>) -> Option<Interval> {
        self.clocks.between((one.process, one.end?), granted(other))
    }

    fn relation(&self, first: &Held<'_>, second: &Held<'_>) -> Relation {
        let is_ordered = first.is_before(second) || second.is_before(first);
        let sure = |one: &Held<'_>, other: &Held<'_>| {
            // It was held at each instant between its grant and this one as well.
            let until = self.clocks.known(one.process).map_or(i64::MAX, |(_, last)| last);
            let until = until.min(one.hold.sure).max(raw(one.hold.granted));
            let from = self.clocks.known(other.process).map_or(i64::MIN, |(first, _)| first);
            let granted = raw(other.hold.granted);
            let from = from.max(granted).min(other.hold.sure.max(granted));
            self.clocks.between((other.process, from), (one.process, until)).map(|both| both.least)
        };
        match (sure(first, second), sure(second, first)) {
            (Some(one), Some(other)) if one > 0 && other > 0 => {
                if is_ordered {
                    let what = "the order of transactions and the clocks contradict each other";
                    return Relation::Unknown(what.to_owned());
                }
                let length = |held: &Held<'_>| held.hold.sure - raw(held.hold.granted);
                return Relation::Overlap(
                    one.min(other).min(length(first).max(0)).min(length(second).max(0)),
                );
            }
            _ if is_ordered => return Relation::Apart(None),
            (Some(_) | None, Some(_) | None) => {}
        }
        let mut nearest = None;
        for (one, other) in [(first, second), (second, first)] {
            match self.gap(one, other) {
                Some(between) if between.least >= 0 => return Relation::Apart(Some(between)),
                Some(between) => nearest = nearest.or(Some(between)),
                None => {}
            }
        }
        Relation::Unknown(match (first.end, nearest) {
            (None, _) => "the record does not show when the first one ended".to_owned(),
            (Some(end), None) => self.unrelated((first.process, end), granted(second)),
            (Some(_), Some(between)) => {
                let (middle, error) = between.middle();
                let (middle, error) = (middle as f64 / 1e6, error as f64 / 1e6);
                match middle < 0.0 {
                    true => format!(
                        "by the clocks the second one was granted {:.1} ms before the first one ended at the latest, give or take \
                         {error:.1} ms; the first one may have ended earlier",
                        -middle
                    ),
                    false => format!(
                        "{middle:.1} ms are between them, and the clocks may be wrong by {error:.1} ms; more stamps of the leader's \
                         clock would make that less"
                    ),
                }
            }
        })
    }

    /// Why the clocks do not relate these instants of processes.
    fn unrelated(&self, one: (usize, i64), other: (usize, i64)) -> String {
        let mut why = Vec::new();
        for (process, at) in [one, other] {
            let name = self.records.processes[process].name();
            match self.clocks.known(process) {
                Some((first, _)) if at < first => {
                    why.push(format!("the clock of {name} is not known before its first stamp"));
                }
                Some((_, last)) if at > last => {
                    why.push(format!("the clock of {name} is not known behind its last stamp"));
                }
                Some(_) => {}
                None => why.push(format!("the clock of {name} is not known")),
            }
        }
        if why.is_empty() {
            "no leader's clock is known of both at that time, or somebody has set it".to_owned()
        } else {
            why.join("; ")
        }
    }
}

fn granted(held: &Held<'_>) -> (usize, i64) {
    (held.process, raw(held.hold.granted))
}

impl Held<'_> {
    /// Whether the order of transactions shows that this one was over before the other one was granted.
    fn is_before(&self, other: &Self) -> bool {
        let came_later = self.over.is_some_and(|over| over < other.begun);
        let queued = self.layout == Layout::Own
            && matches!(
                (self.kind, other.kind),
                (Kind::Exclusive | Kind::Shared, Kind::Exclusive | Kind::Shared)
            )
            && excludes(self.kind, other.kind)
            && self.czxid() < other.czxid()
            && other.hold.is_replayed
            && self.hold.released.get(self.index).is_some_and(|is_ours| *is_ours);
        came_later || queued
    }

    /// Whether it was over before all contenders were granted whose nodes came after this one's.
    fn is_past(&self, other: &Self) -> bool {
        self.over.is_some_and(|over| over < other.czxid())
    }
}

/// Whether two guards of these kinds must not be valid at once.
fn excludes(one: Kind, other: Kind) -> bool {
    match (one, other) {
        // Permits are added up.
        (Kind::Permit(_), Kind::Permit(_)) | (Kind::Shared, Kind::Shared) => false,
        (Kind::Slot(one), Kind::Slot(other)) => one == other,
        // A path has contenders of one sort, so these would be one too many.
        (Kind::Exclusive, Kind::Exclusive | Kind::Shared | Kind::Permit(_) | Kind::Slot(_))
        | (Kind::Shared | Kind::Permit(_) | Kind::Slot(_), Kind::Exclusive)
        | (Kind::Shared, Kind::Permit(_) | Kind::Slot(_))
        | (Kind::Permit(_), Kind::Shared | Kind::Slot(_))
        | (Kind::Slot(_), Kind::Shared | Kind::Permit(_)) => true,
    }
}
