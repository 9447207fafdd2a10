//! Finds the locks below a node.

use std::collections::{HashMap, HashSet};

use futures::stream::{self, StreamExt};
use zklock_recipe::PathKind;

use super::tree::{Branch, FirstHolder, Pooled, is_suspect_path, read_branch};
use crate::acquire::contender::Contender;
use crate::acquire::query::query;
use crate::error::QueryError;
use crate::layout::Layout;
use crate::path::{PathProblem, check_node, child_of, is_reserved, parent_of};
use crate::zk::Succession;

/// How many nodes are read at the same time: enough to hide the round trips, and little work for a server.
const IN_FLIGHT: usize = 64;

/// The result of [`Session::locks_below`](crate::Session::locks_below).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocksBelow {
    /// Whether the node at the root of the search exists.
    pub exists: bool,
    /// The locks that somebody holds, sorted by path. Among them are the queues of other clients that a zklock contender [shares](Layout)
    /// at this moment.
    pub locks: Vec<HeldLock>,
    /// The queues in which only other clients contend, of those that zklock can share, sorted by path. Their names do not tell
    /// whether zklock shares one of them.
    pub others: Vec<HeldLock>,
    /// The semaphores and slots that somebody holds permits or slots of, sorted by path. Their turnstiles are not among the locks.
    pub pools: Vec<HeldPool>,
    /// How many nodes this session may not list. Locks below those nodes are missing from `locks`.
    pub hidden: usize,
    /// How many nodes the search has read.
    pub read: usize,
    /// The bound at which the search ended; see [`Session::locks_below_up_to`](crate::Session::locks_below_up_to). `None` if it has
    /// read everything.
    ///
    /// After a cut each lock, queue, semaphore and slots in the answer is as it was read: its path, its holder, how many hold it,
    /// how many wait for a lock, how much of a pool is held. Others may be missing, and nothing says how many. Three numbers are
    /// too low where a node was not read that would have counted: [`HeldLock::foreign`], [`HeldPool::waiting`] and
    /// [`HeldPool::foreign`]; so is `hidden`.
    pub cut: Option<Cut>,
}

/// The bound at which a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// More is held than the search was to find.
    Found,
    /// The tree has more nodes than the search was to read.
    Read,
}

/// A lock that somebody holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldLock {
    /// The lock's path.
    pub path: String,
    /// The contender that holds the lock, or is about to. If several readers hold it, this is the first of them.
    pub holder: Contender,
    /// How many contenders hold the lock: one, or several readers.
    pub holders: usize,
    /// How many contenders wait behind the holders.
    pub waiting: usize,
    /// Whose queue it is: [`Zklock`](Layout::Zklock), unless zklock shares the queue with another client. go-zookeeper's queue is that
    /// of [`Curator`](Layout::Curator).
    pub layout: Layout,
    /// How many of those that hold the lock or wait for it are zklock's, by the names of their nodes.
    pub zklocks: usize,
    /// How many contenders are in the lock's directory that cannot share the queue: of other clients, or of zklock with another
    /// layout. They keep every zklock contender from acquiring the lock.
    pub foreign: usize,
}

/// A [`Semaphore`](crate::Semaphore), or [`Slots`](crate::Slots), that somebody holds permits or slots of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldPool {
    /// The path of the semaphore or of the slots.
    pub path: String,
    /// Who has held some for the longest time. Its [`kind`](Contender::kind) says whether it is a permit or a slot.
    pub holder: Contender,
    /// The capacity of the semaphore, or the number of slots.
    pub capacity: u32,
    /// How much of it is held: the sum of all weights, or the number of slots that are held.
    pub held: u64,
    /// How many permits or slots are held.
    pub holders: usize,
    /// How many acquisitions are in the turnstile.
    pub waiting: usize,
    /// How many contenders of other clients are in the turnstile's directory. They keep everybody out.
    pub foreign: usize,
}

