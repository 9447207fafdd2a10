//! The figures: a text, or one JSON object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::args::{Mode, Recipe, Torture};
use super::checker::Verdict;
use super::history::{End, Fault, History, Hold, Outcome};
use super::record::Who;
use super::schedule::Kind;
use super::slew;
use super::taken::Taken;
use super::wish::Claim;
use crate::harness::register::Ledger;
use crate::harness::table::title;
use crate::harness::{Instant, overlaps};

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
    pub(crate) mode: Mode,
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
    /// Guards by what they held.
    pub(crate) kinds: BTreeMap<String, u64>,
    /// How the guards ended.
    pub(crate) ends: BTreeMap<&'static str, u64>,
    /// Why those that were lost were.
    pub(crate) losses: BTreeMap<String, u64>,
    pub(crate) acquisitions: BTreeMap<Outcome, u64>,
    /// What those that failed said.
    pub(crate) failures: BTreeMap<String, u64>,
    /// Releases that were not confirmed, and what they said.
    pub(crate) unconfirmed: BTreeMap<String, u64>,
    /// What came of asks.
    pub(crate) replies: BTreeMap<String, u64>,
    pub(crate) faults: BTreeMap<Kind, u64>,
    /// For these there was no occasion.
    pub(crate) omitted: BTreeMap<Kind, u64>,
    /// The [`FIGURES`].
    #[serde(flatten)]
    pub(crate) figures: BTreeMap<&'static str, u64>,
    /// From a release to the grant of the next task of the same process, by the same node.
    pub(crate) pass_ms: Option<Percentiles>,
    /// From the last release that it waited for to a grant, where no other grant came in between.
    pub(crate) handoff_ms: Option<Percentiles>,
    /// From the fault that cost the holder to the next grant.
    pub(crate) recovery_ms: Option<Percentiles>,
    /// The least time from the end of a guard to the next grant, by how it ended.
    pub(crate) margins: BTreeMap<&'static str, Margin>,
    /// The least one behind each kind of fault, where the guard was lost or its holder killed.
    pub(crate) margins_by_fault: BTreeMap<Kind, Margin>,
}

