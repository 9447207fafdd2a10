//! The report as JSON. Names and units stay as they are. New ones may come.

use std::time::Duration;

use serde_json::{Value, json};

use super::finding::Finding;
use super::seen::{Seen, Server};
use crate::failure::Failure;
use crate::queue::Stranger;
use crate::servers::Mode;

/// One object. Durations are in milliseconds. Unknown values are null.
pub(super) fn report_value(seen: &Seen, findings: &[Finding], failure: Option<&Failure>) -> Value {
    let session = seen.session.map(|session| {
        json!({
            "timeout_ms": millis(session.timeout),
            "tick_ms": millis(session.tick),
            "longest_validity_ms": millis(session.longest_validity),
            "longest_stop_margin_ms": millis(session.longest_stop_margin),
        })
    });
    let locks = seen.locks.iter().map(|queue| {
        let foreign = queue.foreign.iter().map(Stranger::from).collect::<Vec<_>>();
        json!({
            "path": queue.path,
            "exists": queue.missing.is_none() && queue.refused.is_none(),
            "layout": queue.layout,
            "contenders": queue.contenders,
            "theirs": queue.theirs,
            "waiting": queue.waiting,
            "holders": queue.holders.len(),
            "pool": queue.pool,
            "foreign": foreign,
        })
    });
    json!({
        "servers": seen.servers.iter().map(server_value).collect::<Vec<_>>(),
        "session": session,
        "locks": locks.collect::<Vec<_>>(),
        "clock_rate_ppm": seen.clock_rate,
        "error": failure.map(|failure| json!({
            "code": failure.code as u8,
            "message": failure.to_string(),
        })),
        "findings": findings,
    })
}

fn server_value(server: &Server) -> Value {
    let words = server.words.as_ref().ok();
    let visit = server.visit.as_ref().ok();
    let silence = server.mode().and_then(Mode::problem);
    json!({
        "address": server.address.to_string(),
        "tls": server.address.tls,
        "reachable": words.is_some(),
        "problem": server.words.as_ref().err().map(String::as_str).or(silence).or(server.visit.as_ref().err().map(String::as_str)),
        "mode": words.map(|words| words.mode.to_string().replace(' ', "-")),
        "version": words.and_then(|words| words.version.as_ref()),
        "tick_ms": server.settings.map(|settings| millis(settings.tick)),
        "shortest_timeout_ms": server.settings.map(|settings| millis(settings.shortest_timeout)),
        "longest_timeout_ms": visit.map(|visit| millis(visit.longest_timeout)),
        "identities": visit.map(|visit| &visit.identities),
    })
}

/// Milliseconds, exact to the microsecond.
fn millis(duration: Duration) -> f64 {
    // No timeout reaches 2^53 microseconds, so the number is exact.
    duration.as_micros() as f64 / 1000.0
}
