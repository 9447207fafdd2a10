//! Counts by the crate `metrics`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use metrics::{Counter, Label, Unit, counter, gauge, histogram};

use super::Name;
use crate::guard::lost::LostReason;

const WAIT_TIME: &str = "zklock.acquire.wait_time";
const TIMEOUTS: &str = "zklock.acquire.timeouts";
const WAITERS: &str = "zklock.waiters";
const HOLD_TIME: &str = "zklock.hold_time";
const LOST: &str = "zklock.lost";
const LEASE_REMAINING: &str = "zklock.lease.remaining";
/// Kubernetes' name for it, so that dashboards for its leaders work.
const LEADS: &str = "leader_election_master_status";

/// The labels of what has this name. What has none is counted together, without a label.
fn labels(name: &Name) -> Vec<Label> {
    name.iter().map(|name| Label::new("name", name.clone())).collect()
}

pub(super) struct Waiter {
    began: Instant,
    labels: Vec<Label>,
}

impl Waiter {
    pub(super) fn new(name: &Name, campaigns: bool) -> Self {
        let labels = labels(name);
        gauge!(WAITERS, labels.clone()).increment(1);
        counter!(TIMEOUTS, labels.clone()).increment(0);
        if campaigns && name.is_some() {
            // A candidate that has never led is told apart from none.
            gauge!(LEADS, labels.clone()).increment(0);
        }
        Self { began: Instant::now(), labels }
    }

    pub(super) fn granted(&self) {
        histogram!(WAIT_TIME, self.labels.clone()).record(self.began.elapsed());
    }

    pub(super) fn timed_out(&self) {
        counter!(TIMEOUTS, self.labels.clone()).increment(1);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        gauge!(WAITERS, self.labels.clone()).decrement(1);
    }
}

pub(crate) struct Hold {
    began: Instant,
    labels: Vec<Label>,
    leads: bool,
    has_ended: AtomicBool,
}

impl Hold {
    /// Leaders without a name are not told apart, so nobody counts them.
    pub(crate) fn new(name: &Name, leads: bool) -> Self {
        let labels = labels(name);
        let leads = leads && name.is_some();
        if leads {
            gauge!(LEADS, labels.clone()).increment(1);
        }
        // From 0 on, so that a rate shows the first one, too.
        for reason in LostReason::LABELS {
            losses(&labels, reason).increment(0);
        }
        Self { began: Instant::now(), labels, leads, has_ended: AtomicBool::new(false) }
    }

    /// The hold has been over for so long: it was lost for this reason, or released. The first end counts.
    pub(crate) fn ended(&self, lost: Option<&'static str>, ago: Duration) {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        histogram!(HOLD_TIME, self.labels.clone()).record(self.began.elapsed().saturating_sub(ago));
        if let Some(reason) = lost {
            losses(&self.labels, reason).increment(1);
        }
        if self.leads {
            gauge!(LEADS, self.labels.clone()).decrement(1);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.ended(None, Duration::ZERO);
    }
}

fn losses(labels: &[Label], reason: &'static str) -> Counter {
    counter!(LOST, [labels, &[Label::from_static_parts("reason", reason)]].concat())
}

/// A heartbeat of a session that holds something is due, and its lease lasts for so long without it.
pub(crate) fn lease_remaining(left: Duration) {
    histogram!(LEASE_REMAINING).record(left);
}

/// Tells the recorder the units, and what each means.
pub(crate) fn describe() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_histogram!(WAIT_TIME, Unit::Seconds, "The time from a call to what it acquired");
    describe_counter!(TIMEOUTS, "Calls that acquired nothing within their timeout");
    describe_gauge!(WAITERS, "Calls that are acquiring now");
    describe_histogram!(HOLD_TIME, Unit::Seconds, "The time from a grant to its release or loss");
    describe_counter!(LOST, "Guards that were lost, or let go because their loss was near, by reason");
    describe_histogram!(LEASE_REMAINING, Unit::Seconds, "What is left of a lease when a heartbeat is due");
    describe_gauge!(LEADS, "1 if this process leads the election of this name, 0 if it stands by");
}
