//! Tasks that stand in line in their processes for the locks of two keys, and contenders that know these locks as plain
//! ones.

use std::collections::BTreeMap;

use zklock::{FencingToken, LostReason};

use super::rules::{Extras, ONE_LOCK, Rules};
use crate::history::{End, History, Hold};
use crate::record::{Entry, Who};
use crate::request::Request;

const LOCKS: usize = 2;

pub const RULES: Rules = Rules {
    locks: LOCKS,
    tasks: |_| 5,
    request: |rng, _| {
        let lock = usize::from(rng.u32(..10) >= 7);
        if rng.u32(..8) == 0 { Request::Lock(lock) } else { Request::Key(lock) }
    },
    last_turns: 3,
    budget,
    extras: |rng| Extras {
        shares: if rng.u32(..3) == 0 { rng.usize(1..=2) } else { 0 },
        claims: rng.u32(..8) == 0,
        enters: rng.u32(..3) == 0,
        leaves_open: rng.u32(..8) == 0,
    },
    keeps_logs: true,
    broken,
    proofs,
    ..ONE_LOCK
};

/// From none to four.
fn budget(client: u16) -> u32 {
    match client % 4 {
        0 => 4,
        1 => 2,
        2 => 3,
        _ => 0,
    }
}

fn broken(history: &History) -> Vec<String> {
    let mut broken = Vec::new();
    turns(history, &mut broken);
    for hold in &history.holds {
        if matches!(&hold.end, End::Lost(reason) if *reason == LostReason::Released.to_string()) {
            let (text, over) = (text(hold), hold.over.0);
            broken.push(format!("{text} was told that it released what it shares, at {over}"));
        }
    }
    for who in &history.outlived {
        broken.push(format!("a claim of {who} is current, though its guard was released"));
    }
    for (lock, log) in history.logs.iter().enumerate() {
        entries(lock, log, history, &mut broken);
    }
    broken
}

fn proofs(history: &History) -> Vec<(bool, &'static str)> {
    let any = |shows: fn(&Hold) -> bool| history.holds.iter().any(shows);
    let is_spent = |hold: &Hold| turn(hold) > 0 && turn(hold) == budget(hold.who.client);
    vec![
        (any(|hold| turn(hold) > 0), "no lock was passed on"),
        (any(is_spent), "no process had as many turns as it may"),
        (any(|hold| hold.is_keyed && matches!(hold.end, End::Lost(_))), "no guard of a key was lost"),
        (any(|hold| hold.shares > 0), "no guard was shared"),
        (any(|hold| hold.has_claimed && hold.is_keyed), "no guard of a key made a claim"),
        (
            any(|hold| hold.is_keyed && hold.entries.open > 0 && hold.end == End::Released),
            "no guard of a key was released with a transaction under way",
        ),
        (history.neglected > 0, "no task in line went unpolled"),
    ]
}

/// A node serves one process, for as many turns as its budget allows, and for none after one that made a claim. A plain
/// lock is never passed on.
fn turns(history: &History, broken: &mut Vec<String>) {
    let mut first = BTreeMap::<(usize, i64), &Hold>::new();
    let mut claimed = BTreeMap::<(usize, i64), &Hold>::new();
    for (lock, holds) in of_locks(history).into_iter().enumerate() {
        for hold in holds {
            let most = if hold.is_keyed { budget(hold.who.client) } else { 0 };
            let its = text(hold);
            if turn(hold) > most {
                broken.push(format!("{its} has more turns than {most}"));
            }
            let Some(token) = hold.token else { continue };
            let node = (lock, token.zxid());
            let earlier = *first.entry(node).or_insert(hold);
            if (earlier.who.client, earlier.session) != (hold.who.client, hold.session) {
                broken.push(format!("{its} has the node of {}", text(earlier)));
            }
            if let Some(before) = claimed.get(&node) {
                broken.push(format!("{its} has the lock from {}, which made a claim", text(before)));
            }
            if hold.has_claimed {
                claimed.insert(node, hold);
            }
        }
    }
}

fn of_locks(history: &History) -> [Vec<&Hold>; LOCKS] {
    let of_lock =
        |lock| history.holds.iter().filter(move |hold| hold.claims.iter().any(|claim| claim.lock == lock));
    std::array::from_fn(|lock| of_lock(lock).collect())
}

