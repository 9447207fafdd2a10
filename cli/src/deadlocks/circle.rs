//! Finds circles of sessions that wait for each other, in queues that were read. It reads nothing.
//!
//! ```text
//! waits at /lock/b:  alpha --for--> beta, which holds it, and waits at /lock/a --for--> alpha, which holds that
//! ```

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::layout::Layout;
use crate::queue::Entry;

/// Those that contend at a path.
pub(super) struct Queue {
    pub(super) path: String,
    /// The other client whose queue it is.
    pub(super) layout: Option<Layout>,
    /// How much of it is free, if it is a semaphore, or slots. Any of their holders may make room, so who waits in the
    /// turnstile waits for no certain one.
    pub(super) room: Option<u64>,
    pub(super) entries: Vec<Entry>,
}

impl Queue {
    /// Whether it is a semaphore, or slots.
    pub(super) fn is_pool(&self) -> bool {
        self.room.is_some()
    }

    /// Whether some of the pool is free. It is not known here how much a waiter wants; 1 may be enough.
    pub(super) fn has_room(&self) -> bool {
        self.room.is_some_and(|free| free > 0)
    }

    /// Whether the one keeps the other waiting. A reader behind a waiting writer waits for all for whom that writer waits.
    fn blocks(&self, front: &Entry, behind: &Entry) -> bool {
        match self.is_pool() {
            true => front.holds,
            false => behind.waits_for.is_some_and(|nearest| front.position <= nearest),
        }
    }

    /// Whether this very node is here, and holds or waits as it did. A name may be used again. The number of the transaction that made a
    /// node is not.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        let same = |one: &&Entry| (&one.node, one.token) == (&entry.node, entry.token);
        self.entries.iter().find(same).is_some_and(|one| one.holds == entry.holds)
    }
}

/// One waits for the next. The fields of the JSON have the same names.
#[derive(Clone, Serialize)]
pub(super) struct Step {
    /// Where it waits.
    pub(super) path: String,
    /// Whether that is a semaphore, or slots.
    pub(super) pool: bool,
    pub(super) waiter: Entry,
    /// Whom it waits for. The waiter of the next step is of the same session.
    pub(super) blocker: Entry,
}

/// Sessions that wait for each other. The fields of the JSON have the same names.
#[derive(Clone, Serialize)]
pub(super) struct Circle {
    /// Whether it may end by itself: it goes through a pool that has room, or another holder.
    pub(super) possible: bool,
    pub(super) steps: Vec<Step>,
}

impl Circle {
    /// Whether somebody of it waits at this path.
    pub(super) fn goes_through(&self, path: &str) -> bool {
        self.steps.iter().any(|step| step.path == path)
    }

    /// How long ago the last of them began to wait, by their own clocks. `None` if that is unknown.
    pub(super) fn age(&self, now: Timestamp) -> Option<Duration> {
        let ages = self.steps.iter().map(|step| step.waiter.age(now)).collect::<Option<Vec<_>>>();
        ages?.into_iter().min()
    }
}

/// One that waits: its queue, and itself.
type Waiter<'a> = (&'a Queue, &'a Entry);

/// Finds circles of two sessions or more. Of circles that share a waiter, it finds the shortest one of the first waiter.
///
/// A session stands for one task: if it holds a lock and waits at another path, it keeps the lock until it has the other one. If one
/// acquisition takes several locks, its nodes have one transaction, and even those that wait block others until it has all of them.
pub(super) fn circles(queues: &[Queue]) -> Vec<Circle> {
    let mut places = HashMap::<i64, HashSet<&str>>::new();
    for queue in queues {
        for session in queue.entries.iter().filter_map(session) {
            places.entry(session).or_default().insert(&queue.path);
        }
    }
    // Others are in no circle.
    let is_twice =
        |entry: &&Entry| session(entry).and_then(|it| places.get(&it)).is_some_and(|it| it.len() > 1);
    let all =
        queues.iter().flat_map(|queue| queue.entries.iter().filter(is_twice).map(move |it| (queue, it)));
    let waiters = all.filter(|(_, entry)| !entry.holds).collect::<Vec<Waiter<'_>>>();
    let mut of_session = HashMap::<Option<i64>, Vec<usize>>::new();
    for (index, (_, entry)) in waiters.iter().enumerate() {
        of_session.entry(session(entry)).or_default().push(index);
    }
    // Whom each waits for, with what that one waits for itself.
    let next = waiters.iter().map(|&(queue, waiter)| {
        let blockers = queue.entries.iter().filter(is_twice);
        let blockers = blockers.filter(|one| one.session != waiter.session && queue.blocks(one, waiter));
        let waits_elsewhere = |blocker: &Entry, index: usize| {
            let (elsewhere, waiter) = waiters[index];
            elsewhere.path != queue.path && (blocker.holds || blocker.token == waiter.token)
        };
        let steps = blockers.flat_map(|blocker| {
            let others = of_session.get(&session(blocker)).into_iter().flatten();
            others.filter(move |other| waits_elsewhere(blocker, **other)).map(move |other| (blocker, *other))
        });
        steps.collect::<Vec<_>>()
    });
    let mut next = next.collect::<Vec<_>>();
    prune(&mut next);
    let (mut told, mut circles) = (HashSet::new(), Vec::new());
    for first in 0..waiters.len() {
        if told.contains(&first) {
            continue;
        }
        let Some(way) = shortest(first, &next) else { continue };
        told.extend(way.iter().map(|(waiter, _)| *waiter));
        let steps = way.into_iter().map(|(waiter, blocker)| {
            let (queue, waiter) = waiters[waiter];
            let (path, pool) = (queue.path.clone(), queue.is_pool());
            (queue, Step { path, pool, waiter: waiter.clone(), blocker: blocker.clone() })
        });
        let (ways, steps) = steps.unzip::<_, _, Vec<_>, Vec<_>>();
        let sessions = steps.iter().map(|step| session(&step.waiter)).collect::<HashSet<_>>();
        let is_open = |queue: &&Queue| {
            let is_other = |one: &Entry| one.holds && !sessions.contains(&session(one));
            queue.is_pool() && (queue.has_room() || queue.entries.iter().any(is_other))
        };
        circles.push(Circle { possible: ways.iter().any(is_open), steps });
    }
    circles
}

