//! Compares an audit of the clients' flight records with the checker.
//!
//! Each crowd of the checker is an overlap of the audit, or one of its unproven pairs. It may be unproven because the audit has no clock
//! of its own: an overlap may be shorter than the error of the leader's clock, lie behind the last stamp of a machine, or be that of a
//! machine whose stamps contradict each other, as with `--break-leases`. The audit may take a crowd apart for one reason alone:
//! only the lease of one of its guards had promised more, see [`Crowd::is_promise`]. Each overlap of the audit is in a crowd. [`Known`] says
//! what the checker cannot see.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use zklock::FencingToken;
use zklock_audit::{Audit, Options, Records, Verdict as Found, audit};

use super::checker::{Verdict, Wrong};
use super::crowd::{Crowd, LATE};
use super::history::History;
use super::part::SESSION_TIMEOUT;
use super::schedule::Kind;
use crate::harness::Instant;

/// The findings of the audit.
#[derive(Debug, Serialize)]
pub(crate) struct Audited {
    verdict: Found,
    holds: usize,
    overlaps: usize,
    /// Pairs of holds; the records do not show enough of these.
    unproven: usize,
    /// The guards that the checker found valid at once, or too many at once.
    crowds: usize,
    /// Contenders without a record: mostly their processes were killed before they heard of their nodes.
    unknown: usize,
    /// The least time from the end of a guard that was not released to the next grant, and how wrong that may be.
    nearest_ms: Option<f64>,
    error_ms: Option<f64>,
    took_s: f64,
}

impl Audited {
    /// Audits the records in this directory, and finds what the audit says otherwise than the checker. Without the record of the client
    /// that held most often, the audit must not prove anything.
    pub(crate) fn of(
        directory: &Path,
        history: &History,
        breaks_nodes: bool,
        verdict: &mut Verdict,
    ) -> anyhow::Result<Self> {
        let began = std::time::Instant::now();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        // Each client has links of its own to the servers.
        let is_one_ensemble = true;
        let options =
            Options { boot: Some(boot), pairs: Some(usize::MAX), is_one_ensemble, ..Options::default() };
        let mut records = Records::read(&[directory.to_owned()])?;
        let whole = audit(&records, &options);
        let took_s = began.elapsed().as_secs_f64();
        let tokens = holds(&whole).map(|(token, _)| token).collect::<BTreeSet<_>>();
        for hold in &history.holds {
            if let Some(token) = hold.token.filter(|token| !tokens.contains(&token.zxid())) {
                let what = format!("{} held with {token:?}, and that is on no record", hold.who);
                verdict.find(Wrong::Misaudited, what);
            }
        }
        let mut known = Known::of(history, &verdict.crowds);
        if !breaks_nodes {
            // Then nobody is granted meanwhile.
            known.unseen.clear();
        }
        let mut wrong = known.contradictions(&whole);
        let held = |name: &str| holds(&whole).filter(|(_, who)| *who == name).count();
        let busiest = (0..records.processes.len()).max_by_key(|it| held(&records.processes[*it].name()));
        if let Some(busiest) = busiest {
            let name = records.processes.remove(busiest).name();
            let less = audit(&records, &options);
            if less.verdict == Found::Proven && held(&name) > 0 {
                wrong.push(format!("a proof without the record of {name}"));
            }
            wrong.extend(known.unfounded(&less));
        }
        wrong.into_iter().for_each(|what| verdict.find(Wrong::Misaudited, what));
        let paths = || whole.paths.iter();
        let nearest =
            paths().filter_map(|path| path.nearest.as_ref()).min_by(|one, other| one.ms.total_cmp(&other.ms));
        Ok(Self {
            verdict: whole.verdict,
            holds: holds(&whole).count(),
            overlaps: paths().map(|path| path.overlap_count).sum(),
            unproven: paths().map(|path| path.unproven_count).sum(),
            crowds: verdict.crowds.len(),
            unknown: paths().map(|path| path.unknown.len()).sum(),
            nearest_ms: nearest.map(|margin| margin.ms),
            error_ms: nearest.map(|margin| margin.error_ms),
            took_s,
        })
    }
}

/// All holds, by their tokens, and who held.
fn holds(audit: &Audit) -> impl Iterator<Item = (i64, &str)> {
    audit.paths.iter().flat_map(|path| &path.holds).map(|hold| (hold.token, hold.who.as_str()))
}

