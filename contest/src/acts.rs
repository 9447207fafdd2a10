//! From whom an operator took the lock.

use zklock::FencingToken;

use crate::history::{Effect, End, Fault, Hold};

/// The sessions that an operator closed, and those of which a node was deleted or written to.
pub struct OperatorActs<'a>(Vec<&'a Fault>);

impl<'a> OperatorActs<'a> {
    pub fn of(faults: &'a [Fault]) -> Self {
        Self(faults.iter().filter(|fault| fault.effect >= Effect::Writes).collect())
    }

    /// Whether an operator touched this hold while it was there.
    pub fn met(&self, hold: &Hold) -> bool {
        self.0.iter().any(|fault| {
            // The node of a process may be older than the request of the task that holds the lock by it.
            let by_then =
                hold.token.is_some_and(|token| fault.node == Some(token.zxid())) && fault.at <= hold.over;
            match (fault.session, fault.node) {
                // It may have met anybody from then on.
                (None, None) => fault.at <= hold.over,
                (session, _) => {
                    session == Some(hold.session) && (by_then || (hold.asked..=hold.over).contains(&fault.at))
                }
            }
        })
    }

    /// Whether an operator acted on the hold's node before the hold was granted. Others may have been served meanwhile.
    pub fn came_before(&self, hold: &Hold) -> bool {
        let node = hold.token.map(FencingToken::zxid);
        self.0.iter().any(|fault| {
            node.is_some()
                && fault.node == node
                && fault.session == Some(hold.session)
                && fault.at <= hold.granted
        })
    }

    /// Whether an operator took the lock from this holder, so that its lease promised what nobody could keep.
    pub fn took(&self, hold: &Hold) -> bool {
        matches!(hold.end, End::Lost(_)) && self.met(hold)
    }
}
