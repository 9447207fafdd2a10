//! A finding, and how bad it is.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Two may hold a lock.
    Danger,
    /// Locks are slower or lost more often than necessary, servers may lose them when they fail, or a secret is visible.
    Warning,
    /// Worth knowing. It need not be wrong.
    Note,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// Its name. It never changes.
    pub(crate) code: &'static str,
    pub(crate) what: String,
    pub(crate) advice: String,
}

#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    pub(super) fn danger(&mut self, code: &'static str, what: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Finding { severity: Severity::Danger, code, what: what.into(), advice: advice.into() });
    }

    pub(super) fn warning(&mut self, code: &'static str, what: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Finding { severity: Severity::Warning, code, what: what.into(), advice: advice.into() });
    }

    pub(super) fn note(&mut self, code: &'static str, what: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Finding { severity: Severity::Note, code, what: what.into(), advice: advice.into() });
    }

    pub(super) fn sorted(mut self) -> Vec<Finding> {
        self.0.sort_by_key(|finding| finding.severity);
        self.0
    }
}
