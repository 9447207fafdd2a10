//! The verdict, from the journal and the counter alone.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use crate::faults::{Killed, Outage};
use crate::record::{Event, Instant, Record};

/// How long after its timeout a session may still live. The leader rounds up to its next tick, of mostly two seconds,
/// and counts from what its followers report every half tick. The rest is for a busy machine.
const EXPIRY: Duration = Duration::from_secs(6);

/// The evidence for the verdict.
pub(crate) struct Evidence {
    pub(crate) rounds: u32,
    pub(crate) session_timeout: Duration,
    /// The journal, in the order in which it was written.
    pub(crate) records: Vec<Record>,
    /// The counter's value in the end.
    pub(crate) counter: u64,
    pub(crate) killed: Option<Killed>,
    /// `None` if no server could be killed.
    pub(crate) outage: Option<Option<Outage>>,
    /// How each contender ended.
    pub(crate) ends: Vec<ExitStatus>,
    pub(crate) fell_silent: bool,
}

/// The verdict: one line for each thing that must be true.
pub(crate) struct Verdict {
    findings: Vec<Finding>,
}

struct Finding {
    subject: &'static str,
    good: bool,
    text: String,
}

/// The time in which one contender held the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    contender: u16,
    token: i64,
    enter: Instant,
    exit: Instant,
}

impl Verdict {
    pub(crate) fn of(evidence: &Evidence) -> Self {
        let (holds, unfinished) = holds(evidence);
        let mut findings = vec![
            increments(evidence),
            overlaps(&holds),
            tokens(&holds),
            gap(evidence, &holds),
            ends(evidence, unfinished),
        ];
        findings.extend(evidence.outage.map(outage));
        Self { findings }
    }

    pub(crate) fn passed(&self) -> bool {
        self.findings.iter().all(|finding| finding.good)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { subject, good, text } in &self.findings {
            writeln!(f, "{:<5} {subject:<15} {text}", if *good { "ok" } else { "WRONG" })?;
        }
        Ok(())
    }
}

/// Returns all holds in the order in which they began, and how many never ended although nobody was killed.
fn holds(evidence: &Evidence) -> (Vec<Hold>, usize) {
    let mut holds = Vec::new();
    let mut unfinished = 0;
    for contender in contenders(evidence) {
        let mut inside = None;
        for record in evidence.records.iter().filter(|record| record.contender == contender) {
            match record.event {
                Event::Entered { token } => inside = Some((token, record.at)),
                Event::Exited { .. } => holds.extend(inside.take().map(|(token, enter)| Hold {
                    contender,
                    token,
                    enter,
                    exit: record.at,
                })),
                _ => {}
            }
        }
        match (inside, evidence.killed) {
            (Some((token, enter)), Some(killed)) if killed.contender == contender => {
                holds.push(Hold { contender, token, enter, exit: killed.dead });
            }
            (Some(_), _) => unfinished += 1,
            (None, _) => {}
        }
    }
    holds.sort_by_key(|hold| hold.enter);
    (holds, unfinished)
}

fn contenders(evidence: &Evidence) -> impl Iterator<Item = u16> + Clone {
    (1..).take(evidence.ends.len())
}

/// Checks that the counter has each increment that was made, and nothing else.
fn increments(evidence: &Evidence) -> Finding {
    let wrote = |record: &&Record| matches!(record.event, Event::Wrote { .. });
    let expected = evidence.records.iter().filter(wrote).count() as u64;
    // The script kills a holder long before it writes. But if the signal came late, between the write and its record,
    // nobody knows whether the contender has written.
    let last = |contender| evidence.records.iter().rfind(|record| record.contender == contender);
    let undecided = evidence
        .killed
        .and_then(|killed| last(killed.contender))
        .is_some_and(|record| matches!(record.event, Event::Writing { .. }));
    let most = expected + u64::from(undecided);
    let found = evidence.counter;
    let or =
        if undecided { format!(" or {most}, the killed holder was about to write") } else { String::new() };
    Finding {
        subject: "increments",
        good: (expected..=most).contains(&found) && expected > 0,
        text: format!("expected {expected}{or}, found {found}"),
    }
}

