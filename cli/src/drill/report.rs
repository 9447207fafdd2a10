//! What a drill found, as text for people and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::fault::Fault;
use super::judge::{self, Outcome, Seen, Verdict};
use crate::duration::text as length;
use crate::table;
use crate::text::harmless;

/// The results of a drill.
pub(super) struct Report<'a> {
    pub(super) seen: &'a [(Fault, Seen)],
    pub(super) servers: usize,
    /// The session timeout that was asked for, and the one that the servers granted.
    pub(super) asked: Duration,
    pub(super) granted: Duration,
    /// How long a crash keeps a lock from others at most.
    pub(super) takeover: Duration,
    /// Whether the doctor found a danger.
    pub(super) danger: bool,
}

impl Report<'_> {
    pub(super) fn verdict(&self) -> Verdict {
        match judge::verdict(&self.outcomes()) {
            // The drill cannot bring about what the doctor warns of.
            Verdict::Kept if self.danger => Verdict::Unproven,
            verdict => verdict,
        }
    }

    pub(super) fn text(&self) -> String {
        let header = ["FAULT", "GUARD", "NEXT GRANTED", "MARGIN", "WHAT FAILS"];
        let mut text = String::new();
        if self.asked != self.granted {
            let (asked, granted) = (length(self.asked), length(self.granted));
            text +=
                &format!("zklock asked for a session timeout of {asked}; the servers granted {granted}.\n\n");
        }
        let rows = self.seen.iter().map(|seen| {
            let [name, guard, granted, margin] = row(seen);
            [name, guard, granted, margin, seen.0.text(self.servers).to_owned()]
        });
        text += &table::aligned(header, rows);
        text += &format!("\n{}\n", self.sentence());
        let needlessly = judge::lost_needlessly(&self.outcomes());
        for fault in needlessly {
            text += &format!(
                "The guard was lost although a server could be reached ({}): no quorum confirmed it in time. A longer \
                 --session-timeout gives it more time.\n",
                fault.name()
            );
        }
        text += "The drill does not part the servers from each other, and stops no clock and no process.\n";
        text
    }

    /// One sentence that says it all.
    fn sentence(&self) -> String {
        let outcomes = self.outcomes();
        let margin = judge::smallest_margin(&outcomes);
        let margin = margin.map_or_else(String::new, |(fault, margin)| {
            format!(" The smallest margin was {} ({}).", length(margin), fault.name())
        });
        let confirmed = if self.servers == 1 { "on another connection" } else { "by another server" };
        match self.verdict() {
            Verdict::Kept => format!(
                "KEPT: each guard was lost before the next contender was granted, or was confirmed \
                 {confirmed}.{margin}"
            ),
            Verdict::NotKept => {
                let which = outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Overlap);
                let which = which.map(|(fault, _)| fault.name()).collect::<Vec<_>>().join(", ");
                format!(
                    "NOT KEPT: two guards were valid at once ({which}). Find out who deletes nodes or closes sessions, \
                     and whether the servers are ZooKeeper: run `zklock doctor`"
                )
            }
            Verdict::Unproven if judge::verdict(&outcomes) == Verdict::Kept => {
                format!("UNPROVEN: no two guards were valid at once, but see the dangers above.{margin}")
            }
            Verdict::Unproven if outcomes.iter().any(|(_, outcome)| *outcome == Outcome::Unmeasured) => {
                format!(
                    "UNPROVEN: a guard was no longer valid at the next grant, but since when is unknown: this machine was \
                 suspended or too busy. Run the drill again.{margin}"
                )
            }
            Verdict::Unproven => format!(
                "UNPROVEN: the drill did not see the end of each fault. Give a longer --max-time, and check that the \
                 servers answer.{margin}"
            ),
        }
    }

    pub(super) fn json(&self, path: &str, servers: Value) -> Value {
        let outcomes = self.outcomes();
        let faults = self.seen.iter().map(|(fault, seen)| {
            let outcome = seen.outcome();
            let margin = match &outcome {
                Outcome::Lost { margin } => margin.map(millis),
                Outcome::Survived | Outcome::Unmeasured | Outcome::Overlap | Outcome::Unfinished => None,
            };
            json!({
                "fault": fault.name(),
                "outcome": word(&outcome),
                "lost_after_ms": seen.lost.as_ref().map(|(lost, _)| millis(*lost)),
                "reason": seen.lost.as_ref().map(|(_, reason)| reason),
                "granted_after_ms": seen.granted.map(millis),
                "margin_ms": margin,
            })
        });
        json!({
            "path": path,
            "verdict": match self.verdict() {
                Verdict::Kept => "kept",
                Verdict::NotKept => "not-kept",
                Verdict::Unproven => "unproven",
            },
            "smallest_margin_ms": judge::smallest_margin(&outcomes).map(|(_, margin)| millis(margin)),
            "session_timeout_asked_ms": millis(self.asked),
            "session_timeout_ms": millis(self.granted),
            "longest_takeover_ms": millis(self.takeover),
            "faults": faults.collect::<Vec<_>>(),
            "doctor": servers,
        })
    }

    fn outcomes(&self) -> Vec<(Fault, Outcome)> {
        self.seen.iter().map(|(fault, seen)| (*fault, seen.outcome())).collect()
    }
}

/// One fault, as the drill tells of it while it goes on.
pub(super) fn line(fault: Fault, seen: &Seen) -> String {
    let [name, guard, granted, margin] = row(&(fault, seen.clone()));
    format!("{name}: guard {guard}, next granted {granted}, margin {margin}")
}

fn row((fault, seen): &(Fault, Seen)) -> [String; 4] {
    let unknown = || "-".to_owned();
    let guard = match (&seen.lost, seen.survived) {
        (_, Some(survived)) => format!("valid for {}", length(survived)),
        (Some((lost, reason)), None) if reason == UNCONFIRMED => format!("lost after {}", length(*lost)),
        (Some((lost, reason)), None) => format!("lost after {}: {}", length(*lost), harmless(reason)),
        (None, None) if seen.outcome() == Outcome::Unmeasured => "lost, instant unknown".to_owned(),
        (None, None) => "valid".to_owned(),
    };
    let granted = match (seen.granted, seen.survived) {
        (Some(_), _) if seen.let_go || seen.survived.is_some() => "at its release".to_owned(),
        (Some(granted), _) => format!("after {}", length(granted)),
        (None, _) => unknown(),
    };
    let margin = match seen.outcome() {
        Outcome::Lost { margin: Some(margin) } => format!("+{}", length(margin)),
        Outcome::Unmeasured => "unknown".to_owned(),
        Outcome::Overlap => "two guards".to_owned(),
        Outcome::Lost { margin: None } | Outcome::Survived | Outcome::Unfinished => unknown(),
    };
    [fault.name().to_owned(), guard, granted, margin]
}

/// The reason that is expected: no quorum confirmed the guard.
pub(super) const UNCONFIRMED: &str = "unconfirmed";

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Lost { .. } => "lost-in-time",
        Outcome::Survived => "survived",
        Outcome::Unmeasured => "unmeasured",
        Outcome::Overlap => "overlap",
        Outcome::Unfinished => "unfinished",
    }
}

/// Milliseconds, exact to the microsecond.
fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}
