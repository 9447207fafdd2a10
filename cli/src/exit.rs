//! How the program ends: the one table of exit codes. `--help` and docs/CLI.md show it.

use std::process::ExitCode;

/// The exit codes of the program itself. Where `sysexits.h` has a word for it, the number is the one from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(clap::ValueEnum))]
pub(crate) enum Code {
    /// The question was answered, with no.
    No = 1,
    Usage = 64,
    /// The path of the question does not exist.
    Nothing = 66,
    Unreachable = 69,
    Internal = 70,
    NotAcquired = 75,
    Lost = 76,
    NotAuthorized = 77,
    /// The numbers of `sysexits.h` end with 78.
    FailedBefore = 79,
    HeldTooLong = 124,
    NotExecutable = 126,
    NotFound = 127,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// The exit code after a signal, as shells write it.
pub(crate) fn after_signal(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}

/// The table for the help: the exit code, its name, and the reasons to end so, one a line.
pub(crate) const TABLE: &str = "\
Exit codes:
  CMD's own  own             run, lead: CMD ended by itself while the lock was held; 128+N if signal N ended it
  0          done            zklock did what you asked for, or the answer is yes
                             ask: those who were asked have let go, or nobody holds it
                             run --once, --every: the run has succeeded already
                             export: SIGTERM or SIGINT ended it
  1          no              verify: a sequencer is outdated
                             show --exit-code: nobody holds the lock
                             leader: nobody leads
                             ask: one of those who were asked still holds it after --within
                             ask: --slot or --sequence names no holder
                             release: nothing was released
                             resize: nothing was changed
                             doctor: a warning or a danger was found
  64         usage           an option is wrong, or not possible in this session
                             run --slot, --permits: ZooKeeper keeps another COUNT or CAPACITY for this path
                             run, lead: the path is used as something else: a lock, an election, a semaphore, slots
                             run --once, --every: the run may have been done already: its record may have been dropped
  66         nothing         the chroot of --servers does not exist
                             show, ls, ask, release, resize: the path is missing
  69         unreachable     ZooKeeper cannot be reached, does not answer in time, or has no quorum
  70         internal        an internal error, or an error that has no other code here
  75         not-acquired    run, lead: the lock was not acquired within --timeout
                             run, lead: a contender of another client is in the queue
                             ask: somebody else asks there already
                             run, lead: --conflict-exit-code N replaces 75 by N
  76         lost            run, lead: the lock was lost while CMD ran
                             run --once, --every: the lock was lost before CMD began, or before its success was recorded
  77         not-authorized  the servers reject the credentials, or an ACL forbids the request
  79         failed-before   run --once, --every: the run has begun already, and has failed, or its end was not recorded
  124        held-too-long   run, lead: CMD was ended because it had run for --max-hold
  126        not-executable  run, lead: CMD was found, but cannot be run
  127        not-found       run, lead: CMD was not found
  128+N      signal          run, lead: signal N ended the wait for the lock
                             ask: signal N ended the wait
                             leader --watch: signal N ended it; after SIGINT the exit code is 0";

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use clap::ValueEnum;

    use super::*;

    /// Each row of the table: the exit code, its name, and the reasons.
    fn rows() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
        let mut rows = Vec::new();
        for line in TABLE.lines().skip(1) {
            assert!(line.len() <= 120, "it does not fit the widest help: {line}");
            let [exit, name, reason] = [&line[2..11], &line[13..27], &line[29..]].map(str::trim);
            if !exit.is_empty() {
                rows.push((exit, name, Vec::new()));
            }
            rows.last_mut().expect("a row").2.push(reason);
        }
        rows
    }

    #[test]
    fn the_page_has_the_table() {
        let mut markdown = "| exit code | name | when |\n|---|---|---|\n".to_owned();
        for (exit, name, reasons) in rows() {
            let _infallible = writeln!(markdown, "| {exit} | {name} | {} |", reasons.join("<br>"));
        }
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/CLI.md");
        let page = std::fs::read_to_string(page).expect("docs/CLI.md");
        assert!(page.contains(&markdown), "docs/CLI.md needs this table:\n\n{markdown}");
    }

    #[test]
    fn the_table_has_each_code() {
        for code in Code::value_variants() {
            let number = (*code as u8).to_string();
            assert!(rows().iter().any(|(exit, ..)| *exit == number), "{code:?}");
        }
    }
}
