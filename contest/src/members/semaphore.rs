//! Permits of several weights, among them such as take the whole semaphore.

use std::time::Duration;

use super::pool::{POOL, grants, has_waited, spans, weight};
use super::rules::{Moment, Rules};
use crate::clock::Instant;
use crate::history::{History, Hold};
use crate::request::{CAPACITY, Request};

/// An acquisition that began so much later than another one is behind it in the turnstile, if nothing fails. On busy processors a
/// create took 2 s.
const LATER: Duration = Duration::from_secs(5);
/// For so long after a fault, sessions may still queue again.
const AFTERMATH: Duration = Duration::from_secs(5);

pub const RULES: Rules = Rules {
    capacity: CAPACITY,
    request: |rng, Moment { capacity, .. }| {
        let weight = match rng.u32(..100) {
            0..45 => 1,
            45..70 => 2,
            70..85 => 3,
            _ => capacity,
        };
        Request::Permit { weight: weight.min(capacity), capacity }
    },
    // Large requests are to be among them.
    last_turns: 8,
    broken: |history| {
        // Another world asks the guards themselves, and operators act there.
        if !history.scope.sampled {
            return Vec::new();
        }
        let crowded = grants(history).into_iter().filter(|(_, sum)| *sum > CAPACITY).map(|(hold, sum)| {
            format!("{} was granted at {}, and then {sum} of {CAPACITY} were held", hold.who, hold.granted.0)
        });
        crowded.chain(overtaken(history)).collect()
    },
    proofs,
    ..POOL
};

fn proofs(history: &History) -> Vec<(bool, &'static str)> {
    let grants = grants(history);
    let is_whole = |hold: &Hold| weight(hold) == CAPACITY;
    let came_back = |(lost, until): &(&Hold, Instant)| {
        lost.is_lost()
            && grants.iter().any(|(hold, sum)| hold.granted > *until && *sum > CAPACITY - weight(lost))
    };
    vec![
        (grants.iter().any(|(hold, sum)| *sum > weight(hold)), "no two permits were held at the same time"),
        (
            grants.iter().any(|(hold, sum)| *sum == CAPACITY && !is_whole(hold)),
            "several permits never took the whole capacity",
        ),
        (
            history.holds.iter().any(|hold| is_whole(hold) && has_waited(hold, history)),
            "no permit of the whole capacity was waited for",
        ),
        (spans(history).iter().any(came_back), "no permit that was lost came back"),
    ]
}

/// Acquisitions that were admitted before others that came long before them, though nothing failed.
fn overtaken(history: &History) -> Vec<String> {
    let mut overtaken = Vec::new();
    for before in history.holds.iter().filter(|hold| !hold.requeued) {
        let is_later = |hold: &&Hold| {
            hold.asked >= before.asked + LATER && hold.asked < before.granted && hold.token < before.token
        };
        for hold in history.holds.iter().filter(is_later) {
            if is_quiet(history, before.asked, hold.granted) {
                let (who, other, at) = (hold.who, before.who, hold.granted.0);
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
    use crate::samples::*;

    const SECOND: u64 = 1_000_000_000;

    fn hold(who: Who, weight: u32, asked: u64, granted: u64, valid: u64) -> Hold {
        let (asked, token) = (Instant(asked), granted as i64);
        Hold { weight: Some(weight), asked, ..Hold::sample(who, token, granted, valid, &[Claim::shared(0)]) }
    }

    /// Two hold the whole together. One of them is killed. Then one has the whole alone, for which it has waited.
    fn history() -> History {
        let killed = Hold { end: End::Killed, ..hold(TWO, 3, 2, 12, 30) };
        let holds = vec![hold(ONE, 2, 1, 10, 20), killed, hold(THREE, CAPACITY, 15, 40, 50)];
        History { holds, ..History::default() }
    }

    fn verdict(spoil: impl FnOnce(&mut History)) -> Vec<(Wrong, u64)> {
        Verdict::spoiled(Member::Semaphore, history(), spoil)
    }

    #[test]
    fn permits_share_the_capacity_and_no_more() {
        assert_eq!(verdict(|_| {}), []);
        assert_eq!(verdict(|it| it.holds[0].weight = Some(3)), [(Broken, 1), (Unproven, 1)]);
        let found = verdict(|it| it.holds[2].granted = Instant(25));
        assert_eq!(found, [(Broken, 1), (Unproven, 1)], "the killed one still held");
    }

    #[test]
    fn a_large_request_that_is_overtaken_is_broken() {
        let late = |token, fault: Option<Fault>| {
            verdict(|it| {
                it.holds[2].granted = Instant(9 * SECOND);
                it.holds[2].seen.valid = Instant(9 * SECOND + 1);
                let later = hold(ONE, 0, 6 * SECOND, 7 * SECOND, 7 * SECOND + 1);
                it.holds.push(Hold { token: Some(FencingToken::new(token)), ..later });
                it.faults.extend(fault);
            })
        };
        assert_eq!(late(39, None), [(Broken, 1)]);
        assert_eq!(late(41, None), [], "it was admitted later");
        let fault = Fault::sample(Effect::Foreseen, 2 * SECOND);
        assert_eq!(late(39, Some(fault)), [], "its session may have queued again");
    }

    #[test]
    fn a_run_without_company_a_full_house_and_large_requests_proves_nothing() {
        let found = verdict(|it| it.holds[0].weight = Some(1));
        assert_eq!(found, [(Unproven, 1)], "the permits never took all");
        let found = verdict(|it| it.holds[2].asked = Instant(35));
        assert_eq!(found, [(Unproven, 1)], "nobody waited for all of it");
        assert_eq!(verdict(|it| it.holds[1].end = End::Released), [(Unproven, 1)], "nothing came back");
        assert_eq!(verdict(|it| it.holds.truncate(1)), [(Unproven, 4)]);
    }
}
