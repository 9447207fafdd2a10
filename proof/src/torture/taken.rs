//! From whom an operator took the lock.

use super::history::{End, Fault, Hold};

/// The sessions that an operator closed, and those of which a node was deleted or written to.
pub(crate) struct Taken<'a>(Vec<&'a Fault>);

impl<'a> Taken<'a> {
    pub(crate) fn of(faults: &'a [Fault]) -> Self {
        Self(faults.iter().filter(|fault| fault.kind.may_take()).collect())
    }

    /// Whether an operator took the lock from this holder, so that its lease promised what nobody could keep.
    pub(crate) fn has(&self, hold: &Hold) -> bool {
        let met = |fault: &&Fault| {
            // The node of a process may be older than the wish of the task that holds the lock by it.
            let by_then =
                hold.token.is_some_and(|token| fault.node == Some(token.zxid())) && fault.at <= hold.over;
            fault.session == Some(hold.session) && (by_then || (hold.asked..=hold.over).contains(&fault.at))
        };
        matches!(hold.end, End::Lost(_)) && self.0.iter().copied().any(|fault| met(&fault))
    }
}
