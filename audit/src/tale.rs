//! The types of what a record tells of one process: its holds, its acquisitions and its stamps. [`reader`](crate::reader) fills them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::clocks::raw;
use zklock_recipe::acquisition::{self, Acquisition};
use zklock_recipe::flight::{Asked, Begun, Located, Stamp};
use zklock_recipe::{Child, End, Event, Input, Moment, Own, Place, Sight};

/// The deeds of one process, as far as its record shows them.
#[derive(Debug, Default)]
pub(crate) struct Tale {
    pub(crate) holds: Vec<Hold>,
    pub(crate) acquisitions: BTreeMap<u64, Attempt>,
    /// The transactions that created the directories of nodes, by acquisition, queue and the transaction that created the node.
    pub(crate) located: HashMap<(u64, usize, i64), i64>,
    pub(crate) stamps: Vec<Stamp>,
    pub(crate) asked: Vec<Asked>,
    /// Directories, by session and path, with the transactions that created them.
    pub(crate) directories: BTreeSet<(u32, String, i64)>,
    /// The server list of each session.
    pub(crate) servers: BTreeMap<u32, String>,
    /// The longest session timeout on record, in nanoseconds.
    pub(crate) longest: i64,
    /// Where the machine was suspended, by its clock that stands still then.
    pub(crate) suspended: Vec<(i64, i64)>,
    /// The wall clock at an instant, for labels.
    pub(crate) wall: Option<(u64, i64)>,
    /// See [`Header::deleted`](zklock_recipe::flight::Header::deleted).
    pub(crate) deleted: Option<i64>,
    /// The last instant that the record shows.
    pub(crate) last: Moment,
    /// Where lines are missing: behind the first instant, and before the second one. A file that begins at the latter says what is open.
    pub(crate) gaps: Vec<(i64, Option<i64>)>,
    /// Where a machine decides otherwise than was recorded.
    pub(crate) diverged: Vec<Divergence>,
}

/// A place at which a machine decides otherwise than was recorded.
#[derive(Clone, Debug)]
pub(crate) struct Divergence {
    pub(crate) acquisition: u64,
    pub(crate) path: String,
    pub(crate) recorded: String,
    pub(crate) replayed: String,
    pub(crate) at: i64,
}

/// One acquisition.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) begun: Begun,
    /// All its nodes that are known, each with the place of its queue.
    pub(crate) nodes: Vec<(usize, Own)>,
    /// Behind whom it waited first, in each queue.
    pub(crate) behind: Vec<Option<Place>>,
    /// Whom it tries to watch.
    pub(crate) watching: Vec<Option<Place>>,
    pub(crate) sights: Vec<Seen>,
    /// The queues whose next listing is of the directory of its own node.
    pub(crate) shown: Vec<usize>,
    pub(crate) granted: Option<Moment>,
    pub(crate) ended: Option<(Moment, End)>,
    /// The machine, while the record shows everything since the begin.
    pub(crate) machine: Option<Acquisition>,
}

/// A contender that an acquisition saw in the queue of this index.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) index: usize,
    pub(crate) place: Place,
    /// Its own node there by then.
    pub(crate) own: Option<Own>,
    /// When it saw that, if nothing shows that this was in the directory of its own node.
    pub(crate) astray: Option<i64>,
}

/// One hold: a guard, with all that share it.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) begun: Begun,
    pub(crate) nodes: Vec<Own>,
    /// ZooKeeper's id of the session.
    pub(crate) session: i64,
    pub(crate) turns: u32,
    pub(crate) granted: Moment,
    /// Until here the guard said at least that it was held, by the clock that nobody slews.
    pub(crate) sure: i64,
    /// From here on no guard said so; `None` if the record does not show it.
    pub(crate) end: Option<i64>,
    pub(crate) ending: Ending,
    /// Says for each node whether our own transaction removed this very one, after the guard was over.
    pub(crate) released: Vec<bool>,
    /// Whether the machine grants it by the recorded inputs.
    pub(crate) is_replayed: bool,
    pub(crate) open: Option<Watch>,
}

/// How a hold ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The holder let go.
    LetGo,
    /// It was lost, with the guard's reason.
    Lost(String),
    /// The record ends before, or lacks lines. If the process was killed, no guard outlives the lease.
    Unseen,
}

