//! What the instants of a drill prove. Pure.

use std::time::Duration;

use super::fault::Fault;

/// The instants of one fault, counted from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// When the drill saw that the holder's guard was lost, and why.
    pub(super) lost: Option<(Duration, String)>,
    /// When the next contender was granted.
    pub(super) granted: Option<Duration>,
    /// Whether the holder's guard said at that moment that it was valid. Nothing else proves an overlap: the instants are
    /// those at which this program learned of them.
    pub(super) overlap: bool,
    /// For how long the guard was seen to be valid, and then released by the drill.
    pub(super) survived: Option<Duration>,
    /// Whether the drill itself let the lock go after the loss, because the session lives on.
    pub(super) let_go: bool,
    /// For how long the drill did not run around these instants.
    pub(super) stall: Duration,
}

/// What became of one fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The guard was lost, and that much later the next contender was granted. `None` if the drill itself let the lock go
    /// in between.
    Lost { margin: Option<Duration> },
    /// The guard was not valid when the next contender was granted, but it may have been a moment earlier: the drill did
    /// not run at one of the instants, or saw no loss.
    Unmeasured,
    /// The guard outlived every lease from before the fault, because another server confirmed it.
    Survived,
    /// Two guards were valid at once.
    Overlap,
    /// The drill did not see the end of it.
    Unfinished,
}

/// What the drill shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Kept,
    NotKept,
    Unproven,
}

impl Seen {
    pub(super) fn outcome(&self) -> Outcome {
        match (&self.lost, self.granted) {
            _ if self.overlap => Outcome::Overlap,
            (None, _) if self.survived.is_some() => Outcome::Survived,
            (Some((lost, _)), Some(granted)) => {
                match granted.checked_sub(*lost).filter(|margin| *margin > self.stall) {
                    Some(margin) => Outcome::Lost { margin: (!self.let_go).then_some(margin) },
                    None => Outcome::Unmeasured,
                }
            }
            (None, Some(_)) => Outcome::Unmeasured,
            (_, None) => Outcome::Unfinished,
        }
    }
}

/// The verdict over all faults.
pub(super) fn verdict(outcomes: &[(Fault, Outcome)]) -> Verdict {
    if outcomes.iter().any(|(_, outcome)| *outcome == Outcome::Overlap) {
        return Verdict::NotKept;
    }
    let proves = |outcome: &Outcome| match outcome {
        Outcome::Lost { .. } | Outcome::Survived => true,
        Outcome::Unmeasured | Outcome::Overlap | Outcome::Unfinished => false,
    };
    match outcomes.is_empty() || !outcomes.iter().all(|(_, outcome)| proves(outcome)) {
        true => Verdict::Unproven,
        false => Verdict::Kept,
    }
}

/// The smallest margin between a loss and the next grant.
pub(super) fn smallest_margin(outcomes: &[(Fault, Outcome)]) -> Option<(Fault, Duration)> {
    let margins = outcomes.iter().filter_map(|(fault, outcome)| match outcome {
        Outcome::Lost { margin } => margin.map(|margin| (*fault, margin)),
        Outcome::Survived | Outcome::Unmeasured | Outcome::Overlap | Outcome::Unfinished => None,
    });
    margins.min_by_key(|(_, margin)| *margin)
}

/// The faults in which a server could be reached, and yet the guard was lost.
pub(super) fn lost_needlessly(outcomes: &[(Fault, Outcome)]) -> Vec<Fault> {
    let lost = |(fault, outcome): &&(Fault, Outcome)| {
        fault.is_survivable() && matches!(outcome, Outcome::Lost { .. })
    };
    outcomes.iter().filter(lost).map(|(fault, _)| *fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    fn seen(lost: Option<u64>, granted: Option<u64>) -> Seen {
        let lost = lost.map(|lost| (Duration::from_secs(lost), "unconfirmed".to_owned()));
        Seen { lost, granted: granted.and_then(seconds), ..Seen::default() }
    }

    #[test]
    fn a_loss_before_the_grant_is_a_margin_and_only_the_guard_proves_an_overlap() {
        assert_eq!(seen(Some(7), Some(11)).outcome(), Outcome::Lost { margin: seconds(4) });
        // A timer stops while the machine sleeps, so the loss may be told late, or not at all.
        assert_eq!(seen(Some(11), Some(7)).outcome(), Outcome::Unmeasured);
        assert_eq!(seen(None, Some(7)).outcome(), Outcome::Unmeasured);
        // The drill did not run for as long as the margin.
        let stall = Duration::from_secs(4);
        assert_eq!(Seen { stall, ..seen(Some(7), Some(11)) }.outcome(), Outcome::Unmeasured);
        assert_eq!(Seen { stall, ..seen(Some(7), Some(12)) }.outcome(), Outcome::Lost { margin: seconds(5) });
        // The guard said that it was valid, though its loss was noted earlier.
        let both = Seen { overlap: true, ..seen(Some(7), Some(11)) };
        assert_eq!(both.outcome(), Outcome::Overlap);
    }

    #[test]
    fn a_loss_behind_which_the_drill_lets_go_has_no_margin_and_is_measured_all_the_same() {
        let released = Seen { let_go: true, ..seen(Some(7), Some(9)) };
        assert_eq!(released.outcome(), Outcome::Lost { margin: None });
        // The machine was suspended. The grant may have come before the loss, and not because the drill let go.
        let stall = Duration::from_secs(60);
        assert_eq!(Seen { stall, ..released.clone() }.outcome(), Outcome::Unmeasured);
        assert_eq!(Seen { granted: None, ..released }.outcome(), Outcome::Unfinished);
    }

    #[test]
    fn what_has_no_end_proves_nothing() {
        for unfinished in [seen(None, None), seen(Some(7), None)] {
            assert_eq!(unfinished.outcome(), Outcome::Unfinished);
        }
        let survived = Seen { survived: seconds(12), ..seen(None, None) };
        assert_eq!(survived.outcome(), Outcome::Survived);
        // The drill released it, so a grant behind that is none too early.
        assert_eq!(Seen { granted: seconds(12), ..survived }.outcome(), Outcome::Survived);
    }

    #[test]
    fn one_overlap_outweighs_everything() {
        let lost = |margin| Outcome::Lost { margin: seconds(margin) };
        let cut = (Fault::Cut, lost(4));
        let late = (Fault::Late, lost(2));
        assert_eq!(verdict(&[cut.clone(), late.clone()]), Verdict::Kept);
        assert_eq!(smallest_margin(&[cut.clone(), late]), seconds(2).map(|margin| (Fault::Late, margin)));
        let unfinished = (Fault::Late, Outcome::Unfinished);
        assert_eq!(verdict(&[cut.clone(), unfinished.clone()]), Verdict::Unproven);
        assert_eq!(verdict(&[cut.clone(), (Fault::Late, Outcome::Unmeasured)]), Verdict::Unproven);
        assert_eq!(verdict(&[unfinished, (Fault::BlackHole, Outcome::Overlap)]), Verdict::NotKept);
        assert_eq!(verdict(&[]), Verdict::Unproven);
        assert_eq!(lost_needlessly(&[cut, (Fault::Reconnect, lost(3))]), [Fault::Reconnect]);
    }
}
