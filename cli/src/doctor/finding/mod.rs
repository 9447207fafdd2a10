//! The findings: facts that make locks fragile, and advice. Pure.

mod ensemble;
mod found;
mod queue;
mod session;
#[cfg(test)]
mod tests;
mod version;

use super::seen::Seen;
use found::Findings;
pub(super) use found::{Finding, Severity};

/// All findings, the worst first.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let mut found = Findings::default();
    session::look(seen, &mut found);
    ensemble::look(seen, &mut found);
    version::look(seen, &mut found);
    queue::look(seen, &mut found);
    found.sorted()
}
