//! The findings: facts that make locks fragile, and advice. Pure.

mod ensemble;
mod found;
mod nodes;
mod queue;
mod session;
#[cfg(test)]
mod tests;
mod version;

use super::seen::Seen;
pub(super) use found::{Finding, Severity};

/// All findings, the worst first.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let mut findings = session::findings(seen);
    findings.extend(ensemble::findings(seen));
    findings.extend(version::findings(seen));
    findings.extend(queue::findings(seen));
    findings.extend(nodes::many(seen));
    findings.sort_by_key(|finding| finding.severity);
    findings
}
