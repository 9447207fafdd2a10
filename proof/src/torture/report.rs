//! The figures: a text, or one JSON object.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

use super::args::{Recipe, Torture};
use super::checker::{Taken, Verdict};
use super::history::{End, Fault, History, Hold, Outcome};
use super::schedule::Kind;
use super::slew;
use crate::harness::Instant;

/// A fault that is over for longer than that has cost nobody the lock.
const AFTERMATH: Duration = Duration::from_secs(3);

/// When what began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) started: Instant,
    /// The first clients were there.
    pub(crate) begun: Instant,
    /// No fault is injected any more.
    pub(crate) healed: Instant,
    pub(crate) ended: Instant,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) lock: Recipe,
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    pub(crate) clients: u16,
    /// From the start of the servers to the end.
    #[serde(serialize_with = "short")]
    pub(crate) wall_s: f64,
    /// The longest time in which the machine let the coordinator do nothing.
    #[serde(serialize_with = "short")]
    pub(crate) longest_stall_s: f64,
    pub(crate) passed: bool,
    pub(crate) verdict: Verdict,
    pub(crate) holds: u64,
    /// How the guards ended.
    pub(crate) ends: BTreeMap<&'static str, u64>,
    /// Why those that were lost were.
    pub(crate) losses: BTreeMap<String, u64>,
    pub(crate) acquisitions: BTreeMap<Outcome, u64>,
    /// What those that failed said.
    pub(crate) failures: BTreeMap<String, u64>,
    /// Releases that were not confirmed, and what they said.
    pub(crate) unconfirmed: BTreeMap<String, u64>,
    pub(crate) faults: BTreeMap<Kind, u64>,
    /// Acquisitions that were not polled for a while, and how often their sessions' acquisitions queued again in that time.
    pub(crate) neglected: u64,
    pub(crate) requeued: u64,
    /// Guards whose holders' clocks were slewed.
    pub(crate) slewed: u64,
    /// For these there was no occasion.
    pub(crate) omitted: BTreeMap<Kind, u64>,
    pub(crate) writes: u64,
    pub(crate) refused_reads: u64,
    pub(crate) refused_writes: u64,
    /// From a release to the next grant, where somebody waited.
    pub(crate) handoff_ms: Option<Percentiles>,
    /// From the fault that cost the holder to the next grant.
    pub(crate) recovery_ms: Option<Percentiles>,
    /// The least time from the end of a guard to the next grant, by how it ended.
    pub(crate) margins: BTreeMap<&'static str, Margin>,
    /// The least one behind each kind of fault, where the guard was lost or its holder killed.
    pub(crate) margins_by_fault: BTreeMap<Kind, Margin>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    #[serde(serialize_with = "short")]
    pub(crate) p50: f64,
    #[serde(serialize_with = "short")]
    pub(crate) p90: f64,
    #[serde(serialize_with = "short")]
    pub(crate) p99: f64,
    #[serde(serialize_with = "short")]
    pub(crate) max: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Margin {
    pub(crate) count: u64,
    #[serde(serialize_with = "short")]
    pub(crate) least_ms: f64,
    /// The kind of fault in the least case.
    pub(crate) fault: Option<Kind>,
}

impl Report {
    pub(crate) fn of(
        torture: &Torture,
        seed: u64,
        history: &History,
        omitted: &[Kind],
        verdict: Verdict,
        times: Times,
        longest_stall: Duration,
    ) -> anyhow::Result<Self> {
        let mut report = Self {
            lock: torture.lock,
            seed,
            seconds: torture.seconds,
            clients: torture.clients,
            longest_stall_s: longest_stall.as_secs_f64(),
            wall_s: times.ended.since(times.started).as_secs_f64(),
            passed: verdict.passed(),
            verdict,
            holds: history.holds.len() as u64,
            ends: count(history.holds.iter().map(|hold| end(&hold.end))),
            losses: count(history.holds.iter().filter_map(|hold| match &hold.end {
                End::Lost(reason) => Some(reason.to_string()),
                _ => None,
            })),
            acquisitions: count(history.attempts.iter().map(|attempt| attempt.outcome)),
            failures: history.failures.clone(),
            unconfirmed: history.unconfirmed.clone(),
            faults: count(history.faults.iter().map(|fault| fault.kind)),
            neglected: history.neglected,
            requeued: history.requeued,
            slewed: history.holds.iter().filter(|hold| slew::is_slewed(hold.who.client)).count() as u64,
            omitted: count(omitted.iter().copied()),
            writes: history.ledger.writes.len() as u64,
            refused_reads: history.ledger.refused_reads,
            refused_writes: history.ledger.refused_writes,
            handoff_ms: None,
            recovery_ms: None,
            margins: BTreeMap::new(),
            margins_by_fault: BTreeMap::new(),
        };
        report.follow(history)?;
        Ok(report)
    }