/// The state on which the validity of an open hold depends, besides the lease.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) session: u32,
    pub(crate) seen: Option<u64>,
    /// When the lease was to end as the connection was lost on which the nodes were last seen.
    pub(crate) cut: Option<Moment>,
    /// The end that the guard has told before.
    pub(crate) told: Option<Moment>,
    /// A file begins with it, and does not show whether such an instant has passed.
    pub(crate) hides_cut: bool,
    /// Lines are missing since the grant.
    pub(crate) is_blind: bool,
    /// A file that begins here, behind the missing lines, does not say that it is still held.
    pub(crate) unlisted: Option<Moment>,
}

impl Tale {
    /// When this acquisition was over, with its hold.
    pub(crate) fn over(&self, acquisition: u64) -> Option<i64> {
        match self.holds.iter().find(|hold| hold.begun.acquisition == acquisition) {
            Some(hold) => hold.end,
            None => self.acquisitions.get(&acquisition)?.ended.as_ref().map(|(at, _)| raw(*at)),
        }
    }

    /// The first instant of the record.
    pub(crate) fn begins(&self) -> i64 {
        self.wall.map_or(i64::MIN, |(_, at)| at)
    }
}

impl Attempt {
    pub(crate) fn new(begun: Begun, machine: Option<Acquisition>) -> Self {
        let nobody = vec![None; begun.queues.len()];
        let nodes = begun.admitted.iter().map(|(own, _)| (0, *own)).collect();
        Self {
            begun,
            nodes,
            behind: nobody.clone(),
            watching: nobody,
            sights: Vec::new(),
            shown: Vec::new(),
            granted: None,
            ended: None,
            machine,
        }
    }

    /// Takes in what an input shows of nodes, its own and others'.
    pub(crate) fn see(&mut self, input: &acquisition::Input, at: Moment) {
        let acquisition::Input::Reply(reply, _) = input else { return };
        match reply {
            Input::Entered(nodes) => {
                for (index, (own, sight)) in nodes.iter().enumerate() {
                    self.has(index, *own);
                    if let Sight::Children(names) = sight {
                        // The listing followed the create on one connection.
                        self.shown.extend(names.contains(&own.place.name()).then_some(index));
                        self.saw(index, names, at);
                    }
                }
            }
            Input::One(index, Event::Recovered(Some(own))) => self.has(*index, *own),
            Input::One(index, Event::PredecessorWatched(true)) => {
                if let (Some(behind), Some(place)) = (self.behind.get_mut(*index), self.watching.get(*index))
                {
                    *behind = behind.or(*place);
                }
            }
            Input::One(index, Event::Listed(names) | Event::ListedAfterRelease(names)) => {
                self.saw(*index, names, at);
            }
            _ => {}
        }
    }

    /// Takes in its node in this queue.
    pub(crate) fn has(&mut self, index: usize, own: Own) {
        if self.own(index) != Some(own) {
            self.nodes.push((index, own));
        }
    }

    /// Its latest node in this queue.
    pub(crate) fn own(&self, index: usize) -> Option<Own> {
        self.nodes.iter().rev().find(|(at, _)| *at == index).map(|(_, own)| *own)
    }

    fn saw(&mut self, index: usize, names: &[String], at: Moment) {
        let places = names.iter().filter_map(|name| match Child::of(name) {
            Child::Contender(place) => Some(place),
            Child::Suspect(_) | Child::Other => None,
        });
        let (own, places) = (self.own(index), places.collect::<Vec<_>>());
        let astray = (!self.shown.contains(&index)).then_some(raw(at));
        self.sights.extend(places.into_iter().map(|place| Seen { index, place, own, astray }));
    }
}

/// The locks that the caller asked for.
pub(crate) trait Named {
    /// The paths, for people.
    fn paths(&self) -> String;

    /// A directory of its nodes: the session, the path, and the transaction that created it.
    fn directory(&self, located: &Located) -> Option<(u32, String, i64)>;
}

impl Named for Begun {
    fn paths(&self) -> String {
        self.queues.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn directory(&self, located: &Located) -> Option<(u32, String, i64)> {
        let queue = self.queues.get(located.index)?;
        Some((self.session, queue.path.clone(), located.directory))
    }
}