fn overlaps(holds: &[Hold]) -> Finding {
    let mut last: Option<&Hold> = None;
    let mut overlaps = Vec::new();
    for hold in holds {
        if let Some(last) = last
            && hold.enter < last.exit
        {
            overlaps.push((last.contender, hold.contender, last.exit.since(hold.enter)));
        }
        // The next hold is compared with the one that lasted longest.
        last = Some(last.filter(|last| last.exit > hold.exit).unwrap_or(hold));
    }
    let text = match overlaps.first() {
        None => format!("none in {} holds", holds.len()),
        Some((first, second, long)) => {
            format!("{}, the first of c{first} with c{second} for {long:.1?}", overlaps.len())
        }
    };
    Finding { subject: "overlaps", good: overlaps.is_empty(), text }
}

fn tokens(holds: &[Hold]) -> Finding {
    let wrong = holds.windows(2).find(|pair| matches!(pair, [one, next] if one.token >= next.token));
    let text = match (wrong, holds.first(), holds.last()) {
        (Some([one, next, ..]), ..) => {
            format!("{} of c{} followed by {} of c{}", one.token, one.contender, next.token, next.contender)
        }
        (_, Some(first), Some(last)) => {
            format!("{}, strictly increasing from {} to {}", holds.len(), first.token, last.token)
        }
        _ => "none at all".to_owned(),
    };
    Finding { subject: "tokens", good: wrong.is_none() && !holds.is_empty(), text }
}

/// Checks how long a killed holder kept the lock from the others.
fn gap(evidence: &Evidence, holds: &[Hold]) -> Finding {
    let subject = "without holder";
    let Some(killed) = evidence.killed else {
        return Finding { subject, good: false, text: "nobody was killed".to_owned() };
    };
    let Some(next) = holds.iter().find(|hold| hold.enter > killed.at) else {
        let text = format!("nobody had the lock after c{} was killed", killed.contender);
        return Finding { subject, good: false, text };
    };
    let gap = next.enter.since(killed.at);
    let most = evidence.session_timeout + EXPIRY;
    Finding {
        subject,
        good: gap <= most,
        text: format!(
            "{:.2} s after c{} was killed (session timeout {:?}; at most {most:?} is right)",
            gap.as_secs_f64(),
            killed.contender,
            evidence.session_timeout
        ),
    }
}

/// Checks that every contender that was not killed has done all of its rounds.
fn ends(evidence: &Evidence, unfinished: usize) -> Finding {
    let is_killed = |contender| evidence.killed.is_some_and(|killed| killed.contender == contender);
    let finished = |contender: &u16| {
        let wrote =
            |record: &&Record| record.contender == *contender && matches!(record.event, Event::Wrote { .. });
        evidence.records.iter().filter(wrote).count() as u64 == u64::from(evidence.rounds)
    };
    let survivors = contenders(evidence).filter(|contender| !is_killed(*contender));
    let complete = survivors.clone().filter(finished).count();
    let lost = |record: &&Record| matches!(record.event, Event::Exited { lost: Some(_) });
    let repeated = evidence.records.iter().filter(lost).count();
    let failed =
        contenders(evidence).zip(&evidence.ends).find(|(contender, end)| match is_killed(*contender) {
            true => end.signal() != Some(9),
            false => !end.success(),
        });
    let mut text = format!(
        "{complete} of {} survivors made all {} increments; {repeated} lost the lock and began again",
        survivors.clone().count(),
        evidence.rounds
    );
    if let Some((contender, end)) = failed {
        text += &format!("; c{contender} ended with {end}");
    }
    if evidence.fell_silent {
        text += "; they fell silent";
    }
    let good = complete == survivors.count() && failed.is_none() && unfinished == 0 && !evidence.fell_silent;
    Finding { subject: "contenders", good, text }
}

