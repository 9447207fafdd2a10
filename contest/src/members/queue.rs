//! A lock in the queue of another client: zklock contends by a layout, and some clients by zookeeper-client's own recipe, which has
//! the names of Curator's mutex, and no lease.
//!
//! A guard of zklock's overlaps no other guard, and no hold of the other client. Such a hold ends where its client stops: at the first
//! thing that it is told, `Disconnected` included. Its node may have gone long before. zklock's takeover delay has to cover that time.
//! Two holds of the other client may overlap each other, and are counted.

use std::time::Duration;

use super::rules::{ONE_LOCK, Rules};
use crate::clock::Instant;
use crate::history::Effect;
use crate::history::{Fault, Hold};
use crate::request::Request;

/// The tick of the servers, and after how many of them a server gives up that hears nothing of its leader, or a leader that hears nothing
/// of its quorum: longer than a session timeout, as with ZooKeeper's defaults.
pub const TICK: Duration = Duration::from_secs(1);
pub const SYNC_LIMIT: u32 = 5;

/// What `Layout` and docs/MIGRATION.md promise to be enough for holders that stop at `Disconnected`, also if a link between servers
/// fails in one direction: twice the time after which a server without its ensemble drops its clients.
pub const DELAY: Duration = Duration::from_secs(2 * TICK.as_secs() * SYNC_LIMIT as u64);

pub const RULES: Rules = Rules {
    is_foreign: |client| client.is_multiple_of(2),
    tasks: |client| if client % 8 == 3 { 2 } else { 1 },
    request: |_, _| Request::Shared(0),
    // zklock's wait out a delay behind each of them, and faults have to meet them holding.
    stretch: |client| if (RULES.is_foreign)(client) { 25 } else { 1 },
    proofs: |history| {
        let followed = |hold: fn(&Hold) -> bool, next: fn(&Hold) -> bool| {
            let mut pairs = history.holds.iter().zip(history.holds.iter().skip(1));
            pairs.any(|(before, after)| hold(before) && next(after) && after.asked < before.over)
        };
        vec![
            (followed(is_zklocks, is_zklocks), "no zklock contender waited for another one"),
            (followed(is_zklocks, is_foreign), "no contender of the other client waited for zklock"),
            (followed(is_foreign, is_zklocks), "no zklock contender waited for the other client"),
            (
                followed(|hold| is_foreign(hold) && hold.is_lost(), is_zklocks),
                "no zklock contender waited for a holder of the other client that was cut off or killed",
            ),
        ]
    },
    ..ONE_LOCK
};

fn is_foreign(hold: &Hold) -> bool {
    (RULES.is_foreign)(hold.who.client)
}

fn is_zklocks(hold: &Hold) -> bool {
    !is_foreign(hold)
}

/// The last instant at which a holder of the other client believed that it held the lock; or the one at which its process was stopped:
/// once it goes on, it believes that for a moment, however long it was stopped. No delay covers that.
pub fn unpaused(hold: &Hold, faults: &[Fault]) -> Instant {
    let believed = hold.valid_until(false);
    let stops = faults.iter().filter(|fault| fault.effect == Effect::Stops);
    let stopped = stops
        .filter(|fault| fault.client == Some(hold.who.client) && fault.at >= hold.granted)
        .map(|fault| fault.at);
    stopped.chain([believed]).min().unwrap_or(believed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::*;

    const THEIRS: [Who; 2] = [Who { client: 2, task: 1 }, Who { client: 4, task: 1 }];
    const OURS: [Who; 2] = [Who { client: 3, task: 1 }, Who { client: 5, task: 1 }];

    fn hold(who: Who, granted: u64, valid: u64) -> Hold {
        let hold = Hold::sample(who, granted.cast_signed(), granted, valid, &[Claim::exclusive(0)]);
        let hold = Hold { asked: Instant(1), ..hold };
        match is_foreign(&hold) {
            true => Hold { token: None, seen: Seen { promised: None, ..hold.seen }, ..hold },
            false => hold,
        }
    }

    /// Theirs, ours, ours, theirs, which is cut off, and ours.
    fn history() -> History {
        let lost = End::Lost("its client was told Disconnected".into());
        let holds = vec![
            hold(THEIRS[0], 10, 20),
            hold(OURS[0], 30, 40),
            hold(OURS[1], 50, 60),
            Hold { end: lost, ..hold(THEIRS[1], 70, 80) },
            hold(OURS[0], 90, 100),
        ];
        History { holds, ..History::default() }
    }

    fn verdict(spoil: impl FnOnce(&mut History)) -> Vec<(Wrong, u64)> {
        Verdict::spoiled(Member::Queue, history(), spoil)
    }

    #[test]
    fn a_guard_of_zklocks_overlaps_nobody_and_the_others_may_overlap_each_other() {
        assert_eq!(verdict(|_| {}), []);
        let until = |place: usize, valid| move |it: &mut History| it.holds[place].seen.valid = Instant(valid);
        assert_eq!(verdict(until(0, 35)), [(Overlaps, 1)], "theirs believes for too long");
        assert_eq!(verdict(until(1, 55)), [(Overlaps, 1)], "two of ours");
        assert_eq!(verdict(until(2, 75)), [(Overlaps, 1)], "ours beside theirs");
        assert_eq!(verdict(until(3, 95)), [(Overlaps, 1)], "one that was cut off");
        assert_eq!(verdict(|it| it.holds.push(hold(THEIRS[0], 65, 85))), [], "two of theirs");
    }

    #[test]
    fn what_one_of_theirs_believes_after_a_stop_does_not_count() {
        let stopped = |client, at| {
            verdict(move |it| {
                it.holds[3].seen.valid = Instant(95);
                let fault = Fault::sample(Effect::Stops, at);
                it.faults.push(Fault { client: Some(client), ..fault });
            })
        };
        assert_eq!(stopped(4, 78), []);
        assert_eq!(stopped(4, 92), [(Overlaps, 1)], "it was stopped beside the next one");
        assert_eq!(stopped(4, 65), [(Overlaps, 1)], "it was granted after that");
        assert_eq!(stopped(2, 78), [(Overlaps, 1)], "another process was stopped");
    }

    #[test]
    fn a_run_in_which_nobody_waits_for_the_other_client_proves_nothing() {
        assert_eq!(verdict(|it| it.holds.truncate(3)), [(Unproven, 2)]);
    }
}
