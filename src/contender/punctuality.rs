//! Whether a quorum answers in time to prove a lease.

/// After so many late answers in a row, the servers are too far away for their session timeout. A lease that has lapsed takes two.
const LATE: u32 = 4;

/// How many answers in a row came so late that the lease was over by then.
#[derive(Default)]
pub(super) struct Punctuality(u32);

impl Punctuality {
    /// Takes an answer in. Returns true once in a row of late ones: then somebody should be told.
    pub(super) fn hear(&mut self, in_time: bool) -> bool {
        self.0 = if in_time { 0 } else { self.0.saturating_add(1) };
        self.0 == LATE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_late_answers_is_told_once() {
        let mut punctuality = Punctuality::default();
        let mut told = |in_time: &[bool]| in_time.iter().filter(|it| punctuality.hear(**it)).count();
        assert_eq!(told(&[false, false, false, true, false, false, false]), 0);
        assert_eq!(told(&[false; 10]), 1);
        assert_eq!(told(&[true, false, false, false, false]), 1);
    }
}
