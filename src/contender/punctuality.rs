//! Whether a quorum answers in time to prove a lease.

use std::time::Duration;

use zklock_recipe::Moment;

/// After so many late answers in a row, the servers are too far away for their session timeout. A lease that has lapsed takes two.
const LATE: u32 = 4;

/// How many answers in a row came so late that the lease was over by then.
#[derive(Default)]
pub(super) struct Punctuality {
    late: u32,
    /// The first answer in a row by which the session may have expired. Until that is settled, no answer proves a lease.
    doubted: Option<Moment>,
}

impl Punctuality {
    /// Takes in an answer that has proven a lease, or not. If the session may have expired, answers that come in time prove none for
    /// `doubted_for`. Returns true once in a row of late ones: then somebody should be told.
    pub(super) fn hear(&mut self, proves: bool, doubted_for: Option<Duration>, now: Moment) -> bool {
        if proves {
            *self = Self::default();
            return false;
        }
        if let Some(time) = doubted_for {
            let since = *self.doubted.get_or_insert(now);
            if now.most_since(since) < time * 2 {
                return false;
            }
        }
        self.late = self.late.saturating_add(1);
        self.late == LATE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_row_of_late_answers_is_told_once() {
        let mut punctuality = Punctuality::default();
        let mut told =
            |prove: &[bool]| prove.iter().filter(|it| punctuality.hear(**it, None, clock::now())).count();
        assert_eq!(told(&[false, false, false, true, false, false, false]), 0);
        assert_eq!(told(&[false; 10]), 1);
        assert_eq!(told(&[true, false, false, false, false]), 1);
    }

    #[test]
    fn answers_in_a_doubt_are_not_late_unless_it_lasts() {
        let mut punctuality = Punctuality::default();
        let began = clock::now();
        let second = Duration::from_secs(1);
        let mut told = |after: u32| punctuality.hear(false, Some(second), began.plus(second * after / 2));
        assert!([0, 1, 1, 2, 2, 3, 3].into_iter().all(|after| !told(after)));
        assert_eq!([4, 5, 6, 7, 8].map(&mut told), [false, false, false, true, false]);
    }
}
