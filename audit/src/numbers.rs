//! Which contenders no record has, by the numbers that the server gave.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use zklock_recipe::flight::{Begun, Queue};
use zklock_recipe::{Kind, Layout, Own};

use crate::clocks::raw;
use crate::judge::{Judge, View};
use crate::window::Window;

/// Numbers without a record, one after the other.
struct Missing {
    first: i32,
    last: i32,
    /// These nodes were created after this transaction, and before that one.
    behind: i64,
    before: i64,
    /// Whether they may be on record, if their directory is the one of who saw them.
    is_astray: bool,
}

/// The contenders in a directory. A directory of the same name that is created later has their numbers again.
#[derive(Default)]
struct Directory {
    /// The transaction that created it; `None` if nobody knows that. Then it has one node on record.
    created: Option<i64>,
    /// Those on record, with the transactions that created them.
    known: BTreeMap<i32, i64>,
    /// Those that others have seen.
    seen: BTreeSet<i32>,
}

/// What the records say of a path's nodes.
#[derive(Default)]
struct Nodes {
    /// The nodes by the transactions that created them: the number of each, and the transaction that created its directory, if that is
    /// known.
    nodes: BTreeMap<i64, (i32, Option<i64>)>,
    /// The numbers that others have seen, each with the node of who saw it; and a transaction behind that, if nothing shows that they
    /// looked into the directory of this node.
    seen: Vec<(i64, i32, Option<i64>)>,
    /// The transactions that created other nodes at the path: asks, and directories below it. Each has taken a number.
    others: BTreeSet<i64>,
}

impl Judge<'_> {
    /// Contenders of a queue that no record has. Each may have held within the window.
    pub(crate) fn unknown(&self, queue: &Queue, ensemble: usize) -> Vec<String> {
        let View { window, .. } = &self.views[ensemble];
        let mut nodes = self.nodes(queue, ensemble);
        let others = mem::take(&mut nodes.others);
        let (directories, astray) = nodes.directories();
        let missing = missing(&directories, &others, window.first()).into_iter().chain(astray);
        let may_hold = |it: &Missing| {
            !window.has_passed(it.behind) && !self.has_gone(it.before, queue, ensemble, window)
        };
        let text = |it: Missing| match it {
            Missing { first, is_astray: true, .. } => format!(
                "whether contender number {first} has a record: who saw it may have looked into a directory that somebody made again"
            ),
            Missing { first, last, .. } if first == last => format!("contender number {first} has no record"),
            Missing { first, last, .. } => format!("contenders number {first} to {last} have no record"),
        };
        missing.filter(may_hold).map(text).collect()
    }

    /// Whether all nodes that were created before this transaction had gone long before the window: somebody behind them held the lock
    /// alone, by inputs that make the machine grant it.
    fn has_gone(&self, before: i64, queue: &Queue, ensemble: usize, window: &Window<'_>) -> bool {
        let lingers = self.lingers();
        self.tales.iter().enumerate().any(|(process, tale)| {
            let is_early = |at| window.is_before(self.boot(process), raw(at).saturating_add(lingers));
            tale.holds.iter().any(|hold| {
                let queues = hold.begun.queues.iter().zip(&hold.nodes);
                let mut mine = queues.filter(|(it, own)| it.path == queue.path && own.czxid >= before);
                let is_alone = mine.any(|(it, _)| it.kind == Kind::Exclusive && it.layout == Layout::Own);
                is_alone
                    && hold.is_replayed
                    && self.ensemble(process, hold.begun.session) == ensemble
                    && is_early(hold.granted)
            })
        })
    }

    fn nodes(&self, queue: &Queue, ensemble: usize) -> Nodes {
        let mut all = Nodes::default();
        for (process, tale) in self.tales.iter().enumerate() {
            let is_mine = |begun: &Begun, index: usize| {
                self.ensemble(process, begun.session) == ensemble
                    && begun.queues.get(index).is_some_and(|it| it.path == queue.path)
            };
            let mut add = |begun: &Begun, index: usize, own: &Own| {
                let directory = tale.located.get(&(begun.acquisition, index, own.czxid)).copied();
                let node = all.nodes.entry(own.czxid).or_insert((own.place.sequence.0, directory));
                node.1 = node.1.or(directory);
            };
            for attempt in tale.acquisitions.values() {
                let nodes = attempt.nodes.iter().filter(|(index, _)| is_mine(&attempt.begun, *index));
                nodes.for_each(|(index, own)| add(&attempt.begun, *index, own));
            }
            for hold in &tale.holds {
                let nodes = hold.nodes.iter().enumerate().filter(|(index, _)| is_mine(&hold.begun, *index));
                nodes.for_each(|(index, own)| add(&hold.begun, index, own));
            }
            let is_here = |session: u32| self.ensemble(process, session) == ensemble;
            let asked = tale.asked.iter().filter(|it| it.path == queue.path && is_here(it.session));
            all.others.extend(asked.map(|it| it.czxid));
            all.others.extend(tale.directories.iter().filter_map(|(session, path, created)| {
                let (parent, _) = path.rsplit_once('/')?;
                (parent == queue.path && is_here(*session)).then_some(*created)
            }));
            for attempt in tale.acquisitions.values() {
                let order = &self.views[ensemble].orders[process];
                let sights = attempt.sights.iter().filter(|it| is_mine(&attempt.begun, it.index));
                let sights = sights.filter_map(|it| {
                    let late = it.astray.map(|at| order.behind(at).unwrap_or(i64::MAX));
                    Some((it.own.or(attempt.own(it.index))?.czxid, it.place.sequence.0, late))
                });
                all.seen.extend(sights);
            }
        }
        all
    }
}