impl Crowd {
    fn has(&self, pair: [i64; 2]) -> bool {
        let is_one = |token: i64| self.tokens.iter().flatten().any(|it| it.zxid() == token);
        pair.into_iter().all(is_one)
    }
}

/// What the checker knows of the holds, by their tokens.
#[derive(Default)]
struct Known<'a> {
    crowds: &'a [Crowd],
    /// Those that their limit has ended, or may have: the checker takes them to end before they did.
    early: BTreeSet<i64>,
    granted: BTreeMap<i64, Instant>,
    /// Those of a process that was stopped behind its last look at the guard, if somebody deletes their nodes then: until when at most
    /// the guard was valid. It was released at last, or evidence extended its lease behind the look.
    unseen: BTreeMap<i64, Instant>,
}

impl<'a> Known<'a> {
    fn of(history: &History, crowds: &'a [Crowd]) -> Self {
        let mut known = Self { crowds, ..Self::default() };
        for hold in &history.holds {
            let Some(token) = hold.token.map(FencingToken::zxid) else { continue };
            known.granted.insert(token, hold.granted);
            known.early.extend(hold.ends_early().then_some(token));
            let stops = history.faults.iter().filter(|fault| {
                matches!(fault.kind, Kind::StopShortly | Kind::StopLong)
                    && fault.client == Some(hold.who.client)
                    && fault.at <= hold.over + LATE
                    && fault.until + LATE >= hold.seen.valid
            });
            let until = stops.map(|stop| (stop.until + LATE).min(stop.at + SESSION_TIMEOUT)).max();
            known.unseen.extend(until.map(|until| (token, until)));
        }
        known
    }

    /// Says where the audit differs from the checker.
    fn contradictions(&self, audit: &Audit) -> Vec<String> {
        let (mut pairs, mut wrong) = (Vec::new(), self.unfounded(audit));
        let names = audit.paths.iter().map(|path| &path.path).collect::<BTreeSet<_>>();
        if names.len() < audit.paths.len() {
            wrong.push("the holds of one path are apart, as those of several ensembles".to_owned());
        }
        for path in &audit.paths {
            let all = path.overlaps.iter().chain(&path.unproven);
            pairs.extend(all.map(|pair| [pair.first, pair.second].map(|place| path.holds[place].token)));
        }
        let is_missed = |crowd: &&Crowd| match crowd.tokens.iter().all(Option::is_some) {
            true => !crowd.is_promise && !pairs.iter().any(|pair| crowd.has(*pair)),
            // Another client writes no record.
            false => audit.verdict == Found::Proven,
        };
        let missed = self.crowds.iter().filter(is_missed);
        wrong.extend(missed.map(|crowd| format!("apart, and were not: {}", crowd.what)));
        wrong
    }

    /// Overlaps of the audit that are none of the checker's, though it would have seen them.
    fn unfounded(&self, audit: &Audit) -> Vec<String> {
        let mut unfounded = Vec::new();
        for path in &audit.paths {
            for pair in &path.overlaps {
                let (first, second) = (&path.holds[pair.first], &path.holds[pair.second]);
                let tokens = [first.token, second.token];
                let is_crowd = self.crowds.iter().any(|crowd| crowd.has(tokens));
                if !is_crowd
                    && !tokens.iter().any(|token| self.early.contains(token))
                    && !self.is_unseen(tokens)
                {
                    let what = &pair.what;
                    unfounded
                        .push(format!("an overlap that there was not: {first:?} and {second:?}, {what}"));
                }
            }
        }
        unfounded
    }

    /// Whether one of these was granted while the checker does not know of the other one.
    fn is_unseen(&self, [one, other]: [i64; 2]) -> bool {
        [(one, other), (other, one)].iter().any(|(held, next)| {
            self.unseen.get(held).zip(self.granted.get(next)).is_some_and(|(until, at)| at < until)
        })
    }
}

#[cfg(test)]
mod tests {
    use zklock_audit::{HoldAudit, Pair, PathAudit};

    use super::super::history::{End, Fault, Hold, MAX_HOLD};
    use super::super::record::Who;
    use super::super::wish::Claim;
    use super::*;

    /// An audit of holds with the tokens 1, 2 and 3. The first two overlap, and of the last two that is not known.
    fn sample() -> Audit {
        let mut audit = audit(&Records::default(), &Options::default());
        let hold = |token| HoldAudit { token, ..HoldAudit::default() };
        let pair = |first| Pair { first, second: first + 1, what: String::new(), least_ms: None };
        audit.paths.push(PathAudit {
            holds: [1, 2, 3].map(hold).into(),
            overlaps: vec![pair(0)],
            unproven: vec![pair(1)],
            ..PathAudit::default()
        });
        audit
    }

