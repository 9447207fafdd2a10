//! When to send which signal. Pure: every instant is an argument, by the program's own clock.

use std::time::Duration;

/// How long before the end of the lease SIGKILL is sent. A kernel on a busy machine takes time to carry it out.
pub(crate) const RESERVE: Duration = Duration::from_millis(250);

/// How long processes that a command leaves behind may go on before SIGTERM. A `tee` may have to write what it read.
const LINGER: Duration = Duration::from_millis(100);

/// The signal to send to every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Terminate,
    Kill,
}

/// Where the command stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// The command has ended by itself. The processes it left behind get SIGTERM at `until`, and SIGKILL after the grace.
    Lingering {
        until: Duration,
        grace: Duration,
    },
    /// SIGTERM has been sent. SIGKILL follows at `kill`.
    Terminating {
        kill: Duration,
    },
    Killing,
}

/// The stages from running to killed. A stage never comes back.
#[derive(Clone, Debug)]
pub(crate) struct Ladder {
    stage: Stage,
    /// The end of the lease, as far as is known; `None` if the command may outlive the lease.
    end: Option<Duration>,
}

impl Ladder {
    pub(crate) fn new(end: Option<Duration>) -> Self {
        Self { stage: Stage::Running, end }
    }

    /// The lease lasts until `end`.
    pub(crate) fn extend_lease(&mut self, end: Duration) {
        self.end = Some(end);
    }

    /// The command has ended. The processes it left behind have to end, too, with this grace.
    pub(crate) fn end_leftovers(&mut self, grace: Duration, now: Duration) {
        if self.stage == Stage::Running {
            self.stage = Stage::Lingering { until: now + LINGER, grace };
        }
    }

    /// The lock is lost. Every process has to end within `grace` from now, and before the lease does if `end` says when.
    pub(crate) fn stop_command(
        &mut self,
        grace: Duration,
        end: Option<Duration>,
        now: Duration,
    ) -> Option<Step> {
        let kill = now + grace;
        match self.stage {
            Stage::Running | Stage::Lingering { .. } => {
                self.end = end;
                self.stage = Stage::Terminating { kill };
                self.due_step(now).or(Some(Step::Terminate))
            }
            Stage::Terminating { kill: earlier } => {
                self.end = [self.end, end].into_iter().flatten().min();
                self.stage = Stage::Terminating { kill: kill.min(earlier) };
                self.due_step(now)
            }
            Stage::Killing => None,
        }
    }

    /// The holder is gone.
    pub(crate) fn kill_command(&mut self) -> Option<Step> {
        let first = self.stage != Stage::Killing;
        self.stage = Stage::Killing;
        first.then_some(Step::Kill)
    }

    /// The step that is due by now.
    pub(crate) fn due_step(&mut self, now: Duration) -> Option<Step> {
        if self.latest_kill().is_some_and(|last| last <= now) {
            return self.kill_command();
        }
        match self.stage {
            Stage::Lingering { until, grace } if until <= now => {
                self.stage = Stage::Terminating { kill: now + grace };
                Some(Step::Terminate)
            }
            Stage::Terminating { kill } if kill <= now => self.kill_command(),
            _ => None,
        }
    }

    /// When to look again.
    pub(crate) fn next_step_at(&self) -> Option<Duration> {
        match self.stage {
            Stage::Running => self.latest_kill(),
            Stage::Lingering { until: next, .. } | Stage::Terminating { kill: next } => {
                Some(self.latest_kill().map_or(next, |last| last.min(next)))
            }
            Stage::Killing => None,
        }
    }

