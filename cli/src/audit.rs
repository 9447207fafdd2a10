//! `zklock audit`: whether two held a lock at once, by the flight records of the processes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use zklock_audit::{Audit, Covered, HoldAudit, Options, PathAudit, Records, Verdict, audit, picture};

use crate::args;
use crate::duration;
use crate::exit::Code;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::text::harmless;

/// How many losses and waits of a path are told.
const TOLD: usize = 5;

/// Reads the records, and prints what they show.
pub(crate) fn examine(options: &args::Audit) -> Outcome {
    let (since, until) = (options.since, options.until);
    if let (Some(since), Some(until)) = (since, until)
        && since >= until
    {
        return Err(Failure::usage(format_args!("--since {since} is not before --until {until}")));
    }
    let records = read(&options.records)?;
    // Nobody has this id after the machine was started again.
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let boot = boot.map(|id| id.trim().to_owned());
    // A window in whole milliseconds has all of the one that was asked for.
    let until_ms =
        until.map(|until| until.as_millisecond() + i64::from(until.subsec_nanosecond() % 1_000_000 > 0));
    let options_of = Options {
        path: options.path.clone(),
        since: since.map(|since| since.as_millisecond()),
        until: until_ms,
        is_one_ensemble: options.one_ensemble,
        boot,
        ..Options::default()
    };
    let audit = audit(&records, &options_of);
    if let Some(path) = options.path.as_ref().filter(|_| audit.paths.is_empty()) {
        let recorded = audit.recorded.iter().map(|it| harmless(it)).collect::<Vec<_>>().join(", ");
        let recorded = if recorded.is_empty() { "none".to_owned() } else { recorded };
        let what = "is not on record. A path has the chroot of its session. On record are";
        return Err(Failure::new(Code::Nothing, format_args!("{} {what}: {recorded}", harmless(path))));
    }
    if let Some(file) = &options.picture {
        fs::write(file, picture(&audit, |ms| instant(ms).to_string())).map_err(|error| {
            Failure::usage(format_args!("--picture: cannot write to {}: {error}", file.display()))
        })?;
    }
    if options.json {
        output::print_json(&audit)?;
    } else {
        output::print(&text(&audit))?;
    }
    Ok(match audit.verdict {
        Verdict::Proven => ExitCode::SUCCESS,
        Verdict::Unproven => Code::Unproven.into(),
        Verdict::Overlap => Code::No.into(),
    })
}

/// Reads records. Without any, nothing can be said.
pub(crate) fn read(paths: &[std::path::PathBuf]) -> Result<Records, Failure> {
    let records = Records::read(paths).map_err(|error| Failure::new(Code::Nothing, unreadable(&error)))?;
    if records.processes.is_empty() && records.unread.is_empty() {
        return Err(Failure::new(Code::Nothing, "no flight record is there; name a directory of --record"));
    }
    Ok(records)
}

fn unreadable(error: &io::Error) -> String {
    let what = match error.kind() {
        ErrorKind::PermissionDenied => {
            ". Only the user whose process wrote a record may read it: run this command as that user or as root, or copy the record as root"
        }
        ErrorKind::NotFound => ". Name a directory of --record",
        _ => "",
    };
    format!("the records cannot be read: {error}{what}")
}

fn text(audit: &Audit) -> String {
    let mut text = String::new();
    for path in &audit.paths {
        tell(&mut text, path);
    }
    let unread =
        audit.unread.iter().map(|it| format!("{}: {}", harmless(&it.file.display().to_string()), it.why));
    let unseen = audit.unseen.iter().map(|it| harmless(it)).chain(unread).collect::<Vec<_>>();
    if !unseen.is_empty() {
        line(&mut text, "not seen, of any path:");
        unseen.iter().for_each(|it| line(&mut text, &format!("  {it}")));
        line(&mut text, &covered(audit.covered));
    }
    let processes = audit.processes.len();
    let verdict = match audit.verdict {
        Verdict::Proven => "proven: no two guards on record that exclude each other were valid at once",
        Verdict::Unproven => "unproven: the records show no overlap, and do not show that there was none",
        Verdict::Overlap => "OVERLAP: two guards were valid at once",
    };
    line(&mut text, &format!("{verdict} ({processes} records)"));
    text
}

