//! The names of runs whose records were dropped, as ranges of text.
//!
//! Every dropped name is in a range for ever, so no such run begins again. A name between two ranges has certainly not been
//! dropped. So the runs that a wrong clock ran far in the future are a range of their own, and present runs may begin.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

/// The most ranges that are kept apart.
const MOST: usize = 32;

/// Ranges of names, each from its first name to its last one. They are the data of the directory of the records: a small
/// JSON object, or nothing while no record was dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Forgotten {
    forgotten: Vec<(String, String)>,
}

impl Forgotten {
    /// Reads the directory's data. An error if they are not zklock's.
    pub(super) fn decode(data: &[u8]) -> Result<Self, serde_json::Error> {
        if data.is_empty() { Ok(Self::default()) } else { serde_json::from_slice(data) }
    }

    /// Returns the range of dropped names in which this one is.
    pub(super) fn range_of(&self, name: &str) -> Option<&(String, String)> {
        self.forgotten.iter().find(|(first, last)| (first.as_str()..=last.as_str()).contains(&name))
    }

    /// Adds a name. If that makes one range too many, two that are closest as text become one.
    ///
    /// The run that `begins` is not between these two: its begin may be taken back, and then it has not run. Of those that are
    /// equally close, they are two without a record between them, which an operator may delete. But two that are further apart
    /// are not joined for its sake: between what ran in 2099 and what ran today are all runs to come. `records` is in order.
    pub(super) fn add(&mut self, name: &str, begins: &str, records: &[&str]) {
        if self.range_of(name).is_some() {
            return;
        }
        self.forgotten.push((name.to_owned(), name.to_owned()));
        self.forgotten.sort_unstable();
        if self.forgotten.len() > MOST {
            let gaps = self.forgotten.windows(2).map(|pair| {
                let lower = pair[0].1.as_str();
                let upper = pair[1].0.as_str();
                let record = records.get(records.partition_point(|name| *name <= lower));
                let (common, apart) = gap(lower, upper);
                (lower < begins && begins < upper, common, record.is_some_and(|name| *name < upper), apart)
            });
            if let Some((_, place)) = gaps.zip(0..).min() {
                let (_, last) = self.forgotten.remove(place + 1);
                let lower = &mut self.forgotten[place];
                // Somebody else may have written ranges that overlap.
                lower.1 = last.max(std::mem::take(&mut lower.1));
            }
        }
    }
}

