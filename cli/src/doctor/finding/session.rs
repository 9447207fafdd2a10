//! Findings about the settings: the tick, the session timeout, the clock, secrets.

use std::collections::BTreeSet;
use std::time::Duration;

use super::found::Findings;
use crate::connection::sasl_problem;
use crate::doctor::seen::{Lengths, Seen, Server};
use crate::duration::text;
use crate::servers::Settings;

/// The most by which the kernel's own discipline adjusts the clock's rate, in parts per million. More is a slew.
const DISCIPLINE: u64 = 500;

pub(super) fn find_in_session(seen: &Seen, found: &mut Findings) {
    if let Some(session) = &seen.session {
        find_tick(seen, session, found);
        find_timeout(seen, session, found);
    }
    if let Some(chroot) = &seen.missing_chroot {
        found.warning(
            "chroot-missing",
            format!("the chroot {chroot} of --servers does not exist, so only programs that create it can acquire a lock below it"),
            "compare it with the chroot of the programs that use the locks; `zklock run --create-chroot` and \
             `SessionBuilder::create_chroot` create it",
        );
    }
    let rate = seen.clock_rate;
    if rate.unsigned_abs() > DISCIPLINE {
        let percent = rate as f64 / 10_000.0;
        found.warning(
            "clock-slewed",
            format!(
                "this machine's clock is slewed: its rate is off by {percent:+.2}%. If a clock runs too fast, leases \
                 end too early"
            ),
            "find out why (`chronyc tracking`), or lower maxslewrate in chrony.conf; run doctor on the servers' \
             machines, too",
        );
    }
    let limits = |settings: Settings| (settings.tick, settings.shortest_timeout, settings.longest_timeout);
    let first = seen.settings().next().map(limits);
    if seen.settings().map(limits).any(|other| Some(other) != first) {
        found.warning(
            "settings-differ",
            "the servers have different ticks or different limits of session timeouts, so the session timeout depends \
             on the server that a client connects to",
            "give them the same tickTime, minSessionTimeout and maxSessionTimeout",
        );
    }
    if seen.wishes.sasl {
        find_sasl(seen, found);
    }
    if seen.wishes.sends_password && seen.servers.iter().any(|server| !server.address.tls) {
        found.warning(
            "digest-in-plain",
            "the digest credentials are sent over plain TCP, so everybody who can read the network traffic can read \
             the password",
            "connect over TLS (--tls-ca)",
        );
    }
}

/// Servers that serve SASL clients without an identity, by what each makes of the credentials.
fn find_sasl(seen: &Seen, found: &mut Findings) {
    let problem = |server: &Server| sasl_problem(&server.visit.as_ref().ok()?.identities);
    let problems = seen.servers.iter().filter_map(problem).collect::<BTreeSet<_>>();
    for one in problems {
        found.warning(
            "no-sasl",
            format!(
                "{}: such a server {one}. A session there has no identity from --sasl",
                seen.named(|server| problem(server) == Some(one)).unwrap_or_default()
            ),
            "set the same authProvider.1, JAAS file and users on all servers, and check --digest-file or ZKLOCK_DIGEST",
        );
    }
}

fn find_tick(seen: &Seen, session: &Lengths, found: &mut Findings) {
    let reckoned = seen.shortest_reckoned(session.tick);
    match seen.tick() {
        Some(tick) if tick > reckoned => found.danger(
            "tick-too-short",
            format!(
                "a server's tick is {}, but leases are computed with {}. So a guard may be valid for longer than the \
                 servers keep its node, and two clients may hold the same lock",
                exact_text(tick),
                exact_text(reckoned)
            ),
            format!(
                "set the same tickTime on all servers. Until then, give the tick to every client: --tick {} or \
                 ZKLOCK_TICK to `zklock`, and the option for the tick in services",
                exact_text(tick)
            ),
        ),
        Some(tick) if tick < reckoned => found.warning(
            "tick-too-long",
            format!(
                "the servers' tick is {}, but leases are computed with {}. So guards are lost earlier than necessary \
                 when ZooKeeper does not answer",
                exact_text(tick),
                exact_text(reckoned)
            ),
            format!("give --tick {}, or set ZKLOCK_TICK", exact_text(tick)),
        ),
        // If no server says its tick, it is learned from the limits of session timeouts. They may have been set by hand.
        None if seen.wishes.tick.is_none() => found.note(
            "tick-unknown",
            format!(
                "the servers do not say their tick. zklock derives {} from the session timeouts that they grant, and \
                 computes leases with it",
                exact_text(session.tick)
            ),
            "if minSessionTimeout and maxSessionTimeout are both set in zoo.cfg, give the tickTime of zoo.cfg as \
             --tick or ZKLOCK_TICK, and set the option for the tick in services; or add `conf` to \
             4lw.commands.whitelist",
        ),
        Some(_) | None => {}
    }
}

fn find_timeout(seen: &Seen, session: &Lengths, found: &mut Findings) {
    let asked = seen.wishes.session_timeout;
    let granted = session.timeout;
    if asked != granted {
        let what = if seen.wishes.exact {
            format!(
                "the servers grant a session timeout of {0} instead of {1}. A client that asks for {1} gets no session \
                 for locks",
                text(granted),
                text(asked)
            )
        } else {
            format!(
                "the servers' limits change the default session timeout from {} to {}",
                text(asked),
                text(granted)
            )
        };
        let limit = if granted < asked { "maxSessionTimeout" } else { "minSessionTimeout" };
        let granted = exact_text(granted);
        let advice = format!("give all clients --session-timeout {granted}; or change the servers' {limit}");
        found.warning("timeout-adapted", what, advice);
    }
}

/// The duration as options take it, not rounded.
fn exact_text(duration: Duration) -> String {
    match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ms", duration.as_millis()),
    }
}
