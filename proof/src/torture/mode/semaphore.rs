//! Permits of several weights, among them such as take the whole semaphore.

use std::time::Duration;

use fastrand::Rng;

use super::pool::{STRETCH, TASKS, has_waited, is_lost, spans, untold};
use super::rules::Rules;
use crate::harness::Instant;
use crate::torture::history::{Attempt, History, Hold, Outcome};
use crate::torture::record::How;
use crate::torture::wish::{CAPACITY, Wish};

/// An acquisition that began so much later than another one is behind it in the turnstile, if nothing fails.
const LATER: Duration = Duration::from_secs(2);
/// For so long after a fault, sessions may still queue again.
const AFTERMATH: Duration = Duration::from_secs(5);

pub(super) struct Permits;

impl Rules for Permits {
    fn locks(&self) -> usize {
        1
    }

    fn wish(&self, rng: &mut Rng) -> Wish {
        Wish::Permit(match rng.u32(..100) {
            0..45 => 1,
            45..70 => 2,
            70..85 => 3,
            _ => CAPACITY,
        })
    }

    /// Large requests are to be among them.
    fn last_turns(&self) -> u32 {
        8
    }

    fn tasks(&self, _: u16) -> u16 {
        TASKS
    }

    /// Longer than an admission takes, so that many hold at the same time.
    fn stretch(&self) -> u32 {
        STRETCH
    }

    fn is_pool(&self) -> bool {
        true
    }

    fn broken(&self, history: &History) -> Vec<String> {
        let crowded = grants(history).into_iter().filter(|(_, sum)| *sum > CAPACITY).map(|(hold, sum)| {
            format!("{} was granted at {}, and then {sum} of {CAPACITY} were held", hold.who, hold.granted.0)
        });
        crowded.chain(untold(history)).chain(overtaken(history)).collect()
    }

    fn unproven(&self, history: &History) -> Vec<&'static str> {
        let grants = grants(history);
        let is_whole = |hold: &Hold| weight(hold) == CAPACITY;
        let came_back = |(lost, until): &(&Hold, Instant)| {
            is_lost(lost)
                && grants.iter().any(|(hold, sum)| hold.granted > *until && *sum > CAPACITY - weight(lost))
        };
        let proofs = [
            (
                grants.iter().any(|(hold, sum)| *sum > weight(hold)),
                "no two permits were held at the same time",
            ),
            (
                grants.iter().any(|(hold, sum)| *sum == CAPACITY && !is_whole(hold)),
                "several permits never took the whole capacity",
            ),
            (
                history.holds.iter().any(|hold| is_whole(hold) && has_waited(hold, history)),
                "no permit of the whole capacity was waited for",
            ),
            (spans(history).iter().any(came_back), "no permit that was lost came back"),
        ];
        proofs.into_iter().filter(|(shown, _)| !shown).map(|(_, missing)| missing).collect()
    }
}

fn weight(hold: &Hold) -> u32 {
    hold.weight.unwrap_or_default()
}

/// Each permit, and what was held from its grant on, itself included.
fn grants(history: &History) -> Vec<(&Hold, u32)> {
    let mut held = Vec::<(u32, Instant)>::new();
    let grants = spans(history).into_iter().map(|(hold, until)| {
        held.retain(|(_, until)| *until > hold.granted);
        held.push((weight(hold), until));
        (hold, held.iter().map(|(weight, _)| weight).sum())
    });
    grants.collect()
}

/// Acquisitions that were granted before others that came long before them, though nothing failed.
fn overtaken(history: &History) -> Vec<String> {
    let granted = |attempt: &&Attempt| attempt.weight.is_some() && attempt.outcome == Outcome::Granted;
    let granted: Vec<_> = history.attempts.iter().filter(granted).collect();
    let mut overtaken = Vec::new();
    for before in granted.iter().filter(|attempt| attempt.how == How::Wait) {
        let from = granted.partition_point(|attempt| attempt.asked < before.asked + LATER);
        let later = granted.iter().skip(from).take_while(|attempt| attempt.asked < before.ended);
        for attempt in later.filter(|attempt| attempt.ended < before.ended) {
            if is_quiet(history, before.asked, attempt.ended) {
                let (who, other, at) = (attempt.who, before.who, attempt.ended.0);
                overtaken
                    .push(format!("{who} was granted at {at}, before {other}, which came long before it"));
            }
        }
    }
    overtaken
}

