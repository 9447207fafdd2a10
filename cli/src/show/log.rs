//! `zklock show --watch`: a line for each change, with the time at which it was seen.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::sleep;
use zklock::inspect::Kind;

use super::sight::{Eye, LOCK, Sight};
use crate::failure::Outcome;
use crate::output;
use crate::queue::Entry;
use crate::text::{counted, message};

/// The pause between two looks. Reading a long queue takes time as well.
const PAUSE: Duration = Duration::from_millis(500);

/// The last look, what the path was so far, and how far the queue's numbers went.
#[derive(Default)]
struct Log {
    last: Option<Sight>,
    what: Option<&'static str>,
    highest: Option<i32>,
}

/// Prints each change until nobody reads it. It fails if the path cannot be read at first.
pub(super) async fn print_changes(mut eye: Eye<'_>) -> Outcome {
    let mut log = Log::default();
    let mut trouble = None;
    loop {
        let looked = eye.look_at_path().await;
        let at = Timestamp::now();
        let lines = match looked {
            Ok(sight) => {
                let again = trouble.take().map(|_: String| "can look again".to_owned());
                again.into_iter().chain(log.changes(sight)).collect()
            }
            Err(failure) if log.last.is_none() => return Err(failure),
            Err(failure) => match eye.session.failure() {
                Some(cause) => return Err(cause.into()),
                None => {
                    let told = trouble.replace(failure.to_string());
                    if told == trouble { Vec::new() } else { vec![format!("cannot look: {failure}")] }
                }
            },
        };
        let path = log.last.as_ref().map_or("", |sight| &sight.path);
        for line in lines {
            // Any client may have written some of it.
            let line = message(&format!("{path} {line}"));
            if !output::print_to_reader(format!("{at:.3} {line}\n")).await? {
                return Ok(ExitCode::SUCCESS);
            }
        }
        sleep(PAUSE).await;
    }
}

impl Log {
    /// What differs from the last look, a line for each change.
    fn changes(&mut self, sight: Sight) -> Vec<String> {
        let holders = sight.holders();
        let waiters = sight.waiting();
        let highest = holders.iter().chain(&waiters).filter_map(|entry| entry.sequence).max();
        let waiting = waiters.len();
        let is_other = sight.what.is_some_and(|what| what != self.what.unwrap_or(LOCK));
        let mut lines = Vec::new();
        match &self.last {
            None => {
                let held = holders.iter().map(|entry| entry_text(entry)).collect::<Vec<_>>().join("; ");
                let held = if held.is_empty() { "nobody".to_owned() } else { held };
                lines.push(format!("held by {held}; {waiting} waiting"));
            }
            Some(last) => {
                let had = last.holders();
                let waited = last.waiting();
                let held = Nodes::of(&had);
                let waits_before = Nodes::of(&waited);
                let holds = Nodes::of(&holders);
                let waits = Nodes::of(&waiters);
                lines.extend(holds.lack(&had).map(|entry| format!("left by {}", entry_text(entry))));
                lines.extend(sight.what.filter(|_| is_other).map(|what| format!("{what} now")));
                lines.extend(held.lack(&holders).map(|entry| format!("granted to {}", entry_text(entry))));
                // A contender that passes the turnstile of a pool has another node behind it, and waits no more.
                let left = waits.lack(&waited).filter(|entry| !holds.has(entry)).count();
                let came = waits_before.lack(&waiters).count();
                if came + left > 0 {
                    let wait = if left == 1 { "waits" } else { "wait" };
                    lines.push(format!("{came} came to wait, {left} {wait} no more; {waiting} waiting"));
                }
                // A number counts the creates in a lock's directory: also those of an ask, or of a directory below. Numbers
                // begin anew with the directory.
                let created = self.highest.zip(highest).map_or(0, |(before, now)| now.saturating_sub(before));
                let is_new = |entry: &&&Entry| !held.has(entry) && !waits_before.has(entry);
                let unseen =
                    i64::from(created) - holders.iter().chain(&waiters).filter(is_new).count() as i64;
                if unseen > 0 && sight.pool.is_none() && !is_other {
                    lines.push(format!(
                        "{unseen} came unseen between two looks: contenders that went, asks or directories"
                    ));
                }
            }
        }
        if sight.foreign > 0 && self.last.as_ref().is_none_or(|last| last.foreign != sight.foreign) {
            lines.push(format!("has {} of other clients or layouts", counted(sight.foreign, "contender")));
        }
        self.highest = highest.or(self.highest);
        self.what = sight.what.or(self.what);
        self.last = Some(sight);
        lines
    }
}

