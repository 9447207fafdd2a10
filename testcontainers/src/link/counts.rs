//! What passed through a link, in numbers.

use std::collections::HashMap;

use super::kind::RequestKind;

/// What passed through a [`Link`](crate::Link) since it started, or since its counts were reset.
///
/// Handshakes, pings and authentication are in none of the numbers but `pings`. A message counts as soon as the link has
/// read it, even if the link then holds or loses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Requests from clients.
    pub requests: u64,
    /// Replies to requests, errors included.
    pub replies: u64,
    /// Watch events.
    pub events: u64,
    /// Bytes of requests, with the four bytes of length in front of each.
    pub request_bytes: u64,
    /// Bytes of replies and watch events, with the four bytes of length in front of each.
    pub reply_bytes: u64,
    /// Pings from clients.
    pub pings: u64,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: Counts,
    by_kind: HashMap<RequestKind, u64>,
}

impl Tally {
    pub(super) fn request(&mut self, kind: RequestKind, length: usize) {
        if kind == RequestKind::Ping {
            self.counts.pings += 1;
        }
        if kind.is_counted() {
            self.counts.requests += 1;
            self.counts.request_bytes += length as u64;
        }
        *self.by_kind.entry(kind).or_default() += 1;
    }

    pub(super) fn reply(&mut self, kind: RequestKind, length: usize) {
        if kind.is_counted() {
            self.counts.replies += 1;
            self.counts.reply_bytes += length as u64;
        }
    }

    pub(super) fn event(&mut self, length: usize) {
        self.counts.events += 1;
        self.counts.reply_bytes += length as u64;
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn requests_of(&self, kind: RequestKind) -> u64 {
        match kind {
            RequestKind::Any => self.counts.requests,
            kind => self.by_kind.get(&kind).copied().unwrap_or(0),
        }
    }
}