    /// When every process gets SIGKILL at the latest.
    fn latest_kill(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_sub(RESERVE))
    }

    /// Whether no step was taken against the command, and it has not ended.
    pub(crate) fn is_running(&self) -> bool {
        self.stage == Stage::Running
    }

    pub(crate) fn is_killing(&self) -> bool {
        self.stage == Stage::Killing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);
    const GRACE: Duration = Duration::from_secs(2);

    fn after(seconds: f64) -> Duration {
        NOW + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_command_runs_until_shortly_before_the_lease_ends() {
        let mut ladder = Ladder::new(Some(after(5.0)));
        assert_eq!(ladder.next_step_at(), Some(after(4.75)));
        assert_eq!(ladder.due_step(after(4.7)), None);
        ladder.extend_lease(after(9.0));
        assert_eq!(ladder.due_step(after(8.7)), None);
        assert_eq!(ladder.due_step(after(8.75)), Some(Step::Kill));
        assert_eq!((ladder.due_step(after(9.0)), ladder.next_step_at()), (None, None));
    }

    #[test]
    fn a_lease_may_turn_out_shorter_than_was_thought() {
        let mut ladder = Ladder::new(Some(after(9.0)));
        ladder.extend_lease(after(5.0));
        assert_eq!(ladder.due_step(after(4.75)), Some(Step::Kill));
    }

    #[test]
    fn it_is_asked_first_and_killed_after_its_grace_or_before_the_lease_ends() {
        // The lease, the grace, the end that the order names, and when SIGKILL follows SIGTERM; `None` if it comes at once. A loss that
        // nobody foresaw names no end, and leaves the grace.
        for (lease, grace, end, kill) in [
            (Some(5.0), GRACE, Some(5.0), Some(2.0)),
            (Some(1.0), GRACE, Some(1.0), Some(0.75)),
            (Some(0.5), GRACE, None, Some(2.0)),
            (None, GRACE, Some(0.2), None),
            (None, Duration::ZERO, None, None),
        ] {
            let mut ladder = Ladder::new(lease.map(after));
            let first = if kill.is_some() { Step::Terminate } else { Step::Kill };
            assert_eq!(ladder.stop_command(grace, end.map(after), NOW), Some(first), "{lease:?} {end:?}");
            assert_eq!(ladder.next_step_at(), kill.map(after), "{lease:?} {end:?}");
            if let Some(kill) = kill {
                assert_eq!(ladder.due_step(after(kill - 0.01)), None);
                assert_eq!(ladder.due_step(after(kill)), Some(Step::Kill));
            }
        }
    }

    #[test]
    fn what_was_left_behind_may_finish_then_is_asked_and_then_killed() {
        let mut ladder = Ladder::new(Some(after(9.0)));
        ladder.end_leftovers(GRACE, NOW);
        assert_eq!((ladder.is_running(), ladder.next_step_at()), (false, Some(after(0.1))));
        assert_eq!(ladder.due_step(after(0.1)), Some(Step::Terminate));
        assert_eq!((ladder.due_step(after(0.2)), ladder.next_step_at()), (None, Some(after(2.1))));
        assert_eq!(ladder.due_step(after(2.1)), Some(Step::Kill));
    }

    #[test]
    fn what_was_left_behind_does_not_outlive_the_lease_either() {
        let mut ladder = Ladder::new(Some(after(0.3)));
        ladder.end_leftovers(GRACE, NOW);
        assert_eq!(ladder.due_step(after(0.05)), Some(Step::Kill));
    }

    #[test]
    fn a_loss_hurries_what_was_left_behind() {
        let mut ladder = Ladder::new(None);
        assert_eq!(ladder.stop_command(GRACE, Some(after(9.0)), NOW), Some(Step::Terminate));
        assert_eq!(ladder.stop_command(GRACE, Some(after(1.5)), after(0.1)), None);
        assert_eq!(ladder.next_step_at(), Some(after(1.25)));
        assert_eq!(ladder.stop_command(Duration::ZERO, None, after(0.2)), Some(Step::Kill));
        assert_eq!(ladder.stop_command(GRACE, None, after(0.3)), None);
    }

    #[test]
    fn one_that_may_outlive_the_lease_is_killed_only_when_nobody_is_left() {
        let mut ladder = Ladder::new(None);
        assert_eq!((ladder.next_step_at(), ladder.due_step(after(1e6))), (None, None));
        assert_eq!(ladder.kill_command(), Some(Step::Kill));
        assert_eq!(ladder.kill_command(), None);
    }
}