/// Drops the ways to those who wait for nobody that waits, one after the other. Without a circle no way is left, and the search for
/// one ends at once.
fn prune(next: &mut [Vec<(&Entry, usize)>]) {
    let mut before = vec![Vec::new(); next.len()];
    for (waiter, steps) in next.iter().enumerate() {
        steps.iter().for_each(|(_, there)| before[*there].push(waiter));
    }
    let mut ways = next.iter().map(Vec::len).collect::<Vec<_>>();
    let mut free = (0..next.len()).filter(|waiter| ways[*waiter] == 0).collect::<Vec<_>>();
    while let Some(waiter) = free.pop() {
        for &behind in &before[waiter] {
            ways[behind] -= 1;
            if ways[behind] == 0 {
                free.push(behind);
            }
        }
    }
    next.iter_mut().for_each(|steps| steps.retain(|(_, there)| ways[*there] > 0));
}

/// The session of a contender; `None` if it is hidden, or if the node is persistent and so has none.
fn session(entry: &Entry) -> Option<i64> {
    entry.session.map(|session| session.0).filter(|session| *session != 0)
}

/// The shortest way from a waiter back to it: each waiter on it, and whom that one waits for.
fn shortest<'a>(first: usize, next: &[Vec<(&'a Entry, usize)>]) -> Option<Vec<(usize, &'a Entry)>> {
    let mut came = HashMap::<usize, (usize, &Entry)>::new();
    let mut open = VecDeque::from([first]);
    while let Some(here) = open.pop_front() {
        for &(blocker, there) in &next[here] {
            if there != first {
                came.entry(there).or_insert_with(|| {
                    open.push_back(there);
                    (here, blocker)
                });
                continue;
            }
            let mut way = vec![(here, blocker)];
            let mut at = here;
            while let Some(&(before, blocker)) = came.get(&at) {
                way.push((before, blocker));
                at = before;
            }
            way.reverse();
            return Some(way);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use zookeeper_client::SessionId;

    use super::*;
    use crate::queue::tests::entry;

    /// A holder of this session, and of a node of its own.
    fn holds(session: i64, token: i64) -> Entry {
        let entry = entry("one", 0, token);
        Entry { session: Some(SessionId(session)), holds: true, ..entry }
    }

    /// Waits for those in front of it.
    fn waits(session: i64, token: i64, position: usize) -> Entry {
        let waits_for = position.checked_sub(1);
        Entry { holds: false, position, waits_for, ..holds(session, token) }
    }

    /// Session 2 holds a lock, and waits in a pool behind 3. Session 1 holds some of the pool, as these others do, and
    /// waits for the lock. Of each circle, whether it is only possible.
    fn through_a_pool(free: u64, others: &[Entry]) -> Vec<bool> {
        let queue = |path: &str, room, entries| Queue { path: path.to_owned(), layout: None, room, entries };
        let mut pool = vec![holds(1, 1), waits(3, 4, 0), waits(2, 5, 1)];
        pool.extend_from_slice(others);
        let lock = vec![holds(2, 2), waits(1, 3, 1)];
        let found = circles(&[queue("/lock", None, lock), queue("/pool", Some(free), pool)]);
        assert!(found.iter().all(|circle| circle.steps.len() == 2));
        found.iter().map(|circle| circle.possible).collect()
    }

    #[test]
    fn a_circle_through_a_pool_with_room_is_only_possible() {
        // The first one in the turnstile is dead. The one behind it passes once its session has expired.
        assert_eq!(through_a_pool(7, &[]), [true]);
        assert_eq!(through_a_pool(1, &[]), [true]);
        assert_eq!(through_a_pool(0, &[]), [false]);
    }

    #[test]
    fn a_circle_through_a_full_pool_is_only_possible_if_somebody_else_holds_some() {
        assert_eq!(through_a_pool(0, &[holds(9, 6)]), [true]);
        assert_eq!(through_a_pool(0, &[holds(1, 6)]), [false]);
    }
}