    fn crowd(tokens: &[i64], is_promise: bool) -> Crowd {
        let tokens = tokens.iter().map(|token| Some(FencingToken::new(*token))).collect();
        Crowd { tokens, is_promise, what: String::new() }
    }

    #[test]
    fn each_crowd_is_an_overlap_or_unproven_and_each_overlap_is_in_a_crowd() {
        fn told(crowds: &[Crowd], audit: &Audit) -> usize {
            Known { crowds, ..Known::default() }.contradictions(audit).len()
        }
        let wrong = |crowds: &[Crowd]| told(crowds, &sample());
        let (one, other) = (crowd(&[1, 2], false), crowd(&[2, 3], false));
        assert_eq!(wrong(&[one.clone(), other.clone()]), 0);
        assert_eq!(wrong(std::slice::from_ref(&one)), 0, "a pair may be unproven, and be none");
        assert_eq!(wrong(std::slice::from_ref(&other)), 1, "the first two did not overlap");
        assert_eq!(wrong(&[one.clone(), crowd(&[1, 3], false)]), 1, "the audit takes them apart");
        assert_eq!(wrong(&[one.clone(), crowd(&[1, 3], true)]), 0, "one was told before");
        assert_eq!(wrong(&[crowd(&[1, 2, 3], false)]), 0, "permits");
        let foreign = Crowd { tokens: vec![None, Some(FencingToken::new(2))], ..one.clone() };
        assert_eq!(wrong(&[one.clone(), foreign.clone()]), 0);
        let mut apart = sample();
        apart.paths.push(PathAudit::default());
        assert_eq!(told(&[crowd(&[1, 2], false)], &apart), 1, "nobody compares the two");
        let proven = Audit { verdict: Found::Proven, ..sample() };
        assert_eq!(told(&[one, foreign], &proven), 1, "nobody recorded the other client");
    }

    /// The first two overlap, and the checker saw the first one until 2 s only.
    #[test]
    fn an_overlap_is_not_wrong_if_the_checker_cannot_see_it() {
        let (one, two) = (Who { client: 1, task: 1 }, Who { client: 2, task: 1 });
        let second = |second: f64| (second * 1e9) as u64;
        let wrong = |spoil: &dyn Fn(&mut History)| {
            let hold = |who, token, granted, valid| {
                Hold::sample(who, token, second(granted), second(valid), &[Claim::exclusive(0)])
            };
            let holds = vec![hold(one, 1, 1.0, 2.0), hold(two, 2, 3.0, 4.0)];
            let mut history = History { holds, ..History::default() };
            spoil(&mut history);
            Known::of(&history, &[]).contradictions(&sample()).len()
        };
        assert_eq!(wrong(&|_| {}), 1, "it sees every millisecond");
        assert_eq!(wrong(&|it| it.holds[0].limit = Some(LATE)), 1, "it was released before its limit");
        assert_eq!(wrong(&|it| it.holds[0].end = End::Lost(MAX_HOLD.into())), 0, "its limit ended it");
        let stopped = |client, from, until| {
            wrong(&|it| {
                let stop = Fault::begins(Kind::StopShortly, Instant(second(from)));
                it.faults.push(Fault { until: Instant(second(until)), client: Some(client), ..stop });
            })
        };
        assert_eq!(stopped(1, 2.1, 3.1), 0, "it was stopped before its release");
        assert_eq!(stopped(2, 2.1, 3.1), 1, "the other process was");
        assert_eq!(stopped(1, 2.1, 2.4), 1, "it was released before the grant");
        assert_eq!(stopped(1, 0.1, 1.4), 1, "it went on before its last look");
        assert_eq!(stopped(1, 1.9, 9.0), 0, "its lease may have lasted until then");
        assert_eq!(
            wrong(&|it| {
                it.holds[1].granted = Instant(second(6.5));
                let stop = Fault::begins(Kind::StopLong, Instant(second(2.1)));
                it.faults.push(Fault { until: Instant(second(9.0)), client: Some(1), ..stop });
            }),
            1,
            "no lease lasts until then"
        );
        assert_eq!(stopped(1, 2.6, 3.6), 1, "it was stopped behind its release");
    }
}
