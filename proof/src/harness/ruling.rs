//! What a program has found of the promises.

use serde::Serialize;

/// The numbers are those with which the program ends. It ends with 2 if something could not be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Ruling {
    /// Each was kept.
    Pass = 0,
    /// One was broken.
    Fail = 1,
    /// None was broken, and the run has not shown what it was to show.
    Unproven = 3,
}