/// The contenders of a look, by their nodes. In a directory that was made anew, names come again with other tokens. An ACL may
/// hide a token.
struct Nodes<'a>(BTreeMap<&'a str, Option<i64>>);

impl<'a> Nodes<'a> {
    fn of(entries: &[&'a Entry]) -> Self {
        Self(entries.iter().map(|entry| (&*entry.node, entry.token)).collect())
    }

    fn has(&self, entry: &Entry) -> bool {
        let is_same = |token: &Option<i64>| token.is_none() || entry.token.is_none() || *token == entry.token;
        self.0.get(&*entry.node).is_some_and(is_same)
    }

    /// Those of the entries that are not among them.
    fn lack<'e>(&self, entries: &[&'e Entry]) -> impl Iterator<Item = &'e Entry> {
        entries.iter().copied().filter(|entry| !self.has(entry))
    }
}

fn entry_text(entry: &Entry) -> String {
    let what = match entry.kind {
        Kind::Slot(index) => format!(", slot {index}"),
        Kind::Permit(weight) => format!(", weight {weight}"),
        Kind::Shared => ", a reader".to_owned(),
        Kind::Exclusive => String::new(),
    };
    format!("{}{what}, token {}", entry.owner_text(), entry.token_text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::entry;

    fn sight_of(holders: &[(&str, i32)], waiting: &[(&str, i32)]) -> Sight {
        let [holders, waiting] = [(holders, true), (waiting, false)].map(|(some, holds)| {
            let entry = |(owner, number): &(&str, i32)| entry(owner, *number, i64::from(*number));
            some.iter().map(|one| Entry { holds, ..entry(one) }).collect::<Vec<_>>()
        });
        Sight { queue: [holders, waiting].concat(), ..Sight::default() }
    }

    #[test]
    fn each_change_is_a_line_and_nobody_is_forgotten() {
        let mut log = Log::default();
        let mut changes = |sight: Sight| log.changes(sight);
        assert_eq!(changes(sight_of(&[], &[])), ["held by nobody; 0 waiting"]);
        assert_eq!(changes(sight_of(&[("a", 3)], &[])), ["granted to a, token 3"]);
        assert_eq!(changes(sight_of(&[("a", 3)], &[])), [""; 0]);
        assert_eq!(
            changes(sight_of(&[("a", 3)], &[("b", 4), ("c", 5)])),
            ["2 came to wait, 0 wait no more; 2 waiting"]
        );
        assert_eq!(
            changes(sight_of(&[("b", 4)], &[("d", 8)])),
            [
                "left by a, token 3",
                "granted to b, token 4",
                "1 came to wait, 1 waits no more; 1 waiting",
                "2 came unseen between two looks: contenders that went, asks or directories"
            ]
        );
        // The directory was made again, and the next one has a name that was there before.
        let again = |token| {
            let sight = sight_of(&[("f", 4)], &[]);
            let queue = sight.queue.into_iter().map(|entry| Entry { token, ..entry }).collect();
            Sight { queue, ..Sight::default() }
        };
        assert_eq!(changes(again(Some(90)))[..2], ["left by b, token 4", "granted to f, token 90"]);
        // An ACL hides it, and shows it again.
        assert_eq!(changes(again(None)), [""; 0]);
        assert_eq!(changes(again(Some(90))), [""; 0]);
        assert_eq!(
            changes(sight_of(&[("e", 0)], &[]))[..2],
            ["left by f, token 90", "granted to e, token 0"]
        );
    }
}
