//! The end of a server's log, for errors.

/// How many lines an error shows.
const LINES: usize = 30;

/// The last lines of a log.
pub(super) fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n")
}