fn outage(outage: Option<Outage>) -> Finding {
    let (good, text) = match outage {
        None => (false, "no server was killed".to_owned()),
        Some(Outage { server, back: None, .. }) => (false, format!("server {server} did not come back")),
        Some(Outage { server, at, back: Some(back) }) => (
            true,
            format!("server {server} was killed, and back {:.1} s later", back.since(at).as_secs_f64()),
        ),
    };
    Finding { subject: "server", good, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two contenders, two rounds each; the second one is killed in a third.
    fn evidence() -> Evidence {
        let mut records = Vec::new();
        let mut say = |at, contender, event| {
            records.push(Record { at: Instant(at), contender, pid: 1000 + u32::from(contender), event });
        };
        for (contender, token, value) in [(1, 100, 0), (2, 101, 1), (1, 102, 2), (2, 103, 3)] {
            let at = value * 10;
            say(at, contender, Event::Entered { token });
            say(at + 1, contender, Event::Read { token, value });
            say(at + 8, contender, Event::Writing { value: value + 1 });
            say(at + 8, contender, Event::Wrote { value: value + 1 });
            say(at + 9, contender, Event::Exited { lost: None });
        }
        say(50, 2, Event::Entered { token: 200 });
        say(51, 2, Event::Read { token: 200, value: 4 });
        say(4_000_000_060, 1, Event::Entered { token: 201 });
        say(4_000_000_061, 1, Event::Exited { lost: Some("a reason".to_owned()) });
        let killed = Killed { contender: 2, at: Instant(52), dead: Instant(55) };
        Evidence {
            rounds: 2,
            session_timeout: Duration::from_secs(4),
            records,
            counter: 4,
            killed: Some(killed),
            outage: Some(Some(Outage { server: 1, at: Instant(60), back: Some(Instant(70)) })),
            ends: vec![ExitStatus::from_raw(0), ExitStatus::from_raw(9)],
            fell_silent: false,
        }
    }

    /// Returns what the verdict finds wrong after `spoil` has changed the evidence.
    fn wrong(spoil: impl FnOnce(&mut Evidence)) -> Vec<&'static str> {
        let mut evidence = evidence();
        spoil(&mut evidence);
        let findings = Verdict::of(&evidence).findings;
        findings.iter().filter(|finding| !finding.good).map(|finding| finding.subject).collect()
    }

    #[test]
    fn a_good_run_passes() {
        assert_eq!(wrong(|_| {}), [""; 0]);
    }

    #[test]
    fn a_lost_increment_is_found() {
        assert_eq!(wrong(|it| it.counter = 3), ["increments"]);
    }

    #[test]
    fn a_holder_killed_in_the_act_may_have_written() {
        let in_the_act = |it: &mut Evidence| {
            let event = Event::Writing { value: 5 };
            it.records.push(Record { at: Instant(53), contender: 2, pid: 1002, event });
        };
        assert_eq!(wrong(in_the_act), [""; 0]);
        assert_eq!(wrong(|it| (in_the_act(it), it.counter = 5).1), [""; 0]);
        assert_eq!(wrong(|it| (in_the_act(it), it.counter = 6).1), ["increments"]);
    }

    #[test]
    fn an_overlap_is_found() {
        assert_eq!(wrong(|it| it.records[5].at = Instant(8)), ["overlaps"]);
    }

    #[test]
    fn an_overlap_with_the_killed_holder_is_found() {
        assert_eq!(wrong(|it| it.killed.as_mut().unwrap().dead = Instant(4_000_000_061)), ["overlaps"]);
    }

    #[test]
    fn a_token_given_twice_is_found() {
        assert_eq!(wrong(|it| it.records[5].event = Event::Entered { token: 100 }), ["tokens"]);
    }

    #[test]
    fn a_lock_that_stays_with_the_dead_is_found() {
        let late = |it: &mut Evidence| {
            for record in it.records.iter_mut().filter(|record| record.at > Instant(4_000_000_000)) {
                record.at.0 += 7_000_000_000;
            }
        };
        assert_eq!(wrong(late), ["without holder"]);
    }

    #[test]
    fn a_contender_that_fails_is_found() {
        assert_eq!(wrong(|it| it.ends[0] = ExitStatus::from_raw(256)), ["contenders"]);
        assert_eq!(wrong(|it| it.rounds = 3), ["contenders"]);
        assert_eq!(wrong(|it| it.fell_silent = true), ["contenders"]);
    }

    #[test]
    fn a_server_that_stays_away_is_found() {
        assert_eq!(wrong(|it| it.outage = Some(None)), ["server"]);
        assert_eq!(wrong(|it| it.outage = None), [""; 0]);
    }
}
