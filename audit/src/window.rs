//! The time that an audit is asked about, on the leader's clock.
//!
//! The leader numbers its transactions and stamps them, in one order. So the window is taken as one between transactions. The transactions
//! *before* it are those up to which every one on record has a time before the window. Those *behind* it are the ones from which on every
//! one has a later time. If the leader's clock was set, or the next leader has another clock, the window is the longest that fits.
//!
//! An instant of a process is before the window if a request was sent later on its machine, and the transaction of that request is before
//! the window. It is behind the window if a request was answered earlier, and its transaction is behind the window. This needs no more of
//! a clock than the order of two instants on one machine. So a clock that is slewed, or stands still, does no harm.
//!
//! Stretches of time that meet each other two by two all meet at once. So two holds overlap within the window if they overlap, and each of
//! them reaches into the window.
//!
//! # Before the first line of a record
//!
//! A file begins with all that is open then. So if its begin is before the window, no hold that reaches into the window is hidden. The
//! same holds for missing lines that such a file follows.

use std::collections::BTreeMap;

use zklock_recipe::flight::Stamp;

use crate::clocks::raw;

/// For so long after its node is gone, a guard may say that it is held: an operator may have deleted the node. It is longer than any
/// session under ZooKeeper's default limits, 20 ticks of 2 s. If a session on record has a longer timeout, that counts.
pub(crate) const LINGERS: i64 = 60_000_000_000;

/// The window in one ensemble.
#[derive(Debug)]
pub(crate) struct Window<'a> {
    /// The stamps with their machines, in the order of their transactions.
    stamps: Vec<(&'a str, &'a Stamp)>,
    /// From here on transactions are behind the window.
    behind: i64,
    machines: BTreeMap<&'a str, Edges>,
    /// The edges by the clock of a machine without a stamp.
    unknown: Edges,
}

/// The edges of the window by the clock of one machine.
#[derive(Clone, Copy, Debug)]
struct Edges {
    /// Until then it was before the window.
    before: i64,
    /// From then on the window had begun.
    begun: i64,
    /// Until then it was not behind the window.
    open: i64,
    /// From then on it was behind the window.
    behind: i64,
}

impl<'a> Window<'a> {
    /// From an instant until another one, in milliseconds since the Unix epoch; by the stamps, each with its machine.
    pub(crate) fn new(
        since: Option<i64>,
        until: Option<i64>,
        stamps: impl Iterator<Item = (&'a str, &'a Stamp)>,
    ) -> Self {
        let mut stamps = stamps.collect::<Vec<_>>();
        stamps.sort_by_key(|(_, stamp)| stamp.zxid);
        // The time of a transaction is in whole milliseconds.
        let first = |is_early: &dyn Fn(i64) -> bool| {
            let early = stamps.iter().take_while(|(_, stamp)| is_early(stamp.time));
            early.last().map_or(i64::MIN, |(_, stamp)| stamp.zxid)
        };
        let last = |is_late: &dyn Fn(i64) -> bool| {
            let late = stamps.iter().rev().take_while(|(_, stamp)| is_late(stamp.time));
            late.last().map_or(i64::MAX, |(_, stamp)| stamp.zxid)
        };
        let before = since.map_or(i64::MIN, |since| first(&|time| time < since));
        let begun = since.map(|since| last(&|time| time >= since));
        let open = until.map(|until| first(&|time| time < until));
        let behind = until.map_or(i64::MAX, |until| last(&|time| time >= until));
        let unknown = Edges {
            before: i64::MIN,
            begun: if since.is_some() { i64::MAX } else { i64::MIN },
            open: if until.is_some() { i64::MIN } else { i64::MAX },
            behind: i64::MAX,
        };
        let mut machines = BTreeMap::<&str, Edges>::new();
        for (boot, stamp) in &stamps {
            let (sent, answered) = (raw(stamp.sent), raw(stamp.answered));
            let edges = machines.entry(boot).or_insert(unknown);
            if stamp.zxid <= before {
                edges.before = edges.before.max(sent);
            }
            if begun.is_some_and(|begun| stamp.zxid >= begun) {
                edges.begun = edges.begun.min(answered);
            }
            if open.is_some_and(|open| stamp.zxid <= open) {
                edges.open = edges.open.max(sent);
            }
            if stamp.zxid >= behind {
                edges.behind = edges.behind.min(answered);
            }
        }
        Self { stamps, behind, machines, unknown }
    }

    fn edges(&self, boot: &str) -> &Edges {
        self.machines.get(boot).unwrap_or(&self.unknown)
    }

    /// The first transaction on record.
    pub(crate) fn first(&self) -> i64 {
        self.stamps.first().map_or(i64::MAX, |(_, stamp)| stamp.zxid)
    }

    /// Whether this instant of a machine is certainly before the window.
    pub(crate) fn is_before(&self, boot: &str, at: i64) -> bool {
        at <= self.edges(boot).before
    }

    /// Whether this instant of a machine is certainly behind the window.
    pub(crate) fn is_behind(&self, boot: &str, at: i64) -> bool {
        at >= self.edges(boot).behind
    }

    /// Whether a node that was created after this transaction was certainly created behind the window.
    pub(crate) fn has_passed(&self, zxid: i64) -> bool {
        zxid >= self.behind
    }

    /// Whether a stretch of time on a machine certainly reaches into the window.
    pub(crate) fn has(&self, boot: &str, from: i64, to: i64) -> bool {
        let edges = self.edges(boot);
        to >= edges.begun && from <= edges.open
    }

    /// The earliest begin of a window before which this instant of a machine certainly is.
    pub(crate) fn earliest(&self, boot: &str, at: i64) -> Option<i64> {
        let is_later = |(of, stamp): &(&str, &Stamp)| *of == boot && raw(stamp.sent) >= at;
        let place = self.stamps.iter().position(is_later)?;
        self.stamps[..=place].iter().map(|(_, stamp)| stamp.time + 1).max()
    }

    /// The latest end of a window behind which this instant of a machine certainly is.
    pub(crate) fn latest(&self, boot: &str, at: i64) -> Option<i64> {
        let is_earlier = |(of, stamp): &(&str, &Stamp)| *of == boot && raw(stamp.answered) <= at;
        let place = self.stamps.iter().rposition(is_earlier)?;
        self.stamps[place..].iter().map(|(_, stamp)| stamp.time).min()
    }
}
