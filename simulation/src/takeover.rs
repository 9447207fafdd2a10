//! The takeover delay: for how long nobody is granted a lock whose last holder has vanished, or may have.
//!
//! A contender with a delay observes it after every end of a predecessor that is no release (`LockOptions::takeover_delay`; docs/DESIGN.md,
//! "Taking over after an unclean end" and "The takeover delay of readers"). A holder has vanished if its node is gone and it had not begun
//! to release: its session has ended, an operator has deleted its node, or it has dropped a guard that was lost. For each queue two things
//! are judged, by what servers have committed, in global time:
//!
//! - *A contender behind a holder that vanished*, and behind nobody who went later, is granted one delay after that at the earliest. If
//!   only readers were in a writer's way and one of them vanished, it is the delay after the last of them.
//! - *A reader that finds other readers in front of it*, and no writer, is granted one delay after it has come at the earliest.
//!
//! "A contender that enters the queue after the holder vanished, or a few round trips before, and finds nobody there" observes no delay. So
//! one that is first counts if it came two session timeouts before, or some round trips if nothing was wrong since. Nothing is judged of
//! other clients, elections, runs and pools, where a delay means something else, nor behind a waiter that gave up: one that was entitled
//! already releases.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use zklock_contest::clock::Instant;
use zklock_contest::member::Member;
use zklock_contest::nodes::owner;
use zklock_contest::record::{Event, Record, Who};
use zklock_contest::request::is_shared;
use zklock_ensemble::Server;

use crate::cluster::{self, OSCILLATOR, SLEWED, nanoseconds};
use crate::interventions::directory;
use crate::part::Part;

/// A call of a contender.
#[derive(Clone, Copy, Default)]
struct Call {
    began: u64,
    /// Whether the call before was granted. A create of one that was not may still take effect.
    is_plain: bool,
    is_granted: bool,
}

/// A node: the transaction that created it, and its path.
type Node = (i64, String);

struct Hold {
    who: Who,
    czxid: i64,
    granted: u64,
    /// When its holder began to release.
    released: Option<u64>,
}

#[derive(Default)]
struct Takeovers {
    /// The shortest delay, if delays are judged.
    delay: Option<u64>,
    /// A contender that has been there for so long has watched its predecessor, or has lost the connection.
    placed: u64,
    /// The same if nothing is wrong meanwhile: a few round trips.
    placed_in_quiet: u64,
    /// Since when nodes are there, and when those were there that are gone.
    there: BTreeMap<Node, u64>,
    gone: BTreeMap<Node, (u64, u64)>,
    holds: Vec<Hold>,
    calls: BTreeMap<Who, Call>,
    /// Whose the nodes are.
    owners: BTreeMap<i64, Who>,
    /// Since when contenders are in the queues of their present calls, by whichever node.
    came: BTreeMap<(Who, String), u64>,
    /// Until when contenders left their calls unpolled.
    neglected: BTreeMap<Who, u64>,
}

thread_local! {
    static TAKEOVERS: RefCell<Takeovers> = RefCell::default();
}

/// Begins anew. `slews` says whether faults slew the clocks of processes.
pub(crate) fn begin(part: &Part, slews: bool) {
    let members = [Member::Lock, Member::Readwrite, Member::Several, Member::Keys];
    let is_judged = members.contains(&part.member) && !part.forgets;
    // A waiter reckons its delay by its own clock. chrony makes that faster by as much as a server's.
    let fast = OSCILLATOR + if slews { SLEWED } else { 0 };
    let delay = part.delay.filter(|_| is_judged).map(|delay| nanoseconds(delay - delay * fast / 1_000_000));
    let placed = nanoseconds(part.timeout * 2);
    let placed_in_quiet = nanoseconds(part.told);
    drop(TAKEOVERS.replace(Takeovers { delay, placed, placed_in_quiet, ..Takeovers::default() }));
}

/// A server that serves has these nodes now.
pub(crate) fn look(server: &Server) {
    TAKEOVERS.with_borrow_mut(|Takeovers { delay, there, gone, calls, owners, came, .. }| {
        let (Some(_), now) = (delay, world::now()) else { return };
        let found = server.ephemerals().map(|node| ((node.czxid, node.path.to_owned()), node.data));
        let found = found.collect::<BTreeMap<_, _>>();
        let is_gone = |node: &Node| node.0 <= server.zxid() && !found.contains_key(node);
        there.retain(|node, since| {
            let is_gone = is_gone(node);
            gone.extend(is_gone.then(|| (node.clone(), (*since, now))));
            !is_gone
        });
        for (node, data) in found.into_iter().filter(|(node, _)| !gone.contains_key(node)) {
            if there.contains_key(&node) {
                continue;
            }
            if let Some(who) = owner(data) {
                owners.insert(node.0, who);
                if calls.get(&who).is_some_and(|call| call.is_plain && call.began <= now) {
                    came.entry((who, directory(&node.1).to_owned())).or_insert(now);
                }
            }
            there.insert(node, now);
        }
    });
}