    /// Follows the lock from holder to holder.
    fn follow(&mut self, history: &History) -> anyhow::Result<()> {
        // Microseconds to three digits, whatever the range.
        let (mut handoffs, mut recoveries) = (Histogram::<u64>::new(3)?, Histogram::<u64>::new(3)?);
        let taken = Taken::of(&history.faults);
        for (hold, next) in history.holds.iter().zip(history.holds.iter().skip(1)) {
            let fault = cause(hold, &history.faults);
            let ended = match hold.end {
                End::Released | End::Dropped => hold.over,
                End::Lost(_) | End::Killed => hold.valid_until(taken.has(hold)),
            };
            let kind = fault.map(|fault| fault.kind);
            let margin = next.granted.seconds_after(ended) * 1e3;
            note(self.margins.entry(end(&hold.end)), margin, kind);
            if slew::is_slewed(hold.who.client) && matches!(hold.end, End::Lost(_)) {
                note(self.margins.entry("lost by a slewed clock"), margin, kind);
            }
            match (&hold.end, fault) {
                (End::Released, _) if next.asked < hold.over => {
                    handoffs.record(microseconds(next.granted.since(hold.over)))?;
                }
                (End::Lost(_) | End::Killed, Some(fault)) => {
                    note(self.margins_by_fault.entry(fault.kind), margin, kind);
                    recoveries.record(microseconds(next.granted.since(fault.at)))?;
                }
                _ => {}
            }
        }
        self.handoff_ms = percentiles(&handoffs);
        self.recovery_ms = percentiles(&recoveries);
        Ok(())
    }

    pub(crate) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
        } else {
            println!("{self}");
        }
        Ok(())
    }
}

/// The fault that ended this guard, as far as can be told: the first that met its holder and had not long been over, else the
/// latest that met its client, or any servers.
pub(crate) fn cause<'a>(hold: &Hold, faults: &'a [Fault]) -> Option<&'a Fault> {
    if matches!(hold.end, End::Released | End::Dropped) {
        return None;
    }
    let last = faults.partition_point(|fault| fault.at <= hold.over);
    let before = faults.get(..last).unwrap_or_default();
    let recent = || before.iter().filter(|fault| fault.until + AFTERMATH >= hold.over);
    let met = |fault: &&Fault| {
        let its = fault.client == Some(hold.who.client) || fault.session == Some(hold.session);
        its && !fault.kind.is_harmless()
    };
    let met_holder = |fault: &&Fault| {
        let its_server = fault.kind.is_of_servers() && fault.holder == Some(hold.who);
        fault.at >= hold.granted && (met(fault) || its_server)
    };
    match hold.end {
        // Unless its lease was over by then, for another reason.
        End::Killed if hold.valid_until(false) == hold.over => {
            before.iter().rfind(|fault| fault.kind.is_kill() && met(fault))
        }
        _ => recent()
            .find(met_holder)
            .or_else(|| recent().rfind(met))
            .or_else(|| recent().rfind(|fault| fault.kind.is_of_servers())),
    }
}

fn end(end: &End) -> &'static str {
    match end {
        End::Released => "released",
        End::Dropped => "dropped",
        End::Lost(_) => "lost",
        End::Killed => "killed",
    }
}

fn count<T: Ord>(things: impl Iterator<Item = T>) -> BTreeMap<T, u64> {
    let mut counts = BTreeMap::new();
    for thing in things {
        *counts.entry(thing).or_default() += 1;
    }
    counts
}

