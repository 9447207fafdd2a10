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
