//! What makes locks fragile: from what was seen to what should be done. Pure.

mod ensemble;
mod queue;
mod session;
#[cfg(test)]
mod tests;

use serde::Serialize;

use super::seen::Seen;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Two may hold a lock.
    Danger,
    /// Locks are slower, or gone more often, than they need to be; or a secret is told.
    Warning,
    /// To be known; nothing is wrong for certain.
    Note,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// Its name, which stays.
    pub(super) code: &'static str,
    /// What there is.
    pub(super) what: String,
    /// What to do.
    pub(super) advice: String,
}

impl Finding {
    fn danger(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Danger, code, what: what.into(), advice: advice.into() }
    }

    fn warning(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::danger(code, what, advice) }
    }

    fn note(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::danger(code, what, advice) }
    }
}

/// All that was found, the worst first.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let mut findings = session::findings(seen);
    findings.extend(ensemble::findings(seen));
    findings.extend(queue::findings(seen));
    findings.sort_by_key(|finding| finding.severity);
    findings
}
