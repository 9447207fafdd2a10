//! Guards that were valid at once, and must not be.

use zklock::FencingToken;

use super::history::Hold;

/// Two guards in conflict, or permits beyond the capacity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Crowd {
    /// Their tokens. A client that is not zklock's has none.
    pub(crate) tokens: Vec<Option<FencingToken>>,
    /// Whether one of them was already told that its guard is lost when the last one was granted. Then only its lease had promised more.
    pub(crate) is_promise: bool,
    /// The finding, for people.
    pub(crate) what: String,
}

impl Crowd {
    /// The last of these was granted while the others were valid.
    pub(crate) fn new(holds: &[&Hold], what: String) -> Self {
        let last = holds.last().map(|hold| hold.granted);
        let is_promise = holds.iter().any(|hold| last.is_some_and(|last| hold.over <= last));
        Self { tokens: holds.iter().map(|hold| hold.token).collect(), is_promise, what }
    }
}