fn is_quiet(history: &History, from: Instant, to: Instant) -> bool {
    !history.faults.iter().any(|fault| fault.at <= to && fault.until + AFTERMATH >= from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::args::Mode;
    use crate::torture::checker::Verdict;
    use crate::torture::history::{End, Fault};
    use crate::torture::record::Who;
    use crate::torture::schedule::Kind;
    use crate::torture::wish::Claim;

    const ONE: Who = Who { client: 1, task: 1 };
    const TWO: Who = Who { client: 2, task: 1 };
    const THREE: Who = Who { client: 3, task: 1 };
    const SECOND: u64 = 1_000_000_000;

    fn hold(who: Who, weight: u32, asked: u64, granted: u64, valid: u64) -> Hold {
        let (asked, token) = (Instant(asked), granted as i64);
        Hold { weight: Some(weight), asked, ..Hold::sample(who, token, granted, valid, &[Claim::shared(0)]) }
    }

    /// Two hold the whole together. One of them is killed. Then one has the whole alone, for which it has waited.
    fn history() -> History {
        let killed = Hold { end: End::Killed, ..hold(TWO, 3, 2, 12, 30) };
        let holds = vec![hold(ONE, 2, 1, 10, 20), killed, hold(THREE, CAPACITY, 15, 40, 50)];
        let attempts = holds.iter().map(|hold| Attempt {
            who: hold.who,
            how: How::Wait,
            key: None,
            weight: hold.weight,
            asked: hold.asked,
            ended: hold.granted,
            outcome: Outcome::Granted,
        });
        History { attempts: attempts.collect(), holds, ..History::default() }
    }

    fn verdict(spoil: impl FnOnce(&mut History)) -> Verdict {
        let mut history = history();
        spoil(&mut history);
        Verdict { examples: Vec::new(), ..Verdict::of(Mode::Semaphore, &history) }
    }

    fn broken(number: u64) -> Verdict {
        Verdict { broken: number, ..Verdict::default() }
    }

    #[test]
    fn permits_share_the_capacity_in_a_good_history() {
        assert_eq!(verdict(|_| {}), Verdict::default());
    }

    #[test]
    fn more_than_the_capacity_is_broken() {
        assert_eq!(verdict(|it| it.holds[0].weight = Some(3)).broken, 1);
        let found = verdict(|it| it.holds[2].granted = Instant(25));
        assert_eq!(found.broken, 1, "the killed one still held: {found:?}");
        assert!(!found.passed());
    }

    #[test]
    fn a_holder_that_is_not_told_is_broken() {
        let taken = |kind, over| {
            verdict(move |it| {
                it.holds[2].end = End::Lost("its node is gone".into());
                it.holds[2].over = Instant(over);
                let (at, until) = (Instant(45), Instant(46));
                let (servers, client, session) = (vec![], Some(3), Some(3));
                it.faults.push(Fault {
                    kind,
                    at,
                    until,
                    servers,
                    client,
                    session,
                    node: None,
                    holder: Some(THREE),
                });
            })
        };
        assert_eq!(taken(Kind::DeleteHolder, 50), Verdict::default());
        assert_eq!(taken(Kind::DeleteHolder, 5 * SECOND), broken(1));
        assert_eq!(taken(Kind::DeleteWaiter, 5 * SECOND), Verdict::default());
    }

    #[test]
    fn a_large_request_that_is_overtaken_is_broken() {
        let late = |it: &mut History| {
            it.holds[2].granted = Instant(9 * SECOND);
            it.holds[2].seen.valid = Instant(9 * SECOND + 1);
            it.attempts[2].ended = Instant(9 * SECOND);
            let small = Attempt {
                who: ONE,
                asked: Instant(3 * SECOND),
                ended: Instant(4 * SECOND),
                ..it.attempts[0]
            };
            it.attempts.push(small);
        };
        assert_eq!(verdict(late), broken(1));
        let found = verdict(|it| {
            late(it);
            it.attempts[3].ended = Instant(10 * SECOND);
        });
        assert_eq!(found, Verdict::default(), "it came later, and was granted later");
        let found = verdict(|it| {
            late(it);
            let (at, servers) = (Instant(2 * SECOND), vec![1]);
            let (client, session, holder) = (None, None, None);
            it.faults.push(Fault {
                kind: Kind::KillServer,
                at,
                until: at,
                servers,
                client,
                session,
                node: None,
                holder,
            });
        });
        assert_eq!(found, Verdict::default(), "its session may have queued again");
    }

    #[test]
    fn a_run_without_company_a_full_house_and_large_requests_proves_nothing() {
        let unproven = |spoil: fn(&mut History)| verdict(spoil).unproven;
        assert_eq!(unproven(|it| it.holds[0].weight = Some(1)), 1, "the permits never took all");
        assert_eq!(unproven(|it| it.holds[2].asked = Instant(35)), 1, "nobody waited for all of it");
        assert_eq!(unproven(|it| it.holds[1].end = End::Released), 1, "nothing came back");
        assert_eq!(unproven(|it| it.holds.truncate(1)), 4);
    }
}
