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
pub(super) fn find_all(seen: &Seen) -> Vec<Finding> {
    let mut found = Findings::default();
    session::find_in_session(seen, &mut found);
    ensemble::find_in_ensemble(seen, &mut found);
    version::find_in_version(seen, &mut found);
    queue::find_in_queue(seen, &mut found);
    found.sorted()
}