fn note<K: Ord>(entry: std::collections::btree_map::Entry<'_, K, Margin>, ms: f64, fault: Option<Kind>) {
    let margin = entry.or_insert(Margin { count: 0, least_ms: f64::INFINITY, fault: None });
    margin.count += 1;
    if ms < margin.least_ms {
        (margin.least_ms, margin.fault) = (ms, fault);
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn percentiles(times: &Histogram<u64>) -> Option<Percentiles> {
    let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
    (!times.is_empty()).then(|| Percentiles {
        count: times.len(),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        max: times.max() as f64 / 1e3,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lock, seed, seconds, clients, wall_s, verdict, .. } = self;
        writeln!(
            f,
            "{lock:?}, seed {seed}, {clients} clients, {seconds} s of faults, {wall_s:.0} s in all\n"
        )?;
        for (name, number) in [
            ("overlaps of valid guards", verdict.overlaps),
            ("grants or writes out of token order", verdict.out_of_order),
            ("lost updates", verdict.lost_updates),
            ("orphan nodes and watches", verdict.orphans),
            ("unfinished acquisitions", verdict.unfinished),
            ("crashed clients", verdict.crashes),
        ] {
            writeln!(f, "{:<5} {number:>6} {name}", if number == 0 { "ok" } else { "WRONG" })?;
        }
        for example in &verdict.examples {
            writeln!(f, "      {example}")?;
        }
        let list =
            |counts: Vec<String>| if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
        let named = |counts: &BTreeMap<Kind, u64>| {
            list(counts.iter().map(|(kind, number)| format!("{} {number}", kind.name())).collect())
        };
        let ends = self.ends.iter().map(|(end, number)| format!("{end} {number}")).collect();
        writeln!(f, "\nholds         {}: {}", self.holds, list(ends))?;
        let losses = self.losses.iter().map(|(reason, number)| format!("{number} x {reason}")).collect();
        writeln!(f, "losses        {}", list(losses))?;
        let outcomes =
            self.acquisitions.iter().map(|(outcome, number)| format!("{outcome:?} {number}")).collect();
        writeln!(f, "acquisitions  {}", list(outcomes))?;
        for (failure, number) in &self.failures {
            writeln!(f, "              {number} x {failure}")?;
        }
        let releases =
            self.unconfirmed.iter().map(|(reason, number)| format!("{number} x {reason}")).collect();
        writeln!(f, "unconfirmed   {}", list(releases))?;
        writeln!(
            f,
            "register      {} writes; refused as stale: {} writes, {} reads",
            self.writes, self.refused_writes, self.refused_reads
        )?;
        writeln!(f, "faults        {}: {}", self.faults.values().sum::<u64>(), named(&self.faults))?;
        writeln!(f, "no occasion   {}", named(&self.omitted))?;
        let (neglected, requeued, slewed) = (self.neglected, self.requeued, self.slewed);
        writeln!(f, "neglected     {neglected} acquisitions, queued again {requeued} times")?;
        writeln!(f, "slewed        {slewed} holds")?;
        for (name, times) in [("handoff", self.handoff_ms), ("recovery", self.recovery_ms)] {
            if let Some(Percentiles { count, p50, p90, p99, max }) = times {
                writeln!(
                    f,
                    "{name:<13} p50 {p50:.2} ms, p90 {p90:.2} ms, p99 {p99:.2} ms, max {max:.2} ms ({count})"
                )?;
            }
        }
        for (name, margin) in &self.margins {
            let name = format!("margin, {name}");
            writeln!(f, "{name:<31} {margin}")?;
        }
        for (kind, margin) in &self.margins_by_fault {
            writeln!(f, "  {:<29} {margin}", kind.name())?;
        }
        writeln!(f, "the machine stalled for {:.2} s at the longest", self.longest_stall_s)?;
        let word = if self.passed { "PASS" } else { "FAIL" };
        write!(f, "{word}")
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.2} ms at least ({})", self.least_ms, self.count)?;
        match self.fault {
            Some(kind) => write!(f, ", behind: {}", kind.name()),
            None => Ok(()),
        }
    }
}

/// Three decimals: more would claim a precision that nobody has.
fn short<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::super::record::{Seen, Who};
    use super::*;

    #[test]
    fn what_kept_a_holder_from_its_lease_ended_the_guard_and_not_the_kill_that_came_later() {
        let who = Who { client: 1, task: 1 };
        let fault = |kind, at, until| Fault {
            kind,
            at: Instant(at),
            until: Instant(until),
            servers: vec![],
            client: Some(1),
            session: None,
            holder: Some(who),
        };
        let faults = [fault(Kind::StopLong, 20, 90), fault(Kind::KillClient, 80, 85)];
        let killed = |promised| Hold {
            who,
            session: 1,
            token: Some(1),
            asked: Instant(5),
            granted: Instant(10),
            seen: Seen { valid: Instant(19), promised: Some(Instant(promised)) },
            over: Instant(80),
            end: End::Killed,
        };
        let cause_of = |promised| cause(&killed(promised), &faults).map(|fault| fault.kind);
        assert_eq!(cause_of(50), Some(Kind::StopLong));
        assert_eq!(cause_of(100), Some(Kind::KillClient));
    }
}