fn turn(hold: &Hold) -> u32 {
    hold.token.map_or(0, FencingToken::turn)
}

fn text(hold: &Hold) -> String {
    let token = hold.token.map(|token| token.to_string()).unwrap_or_default();
    format!("{} (token {token}, granted at {})", hold.who, hold.granted.0)
}

/// Transactions under a lock are committed in the order of the turns that sent them, and each as often as it was said: an
/// entry that its holder has not heard of may be there or not.
fn entries(lock: usize, log: &[Entry], history: &History, broken: &mut Vec<String>) {
    let lock = lock + 1;
    let (mut highest, mut counts) = (None, BTreeMap::<(Who, FencingToken), u64>::new());
    for Entry { who, token } in log {
        if Some(*token) < highest {
            let highest = highest.map(|token| token.to_string()).unwrap_or_default();
            broken.push(format!(
                "a transaction of {who} with {token} was committed behind {highest}, lock {lock}"
            ));
        }
        highest = highest.max(Some(*token));
        *counts.entry((*who, *token)).or_default() += 1;
    }
    for hold in history.holds.iter().filter(|hold| hold.claims.iter().any(|claim| claim.lock + 1 == lock)) {
        let count = hold.token.and_then(|token| counts.remove(&(hold.who, token))).unwrap_or_default();
        let (least, most) = (hold.entries.committed, hold.entries.committed + hold.entries.open);
        if !(least..=most).contains(&count) {
            broken.push(format!(
                "{count} transactions of {} and not {least} to {most}, lock {lock}",
                text(hold)
            ));
        }
    }
    for ((who, token), count) in counts {
        broken
            .push(format!("{count} transactions of {who} with {token}, which is not its token, lock {lock}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::*;

    /// Of a process with a budget of two turns, and of one with none.
    const ONE: Who = Who { client: 1, task: 1 };
    const TWO: Who = Who { client: 1, task: 2 };
    const THREE: Who = Who { client: 1, task: 3 };
    const OTHER: Who = Who { client: 3, task: 1 };

    fn token(zxid: i64, turn: u32) -> Option<FencingToken> {
        Some(FencingToken::of_turn(zxid, turn))
    }

    fn hold(who: Who, (zxid, turn): (i64, u32), asked: u64, granted: u64) -> Hold {
        Hold {
            token: token(zxid, turn),
            is_keyed: true,
            asked: Instant(asked),
            ..Hold::sample(who, zxid, granted, granted + 8, &[Claim::exclusive(0)])
        }
    }

    fn entry(hold: &Hold) -> Entry {
        Entry { who: hold.who, token: hold.token.unwrap() }
    }

    /// A process has as many turns as it may. Another one comes between, then the first one's task in line; that one loses the
    /// lock, and the next one has a node of its own.
    fn history() -> History {
        let mut holds = vec![
            hold(ONE, (5, 0), 1, 10),
            hold(TWO, (5, 1), 2, 20),
            hold(ONE, (5, 2), 19, 30),
            hold(OTHER, (6, 0), 3, 40),
            hold(THREE, (7, 0), 4, 50),
            hold(TWO, (8, 0), 31, 60),
        ];
        holds[0].entries = Entries { committed: 1, open: 0 };
        holds[3].has_claimed = true;
        holds[3].entries = Entries { committed: 1, open: 1 };
        holds[4].shares = 1;
        holds[4].end = End::Lost("the lease is over".into());
        let write = |number: usize, read| {
            let Hold { who, token, granted, .. } = holds[number];
            Write { token, ..Write::sample(granted.0, who, 0, read) }
        };
        let ledger = Ledger::sample(vec![write(0, 0), write(1, 1), write(3, 2)]);
        let log = vec![entry(&holds[0]), entry(&holds[3]), entry(&holds[3])];
        History {
            ledgers: vec![ledger, Ledger::default()],
            logs: vec![log, Vec::new()],
            neglected: 1,
            holds,
            ..History::default()
        }
    }

    fn verdict(spoil: impl FnOnce(&mut History)) -> Vec<(Wrong, u64)> {
        Verdict::spoiled(Member::Keys, history(), spoil)
    }

    /// Each is found once, and nothing else.
    fn found(wrong: Wrong, spoil: impl FnOnce(&mut History)) {
        assert_eq!(verdict(spoil), [(wrong, 1)]);
    }

    #[test]
    fn tasks_take_turns_in_a_good_history_and_overlap_like_any_two() {
        assert_eq!(verdict(|_| {}), []);
        found(Overlaps, |it| it.holds[1].granted = Instant(17));
    }

    /// A waiter's node was written to before the task came that holds by it.
    #[test]
    fn what_was_taken_from_the_process_was_taken_from_its_task() {
        let written = |node| {
            verdict(move |it| {
                it.holds[4].end = End::Lost(LostReason::NodeDeleted.to_string());
                let session = Some(1);
                it.faults.push(Fault { session, node, ..Fault::sample(Effect::Writes, 3) });
            })
        };
        assert_eq!(written(Some(7)), []);
        assert_eq!(written(Some(8)), [(Uncaused, 1)]);
    }

    #[test]
    fn the_tokens_of_turns_grow() {
        let twice = verdict(|it| {
            it.holds[1].token = token(5, 0);
            it.ledgers[0].writes[1].token = token(5, 0);
        });
        assert_eq!(twice, [(OutOfOrder, 1)], "a turn given twice");
        let earlier = verdict(|it| it.ledgers[0].writes.swap(0, 1));
        assert_eq!(earlier, [(OutOfOrder, 1), (LostUpdates, 3)], "a write of an earlier turn");
    }

    #[test]
    fn a_turn_beyond_the_budget_is_broken() {
        let beyond = verdict(|it| it.holds[2].token = token(5, 3));
        assert_eq!(beyond, [(Broken, 1), (Unproven, 1)], "nor does the budget end a hold");
        // This process has no budget, nor has it that node.
        let found = verdict(|it| it.holds.push(hold(OTHER, (8, 1), 70, 75)));
        assert_eq!(found, [(Broken, 2)]);
    }

    #[test]
    fn a_node_serves_turns_by_key_of_one_process_until_one_makes_a_claim() {
        found(Broken, |it| it.holds[1].is_keyed = false);
        let of_two = verdict(|it| {
            it.holds[3].token = token(5, 3);
            it.holds[3].who.client = 4;
            it.logs[0].clear();
            it.holds.iter_mut().for_each(|hold| hold.entries.committed = 0);
            it.ledgers[0] = Ledger::sample(it.ledgers[0].writes[..2].to_vec());
        });
        assert_eq!(of_two.first(), Some(&(Broken, 1)));
        found(Broken, |it| it.holds[1].has_claimed = true);
        assert_eq!(verdict(|it| it.holds[2].has_claimed = true), [], "it was the last turn");
    }

    #[test]
    fn a_claim_that_outlives_its_guard_and_a_shared_guard_that_is_released_are_broken() {
        found(Broken, |it| it.outlived.push(OTHER));
        found(Broken, |it| it.holds[0].end = End::Lost(LostReason::Released.to_string()));
    }

    #[test]
    fn a_transaction_that_is_committed_late_or_twice_or_missing_or_of_nobody_is_broken() {
        found(Broken, |it| {
            it.holds[1].entries.committed = 1;
            let (late, later) = (entry(&it.holds[0]), entry(&it.holds[1]));
            it.logs[0].splice(..1, [later, late]);
        });
        let without = |number| {
            verdict(|it| {
                it.logs[0].remove(number);
            })
        };
        assert_eq!(without(0), [(Broken, 1)], "it was confirmed");
        assert_eq!(without(2), [], "nobody heard of it");
        // Twice, and with the token of another one.
        for who in [ONE, TWO] {
            found(Broken, |it| it.logs[0].insert(1, Entry { who, ..entry(&it.holds[0]) }));
        }
    }

    #[test]
    fn a_run_that_lacks_one_of_its_occasions_proves_nothing() {
        found(Unproven, |it| it.holds.retain(|hold| hold.token != token(5, 2)));
        found(Unproven, |it| it.holds[4].end = End::Released);
        found(Unproven, |it| it.holds[4].shares = 0);
        found(Unproven, |it| it.holds[3].has_claimed = false);
        found(Unproven, |it| it.holds[3].entries = Entries { committed: 2, open: 0 });
        found(Unproven, |it| it.neglected = 0);
    }
}
