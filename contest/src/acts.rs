//! From whom an operator took the lock.

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
            match (fault.session, fault.node) {
                // It may have met anybody from then on.
                (None, None) => fault.at <= hold.over,
                // The node of a process may be older than the request of the task that holds the lock by it.
                (session, _) => {
                    let by_then = is_on_node(fault, hold) && fault.at <= hold.over;
                    by_then || session == Some(hold.session) && (hold.asked..=hold.over).contains(&fault.at)
                }
            }
        })
    }

    /// Whether an operator acted on the hold's node before the hold was granted. Others may have been served meanwhile.
    pub fn came_before(&self, hold: &Hold) -> bool {
        self.0.iter().any(|fault| is_on_node(fault, hold) && fault.at <= hold.granted)
    }

    /// Whether an operator took the lock from this holder, so that its lease promised what nobody could keep.
    pub fn took(&self, hold: &Hold) -> bool {
        matches!(hold.end, End::Lost(_)) && self.met(hold)
    }
}

/// Whether it is the hold's node on which the operator acted.
fn is_on_node(fault: &Fault, hold: &Hold) -> bool {
    fault.session == Some(hold.session) && hold.token.is_some_and(|token| fault.node == Some(token.zxid()))
}
