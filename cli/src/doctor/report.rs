//! The report, as text for people.

use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::finding::{Finding, Severity};
use super::seen::{Lengths, Seen, Server};
use crate::duration::text as length;
use crate::queue::known_text;
use crate::servers::Mode;
use crate::table::{self, Column};
use crate::text::{harmless, message};

/// The whole report. It has colours; printing removes them where the output is no terminal. A failure follows it.
pub(super) fn report_text(seen: &Seen, findings: &[Finding], fails: bool) -> String {
    let mut text = servers_text(seen);
    if let Some(session) = &seen.session {
        text.push('\n');
        text.push_str(&lengths_text(session));
    }
    let rate = format!("differs by {:+} parts per million from a clock that nobody adjusts", seen.clock_rate);
    let _infallible = writeln!(text, "{:<27}{rate}", "This machine's clock");
    text.push('\n');
    for finding in findings {
        text.push_str(&paragraph(finding));
    }
    if findings.is_empty() && !fails {
        text.push_str("doctor found no problem.\n");
    }
    text
}

/// What a quiet user reads, too: a named path that does not exist is one of them, though the lock may only be free.
pub(super) fn problems_text(findings: &[Finding]) -> String {
    let is_told = |finding: &&Finding| finding.severity < Severity::Note || finding.code == "path-missing";
    findings.iter().filter(is_told).map(paragraph).collect()
}

fn servers_text(seen: &Seen) -> String {
    let columns: [Column<'_, Server>; 5] = [
        ("SERVER", true, &|server| server.address.to_string()),
        ("MODE", true, &|server| server.mode().map_or("unreachable".to_owned(), Mode::to_string)),
        ("VERSION", true, &|server| {
            known_text(server.words.as_ref().ok().and_then(|words| words.version.as_ref()))
        }),
        ("TICK", true, &|server| known_text(server.settings.map(|settings| length(settings.tick)))),
        ("LONGEST SESSION", true, &|server| {
            known_text(server.visit.as_ref().ok().map(|visit| length(visit.longest_timeout)))
        }),
    ];
    let mut text = table::of_columns(&columns, &seen.servers);
    let mut identities = seen.visits().flat_map(|visit| &visit.identities).collect::<Vec<_>>();
    identities.sort();
    identities.dedup();
    if !identities.is_empty() {
        let digest = identities.iter().any(|identity| identity.starts_with("digest:"));
        // The name says nothing of the password.
        let caveat =
            if digest { " They accept any password for a digest. Only an ACL checks it." } else { "" };
        let identities = identities.into_iter().map(|identity| harmless(identity)).collect::<Vec<_>>();
        let identities = identities.join(", ");
        let _infallible = writeln!(text, "\nThe servers know this client as {identities}.{caveat}");
    }
    text
}

fn lengths_text(session: &Lengths) -> String {
    let shortest = length(floor(session.longest_stop_margin));
    let longest = length(session.longest_validity);
    let lines = [
        ("Session timeout", length(session.timeout)),
        ("Tick used for leases", length(session.tick)),
        ("A guard stays valid for", format!("{shortest} to {longest} after ZooKeeper stops answering")),
    ];
    lines.iter().map(|(name, value)| format!("{name:<27}{value}\n")).collect()
}

fn paragraph(finding: &Finding) -> String {
    let (label, style) = match finding.severity {
        Severity::Danger => ("DANGER", AnsiColor::Red.on_default().bold()),
        Severity::Warning => ("WARNING", AnsiColor::Yellow.on_default().bold()),
        Severity::Note => ("NOTE", Style::new().bold()),
    };
    let what = message(&finding.what);
    let advice = message(&finding.advice);
    format!("{style}{label:<7}{style:#}  {what}\n         -> {advice}\n")
}

/// Rounds down to 10 ms: users may give the result as a margin, which must not be longer than the true one.
fn floor(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_millis() as u64 / 10 * 10)
}
