//! The figures: a text, or one JSON object.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::args::{Mode, Recipe, Torture};
use super::checker::Verdict;
use super::history::{End, History, Hold, Outcome};
use super::record::Who;
use super::schedule::Kind;
use super::slew;
use super::taken::Taken;
use super::wish::Claim;
use crate::harness::register::Ledger;
use crate::harness::table::title;
use crate::harness::{Instant, overlaps};

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) lock: Recipe,
    pub(crate) mode: Mode,
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    pub(crate) clients: u16,
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
    /// The least time from the end of a guard to the next grant, by how it ended.
    pub(crate) margins: BTreeMap<&'static str, Margin>,
}

/// A name, and how a history says what it stands for.
type Figure = (&'static str, fn(&History) -> u64);

/// What is counted.
const FIGURES: [Figure; 19] = [
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
    ("passed_on", |it| holds(it, |hold| hold.token.is_some_and(|token| token.turn() > 0))),
    // Guards that were shared, those of them that were lost, and guards that made a claim.
    ("shared", |it| holds(it, |hold| hold.shares > 0)),
    ("shared_lost", |it| holds(it, |hold| hold.shares > 0 && matches!(hold.end, End::Lost(_)))),
    ("claimed", |it| holds(it, |hold| hold.has_claimed)),
    // Transactions that were committed under a lock, and guards that were released with one under way.
    ("entries", |it| it.logs.iter().map(|log| log.len() as u64).sum()),
    ("left_open", |it| holds(it, |hold| hold.entries.open > 0 && !hold.is_lost())),
    // Values that leaders proclaimed.
    ("proclamations", |it| {
        it.announcements.values.values().filter(|value| !value.is_campaign).count() as u64
    }),
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

fn told(history: &History, leads: bool) -> u64 {
    history.announcements.told.iter().filter(|tale| tale.leader.is_some() == leads).count() as u64
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Margin {
    pub(crate) count: u64,
    #[serde(serialize_with = "short")]
    pub(crate) least_ms: f64,
}

impl Report {
    pub(crate) fn of(
        torture: &Torture,
        seed: u64,
        history: &History,
        omitted: &[Kind],
        verdict: Verdict,
        longest_stall: Duration,
    ) -> Self {
        let lost = history.holds.iter().filter_map(|hold| match &hold.end {
            End::Lost(reason) => Some(reason.to_string()),
            _ => None,
        });
        Self {
            lock: torture.lock,
            mode: torture.mode,
            seed,
            seconds: torture.seconds,
            clients: torture.clients,
            longest_stall_s: longest_stall.as_secs_f64(),
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
            margins: margins(history),
        }
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

/// Follows each lock from holder to holder.
fn margins(history: &History) -> BTreeMap<&'static str, Margin> {
    let mut margins = BTreeMap::new();
    let taken = Taken::of(&history.faults);
    // The last guard to end of each lock, readers apart from the others.
    let mut last = BTreeMap::<Claim, (Instant, &Hold)>::new();
    for next in &history.holds {
        let against = |claim: &Claim| {
            let readers = (!claim.shared).then_some(Claim::shared(claim.lock));
            readers.into_iter().chain([Claim::exclusive(claim.lock)])
        };
        let before = next.claims.iter().flat_map(against).filter_map(|claim| last.get(&claim).copied());
        let before = before.max_by_key(|(ended, _)| *ended);
        let ended = if next.is_lost() { next.valid_until(taken.has(next)) } else { next.over };
        for claim in &next.claims {
            let latest = last.entry(*claim).or_insert((ended, next));
            if latest.0 < ended {
                *latest = (ended, next);
            }
        }
        let Some((ended, hold)) = before else { continue };
        let mut note = |name| {
            let margin = margins.entry(name).or_insert(Margin { count: 0, least_ms: f64::INFINITY });
            margin.count += 1;
            margin.least_ms = margin.least_ms.min(next.granted.seconds_after(ended) * 1e3);
        };
        note(end(&hold.end));
        if hold.token.is_none() && next.token.is_some() {
            note("of the other client");
        }
        if hold.has_reached_its_limit() {
            note("lost by its limit");
        }
        if slew::is_slewed(hold.who.client) && matches!(hold.end, End::Lost(_)) {
            note("lost by a slewed clock");
        }
    }
    margins
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lock, mode, seed, seconds, clients, .. } = self;
        writeln!(f, "{lock:?}, mode {mode:?}, seed {seed}, {clients} clients, {seconds} s of faults\n")?;
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
        ] {
            writeln!(f, "{name:<14}{counts}")?;
        }
        for (end, margin) in &self.margins {
            writeln!(f, "margin, {end:<24} {}", plain(margin))?;
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