/// Reads the root and every node below it, until it has found or read so many. Nodes that vanish meanwhile are left out.
pub(super) async fn locks_below(
    succession: &Succession,
    root: &str,
    most_found: usize,
    most_read: usize,
) -> Result<LocksBelow, QueryError> {
    // It is the same for every ZooKeeper session of this one.
    let chroot = succession.present().chroot.to_owned();
    let is_reserved = |path: &str| is_reserved(&format!("{chroot}{path}"));
    let problem = check_node(root).err().or_else(|| is_reserved(root).then_some(PathProblem::Reserved));
    if let Some(problem) = problem {
        return Err(QueryError::Path { path: root.to_owned(), problem });
    }
    let mut walk = LocksBelow {
        exists: true,
        locks: Vec::new(),
        others: Vec::new(),
        pools: Vec::new(),
        hidden: 0,
        read: 0,
        cut: None,
    };
    let mut turnstiles = HashSet::new();
    let mut foreign = HashMap::<String, usize>::new();
    let mut paths = vec![root.to_owned()];
    'walk: while !paths.is_empty() {
        // In one order, so that two searches with a bound find the same.
        paths.sort_unstable();
        let mut nodes = paths.drain(..).filter(|path| !is_reserved(path)).collect::<Vec<_>>();
        if nodes.len() > most_read - walk.read {
            walk.cut = Some(Cut::Read);
            nodes.truncate(most_read - walk.read);
        }
        let look = async |path: String| {
            let node = path.clone();
            (query(succession, &path, |wire| read_branch(wire.client, node)).await, path)
        };
        let mut looks = stream::iter(nodes).map(look).buffered(IN_FLIGHT);
        while let Some((node, path)) = looks.next().await {
            let node = node?;
            walk.read += 1;
            if let Branch::Listed { holder, pool, .. } = &node {
                let is_pool = pool.as_ref().is_some_and(|pool| pool.oldest.is_some());
                let found = usize::from(holder.is_some()) + usize::from(is_pool);
                if walk.locks.len() + walk.others.len() + walk.pools.len() + found > most_found {
                    walk.cut = Some(Cut::Found);
                    break 'walk;
                }
            }
            // A suspect that this session may not read keeps zklock out, too.
            if matches!(node, Branch::Foreign) || matches!(node, Branch::Hidden) && is_suspect_path(&path) {
                *foreign.entry(parent_of(&path).to_owned()).or_default() += 1;
            }
            match node {
                Branch::Hidden if path == root => return Err(QueryError::NotAuthorized { path }),
                Branch::Gone if path == root => walk.exists = false,
                Branch::Hidden => walk.hidden += 1,
                Branch::Foreign | Branch::Gone => {}
                Branch::Listed { holder, pool, children } => {
                    if walk.cut.is_none() {
                        paths.extend(children.iter().map(|name| child_of(&path, name)));
                    }
                    if let Some(pool) = pool {
                        walk.pools.extend(held_pool(&path, *pool));
                        turnstiles.insert(child_of(parent_of(&path), PathKind::QUEUE));
                    }
                    if let Some(holder) = holder {
                        let list = if holder.zklocks > 0 { &mut walk.locks } else { &mut walk.others };
                        list.push(held_lock(path, *holder));
                    }
                }
            }
        }
    }
    for lock in walk.locks.iter_mut().chain(&mut walk.others) {
        lock.foreign += foreign.get(&lock.path).copied().unwrap_or_default();
    }
    for pool in &mut walk.pools {
        let turnstile = child_of(&pool.path, PathKind::QUEUE);
        let contend = |queues: &[HeldLock]| {
            let queue = queues.iter().find(|queue| queue.path == turnstile);
            queue.map_or(0, |queue| queue.holders + queue.waiting)
        };
        pool.waiting = contend(&walk.locks);
        pool.foreign = contend(&walk.others) + foreign.get(&turnstile).copied().unwrap_or_default();
    }
    walk.locks.retain(|lock| !turnstiles.contains(&lock.path));
    walk.others.retain(|queue| !turnstiles.contains(&queue.path));
    walk.locks.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    walk.others.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    walk.pools.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(walk)
}

fn held_lock(path: String, holder: FirstHolder) -> HeldLock {
    let FirstHolder { node, holders, waiting, layout, zklocks, is_lookalike } = holder;
    HeldLock {
        path,
        holder: Contender::new(0, true, node),
        holders,
        waiting,
        layout: Layout::of(layout),
        zklocks,
        foreign: usize::from(is_lookalike),
    }
}

/// The pool whose permits are in this directory, if somebody holds one.
fn held_pool(directory: &str, pool: Pooled) -> Option<HeldPool> {
    let Pooled { stock, oldest, holders, held } = pool;
    let holder = Contender::new(0, true, oldest?);
    let path = parent_of(directory).to_owned();
    Some(HeldPool { path, holder, capacity: stock.number(), held, holders, waiting: 0, foreign: 0 })
}