/// Takes in what a contender says. `wrong` is told if that is wrong; `is_quiet` tells whether nothing was, for its process and elsewhere,
/// since an instant.
pub(crate) fn hear(record: &Record, wrong: fn(String), is_quiet: impl Fn(u64) -> bool + 'static) {
    let Record { at: Instant(at), who, event, .. } = record;
    let at = *at;
    let who = *who;
    TAKEOVERS.with_borrow_mut(|it| match event {
        Event::Asks { .. } => {
            // A process that was killed neglects nothing any more.
            it.neglected.retain(|other, until| *other != who || *until <= at);
            it.came.retain(|(other, _), _| *other != who);
            let is_plain = it.calls.get(&who).is_none_or(|call| call.is_granted);
            it.calls.insert(who, Call { began: at, is_plain, is_granted: false });
        }
        Event::Neglects => drop(it.neglected.insert(who, u64::MAX)),
        Event::Neglected { .. } => drop(it.neglected.insert(who, at)),
        Event::Granted { token: Some(token), nodes, .. } if it.delay.is_some() => {
            let call = it.calls.entry(who).and_modify(|call| call.is_granted = true);
            let began = call.or_default().began;
            it.holds.push(Hold { who, czxid: token.zxid(), granted: at, released: None });
            // Later turns are passed on inside a process.
            if token.turn() == 0 {
                let nodes = nodes.iter().map(|path| (token.zxid(), path.clone())).collect::<Vec<_>>();
                // What others did before this instant may not have been simulated yet.
                cluster::later(at, move |_| {
                    let early =
                        |node: &Node| TAKEOVERS.with_borrow(|it| it.early((who, began), node, at, &is_quiet));
                    nodes.iter().filter_map(early).for_each(wrong);
                });
            }
        }
        Event::Releases { .. } | Event::Drops { .. } => {
            if let Some(hold) = it.holds.iter_mut().rfind(|hold| hold.who == who) {
                hold.released.get_or_insert(at);
            }
        }
        _ => {}
    });
}

/// A process drops all guards, and closes its session.
pub(crate) fn closes(client: u16) {
    let now = world::now();
    TAKEOVERS.with_borrow_mut(|it| {
        for hold in it.holds.iter_mut().filter(|hold| hold.who.client == client) {
            hold.released.get_or_insert(now);
        }
    });
}

impl Takeovers {
    /// What is wrong if a contender with this node is granted at this instant, in a call that began then.
    fn early(
        &self,
        (who, began): (Who, u64),
        own: &Node,
        at: u64,
        is_quiet: impl Fn(u64) -> bool,
    ) -> Option<String> {
        let since = *self.there.get(own).or_else(|| Some(&self.gone.get(own)?.0))?;
        let (queue, delay) = (directory(&own.1), self.delay?);
        let is_lower = |node: &Node| node.0 < own.0 && directory(&node.1) == queue;
        let reads = |node: &Node| node.1.rsplit('/').next().is_some_and(is_shared);
        let is_beside = reads(own) && self.there.keys().any(|node| is_lower(node) && reads(node));
        let blocks = |node: &Node| is_lower(node) && !(reads(own) && reads(node));
        if self.there.keys().any(blocks) {
            // Two guards: others judge that.
            return None;
        }
        // One whose session ended has come again, and a holder may have vanished while it waited.
        let came = self.came.get(&(who, queue.to_owned())).map_or(since, |came| since.min(*came));
        // Nobody waits for its own nodes, except for those of earlier calls.
        let is_own = |node: &Node, since: u64| self.owners.get(&node.0) == Some(&who) && since >= began;
        let blocking = self.gone.iter().filter(|(node, (_, gone))| blocks(node) && *gone >= came);
        let blocking = blocking.filter(|(node, (since, _))| !is_own(node, *since));
        let blocking = blocking.map(|(node, (_, gone))| (node, *gone)).collect::<Vec<_>>();
        let Some(last) = blocking.iter().map(|(_, gone)| *gone).max() else {
            let waited = Duration::from_nanos(at - since);
            let is_early = is_beside && at < since + delay;
            return is_early.then(|| {
                format!("{who} was granted {waited:?} after it had come, and readers are in front of it")
            });
        };
        let may_be_unseen = blocking.iter().any(|(node, _)| !reads(node));
        let placed = if is_quiet(came) { self.placed_in_quiet } else { self.placed };
        let has_waited = |gone: u64| {
            let mut neglected = self.neglected.iter().filter(|(other, _)| other.client == who.client);
            gone > came + placed && neglected.all(|(_, until)| *until < came)
        };
        let vanished = blocking.iter().find(|(node, gone)| {
            let counts = *gone == last || !may_be_unseen && has_waited(*gone);
            let is_held = |hold: &Hold| {
                hold.czxid == node.0 && hold.granted <= *gone && hold.released.is_none_or(|it| it > *gone)
            };
            counts && (is_beside || has_waited(*gone)) && self.holds.iter().any(is_held)
        });
        let ((_, path), waited) = (vanished?.0, Duration::from_nanos(at.saturating_sub(last)));
        (at < last + delay).then(|| format!("{who} was granted {waited:?} after {path} had vanished"))
    }
}
