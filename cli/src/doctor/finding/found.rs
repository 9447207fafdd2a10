//! A finding, and how bad it is.

use serde::Serialize;

/// How bad it is.
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

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// Its name. It never changes.
    pub(crate) code: &'static str,
    /// The fact.
    pub(crate) what: String,
    /// The advice.
    pub(crate) advice: String,
}

impl Finding {
    pub(super) fn danger(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Danger, code, what: what.into(), advice: advice.into() }
    }

    pub(super) fn warning(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::danger(code, what, advice) }
    }

    pub(super) fn note(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::danger(code, what, advice) }
    }
}
