//! Text that any client may have written, made fit for a terminal.

use std::time::Duration;

use zklock::inspect;

use crate::duration;

/// How much is shown of one text of another client: an owner, a reason, a node's name.
const OF_ONE: usize = 256;

/// How much is shown of a whole message, which may have several such texts, and paths.
const OF_MESSAGE: usize = 4096;

/// A text of another client, for a message or a table.
pub(crate) fn harmless(text: &str) -> String {
    inspect::harmless(text, OF_ONE)
}

/// A message of the program, whatever the texts in it are.
pub(crate) fn message(text: &str) -> String {
    inspect::harmless(text, OF_MESSAGE)
}

/// A text that is a result itself. A part of it would be another result.
pub(crate) fn whole(text: &str) -> String {
    inspect::harmless(text, usize::MAX)
}

/// How long ago something was, or how long it took. Seconds are exact enough for a queue.
pub(crate) fn age(length: Duration) -> String {
    match length.as_secs() {
        0 => "<1s".to_owned(),
        seconds => duration::text(Duration::from_secs(seconds)),
    }
}

/// A number of things. `one` names a single one of them: `1 slot`, `2 slots`.
pub(crate) fn counted(number: impl TryInto<u64>, one: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_no_fractions() {
        let of = |millis| age(Duration::from_millis(millis));
        assert_eq!([of(0), of(999), of(1999), of(200_000)], ["<1s", "<1s", "1s", "3m 20s"]);
    }
}
