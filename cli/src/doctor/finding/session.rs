//! Findings about the settings: the tick, the session timeout, round trips, secrets.

use std::time::Duration;

use super::found::Findings;
use crate::doctor::lease::Arithmetic;
use crate::doctor::seen::{Seen, Settings};
use crate::duration::text;

/// If a crash keeps a lock from others for longer, that is worth a warning.
const LONG_TAKEOVER: Duration = Duration::from_secs(30);

/// The most by which the kernel's own discipline adjusts the clock's rate, in parts per million. More is a slew.
const DISCIPLINE: u64 = 500;

pub(super) fn look(seen: &Seen, found: &mut Findings) {
    if let Some(session) = &seen.session {
        tick(seen, session, found);
        timeout(seen, session, found);
        speed(seen, session, found);
    }
    let rate = seen.clock_rate;
    if rate.unsigned_abs() > DISCIPLINE {
        let percent = rate as f64 / 10_000.0;
        found.warning(
            "clock-slewed",
            format!("this machine's clock is slewed: its rate is off by {percent:+.2}%, and leases with it"),
            "see why (`chronyc tracking`), or lower maxslewrate in chrony.conf; run doctor on the servers' machines, too",
        );
    }
    let limits = |settings: Settings| (settings.tick, settings.shortest_timeout, settings.longest_timeout);
    let first = seen.settings().next().map(limits);
    if seen.settings().map(limits).any(|other| Some(other) != first) {
        found.warning(
            "settings-differ",
            "the servers have different ticks or session timeout limits: the session timeout depends on the server",
            "give them the same tickTime, minSessionTimeout and maxSessionTimeout",
        );
    }
    if seen.wishes.digest && seen.servers.iter().any(|server| !server.address.tls) {
        found.warning(
            "digest-in-plain",
            "the digest credentials are sent over plain TCP, so everybody on the way can read the password",
            "connect by TLS (--tls-ca)",
        );
    }
}

fn tick(seen: &Seen, session: &Arithmetic, found: &mut Findings) {
    let reckoned = seen.shortest_reckoned(session.tick);
    match seen.tick() {
        Some(tick) if tick > reckoned => found.danger(
            "tick-too-short",
            format!(
                "a server's tick is {}, longer than the {} that leases are reckoned with: guards may be valid for longer than \
                 the servers keep their locks, so two may hold one",
                exact(tick),
                exact(reckoned)
            ),
            format!(
                "give all servers the same tickTime; until then give every client that locks here the tick: --tick {} or ZKLOCK_TICK \
                 for zklock, and the option for the tick in services",
                exact(tick)
            ),
        ),
        Some(tick) if tick < reckoned => found.warning(
            "tick-too-long",
            format!(
                "the servers' tick is {}, shorter than the {} that leases are reckoned with: guards are lost sooner than they \
                 need to be when ZooKeeper falls silent",
                exact(tick),
                exact(reckoned)
            ),
            format!("give --tick {}, or set ZKLOCK_TICK", exact(tick)),
        ),
        // If no server says its tick, it is learned from the limits of session timeouts. They may have been set by hand.
        None if seen.wishes.tick.is_none() => found.note(
            "tick-unknown",
            format!(
                "the servers do not say their tick; leases are reckoned with {}, by the session timeouts that they grant",
                exact(session.tick)
            ),
            "if minSessionTimeout and maxSessionTimeout are both set in zoo.cfg, give its tickTime as --tick or ZKLOCK_TICK, and to \
             services that lock here; or add `conf` to 4lw.commands.whitelist",
        ),
        Some(_) | None => {}
    }
}

fn timeout(seen: &Seen, session: &Arithmetic, found: &mut Findings) {
    let (asked, granted) = (seen.wishes.session_timeout, session.timeout);
    if asked != granted {
        let what = match seen.wishes.exact {
            true => format!(
                "the servers grant a session timeout of {} instead of {}, so nobody who asks for that gets a session for locks",
                text(granted),
                text(asked)
            ),
            false => format!(
                "the servers' limits turn the default session timeout of {} into {}",
                text(asked),
                text(granted)
            ),
        };
        let limit = if granted < asked { "maxSessionTimeout" } else { "minSessionTimeout" };
        let granted = exact(granted);
        let advice = format!("give all clients --session-timeout {granted}; or change the servers' {limit}");
        found.warning("timeout-adapted", what, advice);
    }
}

fn speed(seen: &Seen, session: &Arithmetic, found: &mut Findings) {
    let (slowest, longest) = (seen.visits().map(|visit| visit.write).max(), session.longest_round_trip());
    if let Some(slowest) = slowest.filter(|slowest| *slowest > longest) {
        found.warning(
            "slow-round-trip",
            format!(
                "a quorum takes {} to answer, more than a quarter of a heartbeat ({}): a guard may be lost though nothing \
                 is wrong",
                text(slowest),
                text(longest)
            ),
            "give a longer --session-timeout, or find out what makes the servers slow (disks, distance, load)",
        );
    }
    let takeover = session.takeover(seen.tick(), seen.is_alone());
    if takeover > LONG_TAKEOVER {
        found.warning(
            "slow-takeover",
            format!("a holder that crashes keeps its lock from everybody else for up to {}", text(takeover)),
            "give a shorter --session-timeout if that is too long",
        );
    }
    // From the servers' own statistics, of all requests since their start.
    let slowest = seen.words().filter_map(|words| words.slowest).max();
    if let Some(slowest) = slowest.filter(|slowest| *slowest > session.heartbeat) {
        found.note(
            "slow-requests",
            format!("since its start, a server has taken {} for a request, longer than a heartbeat", text(slowest)),
            "see whether that happens often (`mntr`, fsync warnings in its log); `srst` resets the statistics",
        );
    }
}

/// The duration as options take it, not rounded.
fn exact(duration: Duration) -> String {
    match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ms", duration.as_millis()),
    }
}
