//! Whether a quorum answers in time to prove a lease.

use zklock_recipe::Moment;

/// After so many late answers in a row, the servers are too far away for their session timeout. A lease that has lapsed takes two.
const LATE: u32 = 4;

/// How many answers in a row came so late that the lease was over by then.
#[derive(Default)]
pub(super) struct Punctuality {
    late: u32,
    doubt: Option<Moment>,
}

impl Punctuality {
    /// Takes an answer in, after which the lease is valid, or in doubt until an instant. While one doubt lasts, answers say nothing.
    /// Returns true once in a row of late ones: then somebody should be told.
    pub(super) fn hear(&mut self, is_valid: bool, doubt: Option<Moment>) -> bool {
        let is_known = doubt.is_some() && doubt == self.doubt;
        self.doubt = doubt;
        if is_valid {
            self.late = 0;
        }
        if is_valid || is_known {
            return false;
        }
        self.late = self.late.saturating_add(1);
        self.late == LATE
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_row_of_late_answers_is_told_once() {
        let mut punctuality = Punctuality::default();
        let mut told = |valid: &[bool]| valid.iter().filter(|it| punctuality.hear(**it, None)).count();
        assert_eq!(told(&[false, false, false, true, false, false, false]), 0);
        assert_eq!(told(&[false; 10]), 1);
        assert_eq!(told(&[true, false, false, false, false]), 1);
    }

    #[test]
    fn a_doubt_counts_once_however_long_it_lasts() {
        let doubt = |second| Some(Moment::new(Duration::from_secs(second), Duration::ZERO, Duration::ZERO));
        let mut punctuality = Punctuality::default();
        let mut told =
            |doubts: &[u64]| doubts.iter().filter(|it| punctuality.hear(false, doubt(**it))).count();
        assert_eq!(told(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 3]), 0);
        assert_eq!(told(&[4]), 1);
    }
}
