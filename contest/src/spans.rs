//! Finds who held a lock at the same time. Pure.

use std::time::Duration;

use crate::clock::Instant;

/// Every two spans that have an instant in common, the one that began first in front, and how much they share. Each span
/// names its holder, and begins and ends.
pub fn overlaps<H: Copy>(mut spans: Vec<(H, Instant, Instant)>) -> Vec<(H, H, Duration)> {
    spans.sort_by_key(|(_, begin, _)| *begin);
    let (mut overlaps, mut open) = (Vec::new(), Vec::<(H, Instant)>::new());
    for (holder, begin, end) in spans {
        open.retain(|(_, until)| *until > begin);
        overlaps.extend(open.iter().map(|(before, until)| (*before, holder, end.min(*until).since(begin))));
        open.push((holder, end));
    }
    overlaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(spans: &[(char, u64, u64)]) -> Vec<(char, char, u128)> {
        let spans = spans.iter().map(|(who, begin, end)| (*who, Instant(*begin), Instant(*end))).collect();
        overlaps(spans).into_iter().map(|(one, other, shared)| (one, other, shared.as_nanos())).collect()
    }

    #[test]
    fn one_after_the_other_is_no_overlap() {
        assert_eq!(found(&[('a', 1, 5), ('b', 5, 7), ('a', 7, 9)]), []);
    }

    #[test]
    fn every_pair_is_found_in_whatever_order_they_come() {
        let spans = [('c', 6, 7), ('b', 4, 8), ('a', 1, 5)];
        assert_eq!(found(&spans), [('a', 'b', 1), ('b', 'c', 1)]);
    }

    #[test]
    fn a_short_span_does_not_hide_a_long_one() {
        assert_eq!(found(&[('a', 1, 9), ('b', 2, 3), ('c', 8, 12)]), [('a', 'b', 1), ('a', 'c', 1)]);
    }
}