/// Which window all records cover.
fn covered(covered: Option<Covered>) -> String {
    let Some(Covered { from_ms, to_ms }) = covered else {
        return "  no time is covered by all records, as far as the leader's clock shows".to_owned();
    };
    let edge = |ms: Option<i64>, what: &str| ms.map(|ms| format!(" {what} {}", instant(ms as f64)));
    let edges = [edge(from_ms, "--since"), edge(to_ms, "--until")].into_iter().flatten().collect::<String>();
    match edges.is_empty() {
        true => "  all records begin with their processes, and end with them".to_owned(),
        false => format!("  all records cover{edges}"),
    }
}

fn tell(text: &mut String, path: &PathAudit) {
    let holds = &path.holds;
    let found = match path.verdict {
        Verdict::Proven => "no two were valid at once",
        Verdict::Unproven => "unproven",
        Verdict::Overlap => "OVERLAP",
    };
    line(text, &format!("{}, {}, {} holds: {found}", harmless(&path.path), path.used_for, holds.len()));
    for (pairs, count, what) in
        [(&path.overlaps, path.overlap_count, "overlap"), (&path.unproven, path.unproven_count, "unproven")]
    {
        for pair in pairs.iter() {
            let least = pair.least_ms.map_or(String::new(), |ms| format!(" for {} at least", span(ms)));
            let (first, second) = (name(&holds[pair.first]), name(&holds[pair.second]));
            line(text, &format!("  {what}: {first}, and {second}: {}{least}", harmless(&pair.what)));
        }
        if count > pairs.len() {
            line(text, &format!("  {what}: {} more", count - pairs.len()));
        }
    }
    path.unknown.iter().take(TOLD).for_each(|it| line(text, &format!("  not seen: {it}")));
    if path.unknown.len() > TOLD {
        line(text, &format!("  not seen: {} more such gaps", path.unknown.len() - TOLD));
    }
    if let Some(margin) = &path.nearest {
        let (first, second) = (name(&holds[margin.first]), name(&holds[margin.second]));
        let (ms, error) = (span(margin.ms), span(margin.error_ms));
        line(text, &format!("  nearest: {ms} (give or take {error}) from the end of {first} to {second}"));
    }
    for hold in holds.iter().filter(|hold| hold.is_lost).take(TOLD) {
        let held = hold.held_ms.map_or(String::new(), |ms| format!(", held for {}", span(ms)));
        line(text, &format!("  {}: {}{held}", harmless(&hold.ended), name(hold)));
    }
    for wait in path.waits.iter().take(TOLD).filter(|wait| wait.ms >= 1.0) {
        let behind = wait.behind.as_ref().map_or(String::new(), |it| format!(", behind {}", harmless(it)));
        let (length, who) = (span(wait.ms), harmless(&wait.who));
        line(text, &format!("  waited {length}: {who}{behind}, {}", wait.ended));
    }
    let mut holders = BTreeMap::<&str, (usize, f64, f64)>::new();
    for hold in holds {
        let held = hold.held_ms.unwrap_or(0.0);
        let (count, sum, longest) = holders.entry(&hold.who).or_default();
        (*count, *sum, *longest) = (*count + 1, *sum + held, longest.max(held));
    }
    for (who, (count, sum, longest)) in holders {
        let (sum, longest) = (span(sum), span(longest));
        line(text, &format!("  held by {}: {count} times, {sum} in all, {longest} at most", harmless(who)));
    }
}

fn line(text: &mut String, line: &str) {
    let _infallible = writeln!(text, "{line}");
}

/// A hold, for people.
fn name(hold: &HoldAudit) -> String {
    let granted = instant(hold.granted_ms);
    format!("{} ({}, token {}, granted {granted:.3})", harmless(&hold.who), hold.kind, hold.token)
}

fn instant(ms: f64) -> Timestamp {
    Timestamp::from_millisecond(ms as i64).unwrap_or_default()
}

fn span(ms: f64) -> String {
    match ms {
        ..10.0 => format!("{ms:.2}ms"),
        _ => duration::text(Duration::from_secs_f64(ms / 1e3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_user_says_who_may_read_it() {
        let text = |kind| unreadable(&io::Error::new(kind, "/a: no"));
        assert!(text(ErrorKind::PermissionDenied).contains("/a: no. Only the user whose process wrote"));
        assert!(text(ErrorKind::NotFound).ends_with("/a: no. Name a directory of --record"));
        assert!(text(ErrorKind::Other).ends_with("/a: no"));
    }
}