/// How far apart two names are: first how early they differ, then by how much.
fn gap(lower: &str, upper: &str) -> (Reverse<usize>, u8) {
    let common = lower.bytes().zip(upper.bytes()).take_while(|(one, other)| one == other).count();
    let byte = |name: &str| name.as_bytes().get(common).copied().unwrap_or_default();
    (Reverse(common), byte(upper).saturating_sub(byte(lower)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::name::name_at;
    use super::*;
    use crate::node::encode;

    const DAY: i64 = 86_400;
    /// 2026-11-22T00:00:00Z.
    const NOW: i64 = 1_795_305_600;

    fn periods(from: i64, period: i64, number: i64) -> impl Iterator<Item = String> {
        (0..number).map(move |index| {
            name_at(Duration::from_secs((from + index * period).unsigned_abs()), period).unwrap()
        })
    }

    fn dropped(names: impl Iterator<Item = String>) -> Forgotten {
        let mut forgotten = Forgotten::default();
        names.for_each(|name| forgotten.add(&name, "", &[]));
        forgotten
    }

    #[test]
    fn a_directory_has_no_data_or_ours() {
        let forgotten = dropped(["b", "a"].map(str::to_owned).into_iter());
        assert_eq!(encode(&forgotten), br#"{"forgotten":[["a","a"],["b","b"]]}"#);
        assert_eq!(Forgotten::decode(&encode(&forgotten)).unwrap(), forgotten);
        assert_eq!(Forgotten::decode(b"").unwrap(), Forgotten::default());
        assert!(Forgotten::decode(b"precious").is_err());
        assert!(Forgotten::decode(b"{}").is_err());
    }

    #[test]
    fn the_closest_ranges_become_one() {
        let mut forgotten = dropped((10..=40).map(|number| format!("a{number}")).chain(["z".to_owned()]));
        assert_eq!(forgotten.forgotten.len(), MOST);
        forgotten.add("a41", "", &[]);
        assert_eq!(forgotten.range_of("a10"), Some(&("a10".to_owned(), "a11".to_owned())));
        assert!(forgotten.range_of("a105").is_some() && forgotten.range_of("a115").is_none());
        assert!(forgotten.range_of("b").is_none());
    }

    #[test]
    fn the_run_that_begins_and_records_stay_between_ranges_that_are_as_close() {
        let before = dropped((10..=40).map(|number| format!("a{number}")).chain(["z".to_owned()]));
        let joined = |begins, records: &[&str], name| {
            let mut forgotten = before.clone();
            forgotten.add("a41", begins, records);
            assert!(forgotten.range_of(begins).is_none());
            forgotten.range_of(name).cloned()
        };
        let range = |first: &str, last: &str| Some((first.to_owned(), last.to_owned()));
        assert_eq!(joined("a105", &["a115"], "a12"), range("a12", "a13"));
        // On the bounds of a gap it is in no gap.
        assert_eq!(joined("m", &["a10", "a11"], "a10"), range("a10", "a11"));
        // All that are as close have a record.
        let records = (10..=40).map(|number| format!("a{number}+")).collect::<Vec<_>>();
        let records = records.iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(joined("a105", &records, "a11+"), range("a11", "a12"));
    }

    /// The clock is ahead by decades, years or months, for hundreds of runs, after years of daily runs, or weeks of others.
    #[test]
    fn slots_that_a_wrong_clock_ran_leave_the_present_free() {
        for (period, number) in [(DAY, 4_000), (3_600, 2_000), (900, 4_000)] {
            for ahead in [73 * 365 * DAY, 5 * 365 * DAY, 400 * DAY, 75 * DAY] {
                let future = periods(NOW + ahead, period, 300);
                let forgotten = dropped(periods(NOW - number * period, period, number).chain(future));
                let instant = |part: i64| Duration::from_secs((NOW + ahead / 500 * part).unsigned_abs());
                let mut present = (0..500).filter_map(|part| name_at(instant(part), 1));
                let present = present.find(|name| forgotten.range_of(name).is_some());
                assert_eq!(present, None, "every {period} s, ahead by {ahead} s: {:?}", forgotten.forgotten);
            }
        }
    }

    proptest! {
        #[test]
        fn no_dropped_name_is_ever_free_again(
            known in proptest::collection::vec(("[a-c]{1,3}", "[a-c]{1,3}"), 0..8),
            names in proptest::collection::vec("[a-d0-9]{1,4}", 1..100),
            begins in "[a-d0-9]{1,4}",
            records in proptest::collection::btree_set("[a-d0-9]{1,4}", 0..20),
        ) {
            let mut forgotten = Forgotten { forgotten: known.clone() };
            let records = records.iter().map(String::as_str).collect::<Vec<_>>();
            for name in &names {
                let before = forgotten.clone();
                forgotten.add(name, &begins, &records);
                let covered = names.iter().chain(known.iter().flat_map(|(first, last)| [first, last]));
                for old in covered.filter(|old| before.range_of(old).is_some()) {
                    prop_assert!(forgotten.range_of(old).is_some());
                }
                prop_assert!(forgotten.range_of(name).is_some());
                prop_assert!(forgotten.forgotten.len() <= MOST.max(known.len()));
            }
        }

        #[test]
        fn a_run_that_begins_is_not_forgotten(
            names in proptest::collection::vec("[a-d0-9]{1,4}", 33..100),
            begins in "[a-d0-9]{1,4}",
            records in proptest::collection::btree_set("[a-d0-9]{1,4}", 0..50),
        ) {
            let records = records.iter().map(String::as_str).collect::<Vec<_>>();
            let mut forgotten = Forgotten::default();
            for name in names.iter().filter(|name| **name != begins) {
                forgotten.add(name, &begins, &records);
                prop_assert_eq!(forgotten.range_of(&begins), None);
            }
        }
    }
}
