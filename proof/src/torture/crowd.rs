//! Guards that were valid at once, and must not be.

use std::time::Duration;

use zklock::FencingToken;

use super::history::{End, Hold};

/// So late may a process look at a guard, or say what it does, on a busy machine. One that was continued hears several things at once.
pub(super) const LATE: Duration = Duration::from_millis(500);

/// Two guards in conflict, or permits beyond the capacity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Crowd {
    /// Their tokens. A client that is not zklock's has none.
    pub(crate) tokens: Vec<Option<FencingToken>>,
    /// Whether one of them did not see its guard valid after the last one was granted, and was told by then that it is lost, or soon
    /// after. Then only its lease had promised more.
    pub(crate) is_promise: bool,
    /// The finding, for people.
    pub(crate) what: String,
}

impl Crowd {
    /// The last of these was granted while the others were valid.
    pub(crate) fn new(holds: &[&Hold], what: String) -> Self {
        let last = holds.last().map(|hold| hold.granted);
        let is_told = |hold: &Hold, last| {
            matches!(hold.end, End::Lost(_)) && hold.seen.valid < last && hold.over <= last + LATE
        };
        let is_promise = holds.iter().any(|hold| last.is_some_and(|last| is_told(hold, last)));
        Self { tokens: holds.iter().map(|hold| hold.token).collect(), is_promise, what }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Who;
    use super::super::wish::Claim;
    use super::*;
    use crate::harness::Instant;

    #[test]
    fn a_promise_is_what_nobody_saw_and_what_its_holder_knew_better_soon() {
        let hold = |client, granted: Duration, valid: Duration| {
            let [granted, valid] = [granted, valid].map(|it| it.as_nanos() as u64);
            Hold::sample(Who { client, task: 1 }, i64::from(client), granted, valid, &[Claim::exclusive(0)])
        };
        let is_promise_of = |end: End, valid: Duration, over: Duration| {
            let first = Hold { over: Instant(0) + over, end, ..hold(1, Duration::ZERO, valid) };
            Crowd::new(&[&first, &hold(2, LATE * 2, LATE * 9)], String::new()).is_promise
        };
        let is_promise = |valid, over| is_promise_of(End::Lost("its node was deleted".into()), valid, over);
        assert!(is_promise(LATE, LATE), "it was told before");
        assert!(is_promise(LATE, LATE * 3), "soon after");
        assert!(!is_promise(LATE, LATE * 4), "it held for long beside the next one");
        assert!(!is_promise(LATE * 2, LATE * 2), "it looked");
        assert!(!is_promise_of(End::Killed, LATE, LATE * 3), "nobody told it");
    }
}