impl Nodes {
    /// The directories, in the order of their creation; and those whom somebody saw, nobody knows in which one.
    fn directories(mut self) -> (Vec<Directory>, Vec<Missing>) {
        let located =
            self.nodes.iter().filter_map(|(czxid, (_, directory))| Some((directory.as_ref()?, czxid)));
        let last = located.map(|(directory, czxid)| (*directory, *czxid)).collect::<BTreeMap<_, _>>();
        for (czxid, (_, directory)) in &mut self.nodes {
            // Of one path there is one directory at a time, and this one was there from before the node until after it.
            let around = last.range(..czxid).next_back().filter(|(_, last)| *last > czxid);
            *directory = directory.or(around.map(|(directory, _)| *directory));
        }
        let mut directories = BTreeMap::<i64, Directory>::new();
        for (czxid, (number, created)) in &self.nodes {
            let directory = directories.entry(created.unwrap_or(*czxid)).or_default();
            directory.created = *created;
            directory.known.insert(*number, *czxid);
        }
        let mut astray = BTreeMap::<i32, i64>::new();
        for (viewer, number, late) in self.seen {
            let Some((_, created)) = self.nodes.get(&viewer) else { continue };
            // A later node shows that the directory of who saw it was still there.
            let last = created.and_then(|created| last.get(&created)).copied().unwrap_or(i64::MIN);
            if let Some(late) = late.filter(|late| *late > last) {
                astray.entry(number).and_modify(|it| *it = late.max(*it)).or_insert(late);
                continue;
            }
            let directory = directories.entry(created.unwrap_or(viewer)).or_default();
            directory.seen.insert(number);
        }
        let astray = astray.into_iter().map(|(number, before)| Missing {
            first: number,
            last: number,
            behind: i64::MIN,
            before,
            is_astray: true,
        });
        (directories.into_values().collect(), astray.collect())
    }
}

/// The numbers that are missing in each directory: those below one on record or one that others have seen. Other nodes at the path
/// account for as many of them. The first directory may have had contenders before all records begin, if it was created by then (this is the first
/// transaction on record): there the numbers count from the lowest one.
fn missing(directories: &[Directory], others: &BTreeSet<i64>, first: i64) -> Vec<Missing> {
    let (mut missing, mut behind) = (Vec::new(), i64::MIN);
    for (place, Directory { created, known, seen }) in directories.iter().enumerate() {
        let mut miss = |first, next, behind, before| {
            if first < next {
                missing.push(Missing { first, last: next - 1, behind, before, is_astray: false });
            }
        };
        let all = || known.keys().chain(seen).copied();
        let is_old = place == 0 && created.is_some_and(|created| created < first);
        let mut next = if is_old { all().min().unwrap_or(0) } else { 0 };
        behind = created.unwrap_or(behind);
        // All numbers since this transaction are in question.
        let mut since = created.filter(|_| !is_old);
        for (number, czxid) in known {
            // Of restored servers, a higher number may be older.
            let between = since.filter(|since| since < czxid).map(|since| others.range(since + 1..*czxid));
            let others = between.map_or(0, Iterator::count);
            if usize::try_from(number.abs_diff(next)).is_ok_and(|missing| missing > others) {
                miss(next, *number, behind, *czxid);
            }
            (next, behind, since) = (number.saturating_add(1), *czxid, Some(*czxid));
        }
        let following = directories[place + 1..].iter().find_map(|it| it.created);
        // A listing may be later than the last contender on record, and show another one.
        miss(
            next,
            all().max().map_or(0, |last| last.saturating_add(1)),
            behind,
            following.unwrap_or(i64::MAX),
        );
    }
    missing
}
