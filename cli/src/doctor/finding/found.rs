//! A finding, and how bad it is.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Two may hold a lock.
    Danger,
    /// Locks are slower, or gone more often, than they need to be; or a secret is told.
    Warning,
    /// To be known; nothing is wrong for certain.
    Note,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// Its name, which stays.
    pub(crate) code: &'static str,
    /// What there is.
    pub(crate) what: String,
    /// What to do.
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