/// A name, and how a history says what it stands for.
type Figure = (&'static str, fn(&History) -> u64);

/// What is counted.
const FIGURES: [Figure; 26] = [
    ("holds", |it| holds(it, |_| true)),
    // Those of a client without tokens, and the pairs of them that were held at the same time.
    ("without_token", |it| holds(it, |hold| hold.token.is_none())),
    ("without_token_together", together_without_token),
    // Acquisitions and releases that were not polled for a while, and how often their sessions' acquisitions queued again in
    // that time.
    ("neglected", |it| it.neglected),
    ("requeued", |it| it.requeued),
    // Guards whose holders' clocks were slewed.
    ("slewed", |it| holds(it, |hold| slew::is_slewed(hold.who.client))),
    ("writes", |it| registers(it, |ledger| ledger.writes.len() as u64)),
    // Reads of readers.
    ("looks", |it| registers(it, |ledger| ledger.looks.len() as u64)),
    ("refused_reads", |it| registers(it, |ledger| ledger.refused_reads)),
    ("refused_writes", |it| registers(it, |ledger| ledger.refused_writes)),
    // Guards that their processes passed on.
    ("passed_on", |it| holds(it, is_passed_on)),
    // Guards that were shared, those of them that were lost, and guards that made a claim.
    ("shared", |it| holds(it, |hold| hold.shares > 0)),
    ("shared_lost", |it| holds(it, |hold| hold.shares > 0 && matches!(hold.end, End::Lost(_)))),
    ("claimed", |it| holds(it, |hold| hold.has_claimed)),
    // Transactions that were committed under a lock, and guards that were released with one under way.
    ("entries", |it| it.logs.iter().map(|log| log.len() as u64).sum()),
    ("left_open", |it| holds(it, |hold| hold.entries.open > 0 && is_given_back(hold))),
    // Guards with a limit, those that it ended, and those that their holders kept while somebody else was granted the lock.
    ("limited", |it| holds(it, |hold| hold.limit.is_some())),
    ("limit_reached", |it| holds(it, Hold::has_reached_its_limit)),
    ("given_up", |it| it.given_up() as u64),
    // Asks that stood, how often holders heard of one, and how often they let go.
    ("asks", |it| it.asks.made.len() as u64),
    ("asks_heard", |it| it.asks.heard.len() as u64),
    ("asks_heeded", |it| it.asks.heard.iter().filter(|heard| heard.heeds).count() as u64),
    // Values that candidates campaigned with, and those that leaders proclaimed.
    ("campaigns", |it| announced(it, true)),
    ("proclamations", |it| announced(it, false)),
    // How often observers were told of a leader, and that nobody leads.
    ("told_leaders", |it| told(it, true)),
    ("told_nobody", |it| told(it, false)),
];

fn holds(history: &History, counts: impl Fn(&Hold) -> bool) -> u64 {
    history.holds.iter().filter(|hold| counts(hold)).count() as u64
}

fn together_without_token(history: &History) -> u64 {
    let held = history.holds.iter().filter(|hold| hold.token.is_none());
    overlaps(held.map(|hold| (hold.who, hold.granted, hold.valid_until(false))).collect()).len() as u64
}

fn registers(history: &History, figure: impl Fn(&Ledger<Who>) -> u64) -> u64 {
    history.ledgers.iter().map(figure).sum()
}

fn announced(history: &History, is_campaign: bool) -> u64 {
    history.announcements.values.values().filter(|it| it.is_campaign == is_campaign).count() as u64
}

fn told(history: &History, leads: bool) -> u64 {
    history.announcements.told.iter().filter(|tale| tale.leader.is_some() == leads).count() as u64
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) count: usize,
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
    ) -> Self {
        let lost = history.holds.iter().filter_map(|hold| match &hold.end {
            End::Lost(reason) => Some(reason.to_string()),
            _ => None,
        });
        let mut report = Self {
            lock: torture.lock,
            mode: torture.mode,
            seed,
            seconds: torture.seconds,
            clients: torture.clients,
            longest_stall_s: longest_stall.as_secs_f64(),
            wall_s: times.ended.since(times.started).as_secs_f64(),
            passed: verdict.passed(),
            verdict,
            kinds: count(history.holds.iter().map(|hold| kind(torture.mode, hold))),
            ends: count(history.holds.iter().map(|hold| end(&hold.end))),
            losses: count(lost),
            acquisitions: count(history.attempts.iter().map(|attempt| attempt.outcome)),
            failures: history.failures.clone(),
            unconfirmed: history.unconfirmed.clone(),
            replies: history.asks.replies.iter().map(|(reply, number)| (plain(reply), *number)).collect(),
            faults: count(history.faults.iter().map(|fault| fault.kind)),
            omitted: count(omitted.iter().copied()),
            figures: FIGURES.map(|(name, figure)| (name, figure(history))).into(),
            pass_ms: None,
            handoff_ms: None,
            recovery_ms: None,
            margins: BTreeMap::new(),
            margins_by_fault: BTreeMap::new(),
        };
        report.follow(history);
        report
    }

    /// Follows each lock from holder to holder.
    fn follow(&mut self, history: &History) {
        let [mut passes, mut handoffs, mut recoveries] = [const { Vec::new() }; 3];
        let taken = Taken::of(&history.faults);
        // The last guard to end of each lock, readers apart from the others.
        let mut last = BTreeMap::<Claim, (Instant, &Hold)>::new();
        // Those after which somebody was granted: of several readers behind a writer, the first one counts as its successor.
        let mut followed = BTreeSet::<(Who, Instant)>::new();
        for next in &history.holds {
            let against = |claim: &Claim| {
                let readers = (!claim.shared).then_some(Claim::shared(claim.lock));
                readers.into_iter().chain([Claim::exclusive(claim.lock)])
            };
            let before = next.claims.iter().flat_map(against).filter_map(|claim| last.get(&claim).copied());
            let before = before.max_by_key(|(ended, _)| *ended);
            let ended = match next.end {
                End::Released | End::Dropped => next.over,
                End::Lost(_) | End::Killed => next.valid_until(taken.has(next)),
            };
            for claim in &next.claims {
                let latest = last.entry(*claim).or_insert((ended, next));
                if latest.0 < ended {
                    *latest = (ended, next);
                }
            }
            let Some((ended, hold)) = before else { continue };
            let is_first = followed.insert((hold.who, hold.granted));
            let fault = cause(hold, &history.faults);
            let kind = fault.map(|fault| fault.kind);
            let margin = next.granted.seconds_after(ended) * 1e3;
            note(self.margins.entry(end(&hold.end)), margin, kind);
            if hold.token.is_none() && next.token.is_some() {
                note(self.margins.entry("of the other client"), margin, kind);
            }
            if hold.has_reached_its_limit() {
                note(self.margins.entry("lost by its limit"), margin, kind);
            }
            if slew::is_slewed(hold.who.client) && matches!(hold.end, End::Lost(_)) {
                note(self.margins.entry("lost by a slewed clock"), margin, kind);
            }
            match (&hold.end, fault) {
                (End::Released, _) if is_passed_on(next) => {
                    passes.push(next.granted.since(hold.over));
                }
                (End::Released, _) if next.asked < hold.over && is_first => {
                    handoffs.push(next.granted.since(hold.over));
                }
                (End::Lost(_) | End::Killed, Some(fault)) => {
                    note(self.margins_by_fault.entry(fault.kind), margin, kind);
                    recoveries.push(next.granted.since(fault.at));
                }
                _ => {}
            }
        }
        self.pass_ms = percentiles(passes);
        self.handoff_ms = percentiles(handoffs);
        self.recovery_ms = percentiles(recoveries);
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
    if is_given_back(hold) {
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

/// What a guard holds, as a word.
fn kind(mode: Mode, hold: &Hold) -> String {
    if let Some(weight) = hold.weight {
        return format!("permit of {weight}");
    }
    match hold.claims.as_slice() {
        [slot] if mode == Mode::Slots => format!("slot {}", slot.lock),
        [Claim { shared: true, .. }] => "reader".to_owned(),
        [_] => "one lock".to_owned(),
        several => format!("{} locks", several.len()),
    }
}

/// Whether another task of the process had the lock before, by the same node.
fn is_passed_on(hold: &Hold) -> bool {
    hold.token.is_some_and(|token| token.turn() > 0)
}

fn is_given_back(hold: &Hold) -> bool {
    matches!(hold.end, End::Released | End::Dropped)
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

fn percentiles(mut times: Vec<Duration>) -> Option<Percentiles> {
    times.sort_unstable();
    let ms = |time: &Duration| time.as_secs_f64() * 1e3;
    let at = |part: f64| times.get((times.len() as f64 * part) as usize).map(ms);
    let max = times.last().map(ms)?;
    Some(Percentiles { count: times.len(), p50: at(0.5)?, p90: at(0.9)?, p99: at(0.99)?, max })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lock, mode, seed, seconds, clients, wall_s, .. } = self;
        writeln!(
            f,
            "{lock:?}, mode {mode:?}, seed {seed}, {clients} clients, {seconds} s of faults, {wall_s:.0} s in all\n"
        )?;
        for (wrong, number) in &self.verdict.wrong {
            let word = if *number == 0 { "ok" } else { "WRONG" };
            writeln!(f, "{word:<5} {number:>6} {wrong:?}: {}", title(wrong))?;
        }
        for example in &self.verdict.examples {
            writeln!(f, "      {example}")?;
        }
        writeln!(f)?;
        for (name, counts) in [
            ("held", plain(&self.kinds)),
            ("ends", plain(&self.ends)),
            ("losses", plain(&self.losses)),
            ("acquisitions", plain(&self.acquisitions)),
            ("failures", plain(&self.failures)),
            ("unconfirmed", plain(&self.unconfirmed)),
            ("asks", plain(&self.replies)),
            ("faults", plain(&self.faults)),
            ("no occasion", plain(&self.omitted)),
            ("figures", plain(&self.figures)),
            ("pass, ms", plain(&self.pass_ms)),
            ("handoff, ms", plain(&self.handoff_ms)),
            ("recovery, ms", plain(&self.recovery_ms)),
        ] {
            writeln!(f, "{name:<14}{counts}")?;
        }
        for (end, margin) in &self.margins {
            writeln!(f, "margin, {end:<24} {}", plain(margin))?;
        }
        for (kind, margin) in &self.margins_by_fault {
            writeln!(f, "  behind {:<23} {}", plain(kind), plain(margin))?;
        }
        writeln!(f, "the machine stalled for {:.2} s at the longest", self.longest_stall_s)?;
        write!(f, "{}", if self.passed { "PASS" } else { "FAIL" })
    }
}

/// As JSON has it, without quotes and braces.
fn plain(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    let text = text.replace(['"', '{', '}'], "").replace(',', ", ").replace(':', " ");
    if text.is_empty() || text == "null" { "none".to_owned() } else { text }
}

/// Three decimals: more would claim a precision that nobody has.
fn short<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::super::record::Seen;
    use super::*;

    #[test]
    fn what_kept_a_holder_from_its_lease_ended_the_guard_and_not_the_kill_that_came_later() {
        let who = Who { client: 1, task: 1 };
        let fault = |kind, at, until| {
            let (client, holder) = (Some(1), Some(who));
            Fault { until: Instant(until), client, holder, ..Fault::begins(kind, Instant(at)) }
        };
        let faults = [fault(Kind::StopLong, 20, 90), fault(Kind::KillClient, 80, 85)];
        let killed = |promised| Hold {
            seen: Seen { valid: Instant(19), promised: Some(Instant(promised)) },
            over: Instant(80),
            end: End::Killed,
            ..Hold::sample(who, 1, 10, 19, &[Claim::exclusive(0)])
        };
        let cause_of = |promised| cause(&killed(promised), &faults).map(|fault| fault.kind);
        assert_eq!(cause_of(50), Some(Kind::StopLong));
        assert_eq!(cause_of(100), Some(Kind::KillClient));
    }
}
