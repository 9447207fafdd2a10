//! What an operator has done to the nodes of contenders, as far as the checks have to know.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use world::MILLISECOND;
use zklock_contest::members::rules;
use zklock_contest::record::Who;
use zklock_ensemble::Server;

use crate::cluster::nanoseconds;
use crate::part::{Part, SETTLING};

/// A lease that has lapsed is confirmed by two writes, a lag after each other and a pause of a second after each.
const CONFIRMING: u64 = 3_000 * MILLISECOND;

struct Resize {
    capacity: u32,
    /// The pool had this zxid before the change, and that one with it. In between, nobody knows which of them counts.
    zxids: (i64, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ended {
    /// A node, by its token.
    Node(i64),
    Session(i64),
}

/// Who has been in the queue for long enough to know that a contender is there.
#[derive(Clone, Default)]
pub(crate) struct Others {
    /// Their tokens.
    pub(crate) tokens: BTreeSet<i64>,
    /// Those in the turnstile, who asked before this instant. Their permits will have other tokens.
    pub(crate) in_turnstile: (u64, BTreeSet<Who>),
}

/// A hold. An operator may have ended its node or its session.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    /// Nothing in a hold of another client.
    pub(crate) token: Option<i64>,
    pub(crate) session: i64,
    pub(crate) granted: u64,
    /// Whether nothing else has been wrong since long before its node went.
    pub(crate) in_quiet: bool,
    /// Whether its caller has left its call unpolled.
    pub(crate) is_late: bool,
}

#[derive(Default)]
struct Interventions {
    /// What may be ended, and who was there long before.
    ended: BTreeMap<Ended, Others>,
    /// Since when nodes are there, and how many, by the transaction that created them.
    there: BTreeMap<i64, (u64, usize)>,
    /// Since when one of them is gone, and by which transaction at the latest.
    gone: BTreeMap<i64, (u64, i64)>,
    /// When operators last removed the node of this path.
    freed: BTreeMap<String, u64>,
    /// The nodes that were written to, or may have been.
    touched: BTreeSet<i64>,
    /// When it was confirmed that the node with this token was written to.
    written: BTreeMap<i64, u64>,
    /// How much a pool has before all changes.
    capacity: u32,
    resizes: Vec<Resize>,
    bounds: Bounds,
    /// Where leaders announce themselves, and the announcements that servers have had, with those that operators wrote.
    announcement: String,
    announced: BTreeSet<String>,
    /// The last transaction that a server has shown, the token of its announcement, and since when that is announced.
    present: (i64, Option<i64>, u64),
}

/// How long a guard may be valid after an operator has ended its node (docs/guide/loss.md).
#[derive(Clone, Copy, Default)]
struct Bounds {
    /// If nothing else is wrong: a round trip, or the first 40 ms after the grant.
    told: u64,
    /// At the latest its lease ends: evidence from before that is no older than a session timeout.
    lease: u64,
    /// The takeover delay of contenders.
    delay: u64,
}

thread_local! {
    static INTERVENTIONS: RefCell<Interventions> = RefCell::default();
}

/// The directory of a node.
pub(crate) fn directory(path: &str) -> &str {
    path.rsplit_once('/').map(|(directory, _)| directory).unwrap_or_default()
}

/// Forgets what operators have done.
pub(crate) fn begin(part: &Part) {
    let delay = nanoseconds(part.delay.unwrap_or_default());
    let bounds = Bounds { told: nanoseconds(part.told), lease: nanoseconds(part.timeout), delay };
    let capacity = rules(part.member).capacity;
    let announcement = part.member.announcement();
    drop(INTERVENTIONS.replace(Interventions { capacity, bounds, announcement, ..Interventions::default() }));
}

/// A server that serves has these nodes now. Returns the tokens and sessions of those that have the name of one that an operator has
/// removed: its holder may release it by that name, as long as it does not know (docs/DESIGN.md, "A directory that is removed and made
/// again").
pub(crate) fn look(server: &Server) -> Vec<(i64, i64)> {
    let mut found = BTreeMap::<i64, usize>::new();
    server.ephemerals().for_each(|node| *found.entry(node.czxid).or_default() += 1);
    let now = world::now();
    INTERVENTIONS.with_borrow_mut(|Interventions { ended, there, gone, freed, bounds, .. }| {
        freed.retain(|_, at| now <= *at + bounds.lease + nanoseconds(SETTLING));
        let is_new = |czxid: &i64| !there.contains_key(czxid) && !gone.contains_key(czxid);
        let namesakes =
            server.ephemerals().filter(|node| freed.contains_key(node.path) && is_new(&node.czxid));
        let namesakes = namesakes.map(|node| (node.czxid, node.owner)).collect::<Vec<_>>();
        for (czxid, _) in &namesakes {
            ended.entry(Ended::Node(*czxid)).or_default();
        }
        for (czxid, number) in found.iter().filter(|(czxid, _)| !gone.contains_key(czxid)) {
            there.entry(*czxid).or_insert((now, *number));
        }
        there.retain(|czxid, (_, number)| {
            let is_there = *czxid > server.zxid() || found.get(czxid) == Some(number);
            if !is_there {
                gone.insert(*czxid, (now, server.zxid()));
            }
            is_there
        });
        namesakes
    })
}

/// An announcement whose leader's node is gone.
pub(crate) struct Orphan {
    pub(crate) czxid: i64,
    /// Since when the node is gone.
    pub(crate) since: u64,
    /// Whether the announcement was made behind that.
    pub(crate) is_late: bool,
}

/// A server that serves has these nodes now. Returns its announcement if that is an orphan.
pub(crate) fn look_at_announcement(server: &Server) -> Option<Orphan> {
    INTERVENTIONS.with_borrow_mut(|Interventions { announcement, announced, gone, .. }| {
        let (czxid, data) = announcement_at(server, announcement)?;
        let token = token_of(&data)?;
        announced.insert(data);
        let (since, zxid) = *gone.get(&token)?;
        Some(Orphan { czxid, since, is_late: czxid > zxid })
    })
}

/// A server that serves has these nodes now. Returns whether the announcement has changed, if no other server has shown more.
pub(crate) fn sees_another_announcement(server: &Server) -> bool {
    INTERVENTIONS.with_borrow_mut(|Interventions { announcement, present, .. }| {
        let (zxid, before, since) = *present;
        if server.zxid() <= zxid {
            return false;
        }
        let token = announcement_at(server, announcement).and_then(|(_, data)| token_of(&data));
        *present = (server.zxid(), token, if token == before { since } else { world::now() });
        token != before
    })
}

/// The token that has been announced since this instant, or that none has been.
pub(crate) fn announced_since(instant: u64) -> Option<Option<i64>> {
    INTERVENTIONS.with_borrow(|it| (it.present.2 <= instant).then_some(it.present.1))
}

/// The announcement that a server has: the transaction that created it, and its data.
fn announcement_at(server: &Server, path: &str) -> Option<(i64, String)> {
    let node = server.ephemerals().find(|node| node.path == path)?;
    Some((node.czxid, String::from_utf8_lossy(node.data).into_owned()))
}

fn token_of(announcement: &str) -> Option<i64> {
    announcement.split_once("\"token\":")?.1.split(',').next()?.parse().ok()
}

/// Whether a server has had an announcement of this value.
pub(crate) fn was_announced(value: &str) -> bool {
    let value = format!("\"value\":\"{value}\"");
    INTERVENTIONS.with_borrow(|it| it.announced.iter().any(|data| data.contains(&value)))
}

/// Whether a node with this token has been there for so long.
pub(crate) fn is_there_since(token: i64, instant: u64) -> bool {
    INTERVENTIONS.with_borrow(|it| it.there.get(&token).is_some_and(|(since, _)| *since <= instant))
}

/// Since when a node with this token is gone, if it is.
pub(crate) fn gone_since(token: i64) -> Option<u64> {
    INTERVENTIONS.with_borrow(|it| it.gone.get(&token).map(|(since, _)| *since))
}

/// Whether an operator has ended this session or the node with this token, or written to it, or is about to.
pub(crate) fn is_ended(session: i64, token: i64) -> bool {
    let ended = [Ended::Session(session), Ended::Node(token)];
    is_touched(token)
        || INTERVENTIONS.with_borrow(|it| ended.iter().any(|ended| it.ended.contains_key(ended)))
}

/// Whether an operator has written to the node with this token, or is about to.
pub(crate) fn is_touched(token: i64) -> bool {
    INTERVENTIONS.with_borrow(|it| it.touched.contains(&token))
}

/// An operator is about to write to the node with this token.
pub(crate) fn touching(token: i64) {
    INTERVENTIONS.with_borrow_mut(|it| _ = it.touched.insert(token));
}

/// An operator is about to remove the node of this path.
pub(crate) fn frees(path: &str) {
    INTERVENTIONS.with_borrow_mut(|it| _ = it.freed.insert(path.to_owned(), world::now()));
}

/// Something of this contender is about to be ended by an operator.
pub(crate) fn ending(what: Ended, others: Others) {
    INTERVENTIONS.with_borrow_mut(|it| {
        // Nobody knows which of several acts took effect.
        let all = it.ended.entry(what).or_insert_with(|| others.clone());
        all.tokens.retain(|other| others.tokens.contains(other));
        all.in_turnstile.0 = all.in_turnstile.0.min(others.in_turnstile.0);
        all.in_turnstile.1.retain(|other| others.in_turnstile.1.contains(other));
    });
}

impl Interventions {
    /// What an operator has ended of a hold, and by when its guard has to be lost.
    fn ended(&self, taken: Taken) -> Option<(&Others, u64)> {
        let Taken { token, session, granted, in_quiet, is_late } = taken;
        let (gone, _) = *token.and_then(|token| self.gone.get(&token))?;
        let Bounds { told, lease, delay } = self.bounds;
        let by_node = token.and_then(|token| self.ended.get(&Ended::Node(token)));
        let by_session = self.ended.get(&Ended::Session(session));
        let bound = match (in_quiet, by_session) {
            (false, _) => lease + nanoseconds(SETTLING),
            (true, None) => told,
            // It may be resumed at that very moment (`LockOptions::takeover_delay`).
            (true, Some(_)) => told + lease / 5 * 2,
        };
        // A waiter may be granted after its node is gone: a release of its predecessor grants it. With a delay it has looked at its node
        // behind that, and then at most waits until its lease is confirmed.
        let looks = in_quiet && delay > 0 && !is_late;
        let latest = if looks { granted.min(gone + lease + CONFIRMING) } else { granted };
        Some((by_node.or(by_session)?, latest.max(gone) + bound))
    }
}

/// Whether a contender with this token, which asked at this instant, may be granted now beside a guard: an operator has ended the node
/// of the guard, or its session, its holder may not know yet, and the contender has come to an empty place or observes no delay that is
/// long enough. A contender of another client has no token, and never a delay.
pub(crate) fn is_excused(taken: Taken, granted: Option<i64>, who: Who, asked: u64) -> bool {
    INTERVENTIONS.with_borrow(|it| {
        let Some((Others { tokens, in_turnstile: (since, waiting) }, until)) = it.ended(taken) else {
            return false;
        };
        let is_known = granted.is_some_and(|granted| tokens.contains(&granted))
            || asked < *since && waiting.contains(&who);
        let Bounds { told, lease, delay } = it.bounds;
        let is_covered = delay >= if taken.in_quiet { told } else { lease };
        world::now() <= until && !(is_known && is_covered)
    })
}

/// Whether the guard of a hold may be valid now though its node is gone: an operator has ended that, or its session.
pub(crate) fn may_be_valid(taken: Taken) -> bool {
    INTERVENTIONS.with_borrow(|it| it.ended(taken).is_some_and(|(_, until)| world::now() <= until))
}

/// It is confirmed that an operator has written to the node with this token.
pub(crate) fn written(token: i64) {
    INTERVENTIONS.with_borrow_mut(|it| _ = it.written.entry(token).or_insert(world::now()));
}

/// Whether that was confirmed before this instant.
pub(crate) fn was_written_before(token: i64, instant: u64) -> bool {
    INTERVENTIONS.with_borrow(|it| it.written.get(&token).is_some_and(|written| *written < instant))
}

/// An operator has written another capacity. The pool had these zxids before, and with it.
pub(crate) fn resized(capacity: u32, zxids: (i64, i64)) {
    INTERVENTIONS.with_borrow_mut(|it| {
        it.resizes.push(Resize { capacity, zxids });
        it.resizes.sort_by_key(|resize| resize.zxids.1);
    });
}

/// The capacity that the last change has left.
pub(crate) fn capacity() -> u32 {
    INTERVENTIONS.with_borrow(|it| it.resizes.last().map_or(it.capacity, |resize| resize.capacity))
}

/// Whether a permit or a slot with this token may have been admitted while the capacity was so large.
pub(crate) fn may_be_admitted(token: i64, capacity: u32) -> bool {
    INTERVENTIONS.with_borrow(|it| {
        let last = it.resizes.iter().rfind(|resize| resize.zxids.1 <= token);
        let open = it.resizes.iter().filter(|resize| resize.zxids.0 < token && token < resize.zxids.1);
        last.map_or(it.capacity, |resize| resize.capacity) == capacity
            || open.into_iter().any(|resize| resize.capacity == capacity)
    })
}
