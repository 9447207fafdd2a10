//! Commands under `zklock run`. The kernel judges them: a command takes a `flock` on its lock's file without waiting, and whatever the
//! command starts inherits that. So no command may find the `flock` taken, also by a forgotten descendant of an earlier command.

use super::rules::{ONE_LOCK, Rules};
use crate::history::{Effect, End, Hold};

/// What a command says that finds the `flock` taken.
pub const BESIDE: &str = "began beside another command";

/// Why a command was lost that killed its warden.
pub const UNWARDED: &str = "its warden was killed";

/// How zklock ends if the warden fails, or zklock itself.
pub const FAILED: i32 = 70;

pub const RULES: Rules = Rules {
    locks: 2,
    tasks: |_| 1,
    broken: |history| {
        let failed = format!("exit status: {FAILED}");
        let lost = history.holds.iter().filter_map(reason).chain(history.failures.keys());
        lost.filter(|why| why.contains(BESIDE) || **why == failed).cloned().collect()
    },
    proofs: |history| {
        let some = |is_so: &dyn Fn(&Hold) -> bool| history.holds.iter().any(is_so);
        let is_lost = |hold: &Hold| reason(hold).is_some();
        let was_stopped = |hold: &Hold| {
            let mut stops = history.faults.iter().filter(|fault| fault.effect == Effect::Stops);
            stops.any(|fault| {
                fault.client == Some(hold.who.client) && (hold.granted..hold.over).contains(&fault.at)
            })
        };
        let is_unwarded = |hold: &Hold| reason(hold).is_some_and(|why| why == UNWARDED);
        vec![
            (some(&|hold| hold.end == End::Killed), "no zklock was killed under its command"),
            (
                some(&|hold| is_lost(hold) && was_stopped(hold)),
                "no zklock was stopped until its command was lost",
            ),
            (some(&is_unwarded), "no warden was killed"),
            (
                some(&|hold| hold.shares > 0 && is_lost(hold)),
                "no command that left a descendant behind was lost",
            ),
        ]
    },
    ..ONE_LOCK
};

/// Why the command was lost, if it was.
fn reason(hold: &Hold) -> Option<&String> {
    match &hold.end {
        End::Lost(why) => Some(why),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::*;

    fn hold(granted: u64, end: End) -> Hold {
        let hold = Hold::sample(ONE, granted.cast_signed(), granted, granted + 5, &[Claim::exclusive(0)]);
        Hold { end, ..hold }
    }

    fn lost(why: &str) -> End {
        End::Lost(why.to_owned())
    }

    /// A zklock is killed, a warden too, and a zklock is stopped.
    fn history() -> History {
        let stopped = Hold { shares: 1, ..hold(30, lost("exit status: 76")) };
        let stop = Fault { client: Some(1), ..Fault::sample(Effect::Stops, 33) };
        let holds = vec![hold(10, End::Killed), hold(20, lost(UNWARDED)), stopped];
        History { holds, faults: vec![stop], ..History::default() }
    }

    fn verdict(spoil: impl FnOnce(&mut History)) -> Vec<(Wrong, u64)> {
        Verdict::spoiled(Member::Program, history(), spoil)
    }

    #[test]
    fn a_command_that_finds_the_flock_taken_breaks_the_promise() {
        assert_eq!(verdict(|_| {}), []);
        let beside = |it: &mut History| it.failures.extend([(format!("c1.1 {BESIDE}"), 1)]);
        assert_eq!(verdict(beside), [(Broken, 1)]);
        assert_eq!(verdict(|it| it.failures.extend([("exit status: 69".into(), 1)])), []);
        assert_eq!(verdict(|it| it.holds.push(hold(40, lost("exit status: 70")))), [(Broken, 1)]);
    }

    #[test]
    fn a_run_in_which_nobody_was_stopped_or_killed_proves_nothing() {
        assert_eq!(verdict(|it| it.holds.truncate(1)), [(Unproven, 3)]);
        assert_eq!(verdict(|it| it.faults.clear()), [(Unproven, 1)]);
    }
}
