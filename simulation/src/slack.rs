//! The slack: how long before the leader may expire a session the last guard in it ends by its lease. It must never be less than what
//! the lease allows for clocks, whether or not somebody waits to be granted next.
//!
//! A lease promises a holder that its node stays for so long. What was promised counts, and nothing that came later: a guard that was
//! given up, a process that was killed, a session that was succeeded, a loss that a server reported. Only a process that closes its session
//! has lost its guards by that. A guard with a limit promises less, and a hold of another client nothing.
//!
//! The leader expires a session no earlier than one timeout after the last touch that it has handled. That is looked at in global time,
//! without the tick to which it rounds up:
//!
//! - *whenever a process has read*, because nothing else lets a lease grow. The promise must be within what the leader grants at that
//!   instant. So an answer that is credited too generously is wrong by itself, though later touches put the end off again.
//! - *whenever the leader expires a session, or is to expire it sooner* because of a touch with a shorter timeout.
//!
//! Only the last leader that a majority has joined counts. An older one decides in vain: a session that it has expired goes on. Each new
//! leader gives every session its timeout anew, after all that was confirmed before. An operator's end of a session is no expiry.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use world::ProcessId;
use zklock_contest::contender::Held;

use crate::cluster::{self, Cluster, OSCILLATOR, SLEWED};
use crate::history::wrong;

/// By so many parts in a million a lease ends earlier, if nobody says another drift: `DEFAULT_DRIFT_PPM` in `recipe/src/lease/lengths.rs`,
/// the 9% of docs/STRICTNESS.md.
const DRIFT: u32 = 90_000;

#[derive(Default)]
struct Slack {
    /// The shortest session timeout that servers grant, and the least slack with that one, in nanoseconds.
    timeout: i64,
    least: i64,
    /// Whether nothing is promised.
    is_off: bool,
    guards: Vec<(ProcessId, Weak<Held>)>,
    /// The processes that close their sessions.
    closing: BTreeSet<ProcessId>,
    /// Until when a guard of each session was valid, as far as its holder was told, in global time; and in which process.
    promised: BTreeMap<i64, (u64, ProcessId)>,
    /// The sessions that leaders have expired: in which epoch, and when they lasted no longer.
    ended: BTreeMap<i64, (u32, u64)>,
    /// The least slack that was seen when a session ended.
    seen: Option<i64>,
}

thread_local! {
    static SLACK: RefCell<Slack> = RefCell::default();
}

/// Begins anew. Servers grant no less than this timeout; leases allow for this drift. Those that forget what they acknowledged promise
/// nothing.
pub(crate) fn begin(timeout: Duration, drift: Option<u32>, slews_servers: bool, forgets: bool) {
    let slewed = if slews_servers { SLEWED } else { 0 };
    // The oscillators of the leader and of the holder.
    let clocks = slewed + 2 * OSCILLATOR;
    let least = (timeout * (drift.unwrap_or(DRIFT) - clocks) / 1_000_000).as_nanos() as i64;
    let timeout = timeout.as_nanos() as i64;
    drop(SLACK.replace(Slack { timeout, least, is_off: forgets, ..Slack::default() }));
}

/// By how much the least slack was larger than it must be, in millionths of the session timeout.
pub(crate) fn seen() -> Option<u64> {
    SLACK.with_borrow(|it| u64::try_from((it.seen? - it.least) * 1_000 / (it.timeout / 1_000)).ok())
}

/// A process has this guard now.
pub(crate) fn holds(process: ProcessId, guard: &Arc<Held>) {
    if SLACK.with_borrow(|it| it.is_off) {
        return;
    }
    SLACK.with_borrow_mut(|it| it.guards.push((process, Arc::downgrade(guard))));
    cluster::later(world::now(), move |cluster| read(cluster, process));
}

/// A process closes its sessions. By that it has lost its guards, so it may resume them at a server that grants less.
pub(crate) fn closes(process: ProcessId) {
    SLACK.with_borrow_mut(|it| {
        it.promised.retain(|_, (_, holder)| *holder != process);
        it.closing.insert(process);
    });
}

/// A process may know of a later end of its leases.
pub(crate) fn read(cluster: &Cluster, process: ProcessId) {
    let guards = SLACK.with_borrow_mut(|it| {
        it.guards.retain(|(_, guard)| guard.strong_count() > 0);
        let guards =
            it.guards.iter().filter(|(holder, _)| *holder == process && !it.closing.contains(holder));
        guards.filter_map(|(_, guard)| guard.upgrade()).collect::<Vec<_>>()
    });
    if guards.is_empty() {
        return;
    }
    let left = |guard: &Arc<Held>| Some((guard.session, guard.remaining()?));
    let left = cluster.world.within(process, || guards.iter().filter_map(left).collect::<Vec<_>>());
    for (session, left) in left.unwrap_or_default().into_iter().filter(|(_, left)| !left.is_zero()) {
        let promised = cluster.world.now() + left.as_nanos() as u64;
        let granted = cluster.lasts(session);
        let slack = SLACK.with_borrow_mut(|it| {
            let (latest, _) = it.promised.entry(session).or_insert((promised, process));
            *latest = promised.max(*latest);
            let (epoch, lasts) = granted?;
            let end = lasts
                .or_else(|| it.ended.get(&session).filter(|ended| ended.0 == epoch).map(|ended| ended.1));
            Some((end? as i64 - promised as i64, it.least)).filter(|(slack, least)| slack < least)
        });
        if let Some((slack, least)) = slack {
            wrong(format!(
                "a lease of session {session:#x} ends {slack} ns before the leader may expire it, less than {least} ns"
            ));
        }
    }
}

/// A session lasts only until this instant. The leader has expired it in this epoch, or had a touch with a shorter timeout.
pub(crate) fn ends(session: i64, end: u64, expired: Option<u32>) {
    let slack = SLACK.with_borrow_mut(|it| {
        it.ended.extend(expired.map(|epoch| (session, (epoch, end))));
        let slack = end as i64 - it.promised.get(&session)?.0 as i64;
        it.seen = Some(it.seen.map_or(slack, |seen| seen.min(slack)));
        Some((slack, it.least)).filter(|(slack, least)| slack < least)
    });
    if let Some((slack, least)) = slack {
        wrong(format!(
            "the leader ends session {session:#x} {slack} ns after its last lease, less than {least} ns"
        ));
    }
}
