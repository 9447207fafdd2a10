//! The contenders of one pool, its turnstile and its permits.

use zklock_recipe::admission::{Admission, Seen, Standing};
use zklock_recipe::{Kind, Own, Place, Stock, Takeover};

use super::setup::{Party, Setup};
use crate::world::ensemble::Ensemble;
use crate::world::tree::{Node, Numbered, Path, Tree};

/// The directories.
pub(crate) const TURNSTILE: usize = 0;
pub(crate) const POOL: usize = 1;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) ensemble: Ensemble<Data>,
    pub(crate) contenders: Vec<Contender>,
}

/// What nodes have for data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Data {
    #[default]
    Nothing,
    Stock(Stock),
    /// A permit of the acquisition whose node in the turnstile this was.
    Permit {
        id: i64,
        /// Before the look by which it was made, a permit has vanished, and no delay has passed since.
        owes: bool,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Contender {
    pub(crate) caller: Caller,
    /// `None` while it is not the first in the turnstile.
    pub(crate) machine: Option<Admission>,
    pub(crate) pending: Pending,
    /// The number of its connection.
    pub(crate) connection: u64,
    /// Its node in the turnstile.
    pub(crate) own: Option<Own>,
    /// The connection on which it has watched the pool's data, and has heard of no change since.
    pub(crate) watched: Option<u64>,
    /// Its node in the turnstile is being deleted in the background.
    pub(crate) departs: bool,
    /// An operator has deleted its permit.
    pub(crate) evicted: bool,
    pub(crate) reasons: Reasons,
    /// It has waited for somebody, or seen what is there, so that no later end may surprise it.
    pub(crate) waited: bool,
    /// Since then a permit has vanished, and no delay has passed since that.
    pub(crate) owes: bool,
    /// As that, and it has not listed the permits since.
    pub(crate) owes_since_its_look: bool,
}

/// How far a contender is, beside its machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// It is about to enter the turnstile.
    #[default]
    Idle,
    /// It waits in the turnstile, or is admitted by its machine.
    Waiting,
    /// It has a valid guard.
    Held,
    /// Its guard is lost, and its permit may be there.
    Lapsed,
    /// It has gone, or has its answer.
    Done,
}

/// What the machine has asked for last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Pending {
    #[default]
    Nothing,
    Look,
    Watch(Seen),
    Wait,
    /// It waits for a watch that is lost, because it is broken.
    Deaf,
    Delay,
    Attempt(Kind),
    Settle,
    Leave,
}

/// Why a contender must delay. Only mutants make a difference between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Reasons {
    pub(crate) turnstile: bool,
    pub(crate) room: bool,
    pub(crate) attempt: bool,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let contenders = vec![Contender::default(); setup.wishes.len()];
        let tree =
            Tree::new([Some(Data::Nothing), Some(Data::Stock(setup.stock))], [Numbered::Children(TURNSTILE)]);
        Self { ensemble: Ensemble::new(tree, contenders.len(), &setup.following), contenders }
    }

    pub(crate) fn tree(&self) -> &Tree<Data> {
        self.ensemble.tree()
    }

    /// The contender's own node in the turnstile.
    pub(crate) fn turnstile(&self, party: Party) -> Option<(Path, &Node<Data>)> {
        let own = self.contenders[party].own?;
        let path = Path::Child(TURNSTILE, own.place);
        self.tree().get(path).filter(|node| node.czxid == own.czxid).map(|node| (path, node))
    }

    pub(crate) fn standing(&self, party: Party) -> Standing {
        standing(self.turnstile(party).map(|(_, node)| node), self.contenders[party].own)
    }

    pub(crate) fn is_first(&self, party: Party) -> bool {
        let first = self.tree().children(TURNSTILE).first();
        first.is_some_and(|(place, _)| {
            self.turnstile(party).map(|it| it.0) == Some(Path::Child(TURNSTILE, *place))
        })
    }

    /// The permits that are there, with the acquisitions that they are of.
    pub(crate) fn permits(&self) -> impl Iterator<Item = (Path, Party, i64)> {
        self.tree().children(POOL).iter().filter_map(|(place, node)| match node.data {
            Data::Permit { id, .. } => Some((Path::Child(POOL, *place), node.owner?, id)),
            _ => None,
        })
    }

    /// The permit of the contender's last acquisition.
    pub(crate) fn permit(&self, party: Party) -> Option<Path> {
        let own = self.contenders[party].own?;
        self.permits().find(|(_, owner, id)| (*owner, *id) == (party, own.czxid)).map(|(path, ..)| path)
    }

    /// How much the pool has.
    pub(crate) fn stock(&self) -> Stock {
        stock(self.tree().get(Path::Directory(POOL))).expect("the pool is there")
    }

    /// Whether more is held than there is, or a slot twice.
    pub(crate) fn is_exceeded(&self) -> bool {
        let kinds = || self.tree().children(POOL).iter().map(|(place, _)| place.kind);
        match self.stock() {
            Stock::Permits(capacity) => {
                let weight = |kind| if let Kind::Permit(weight) = kind { weight } else { 0 };
                kinds().map(weight).sum::<u32>() > capacity
            }
            Stock::Slots(count) => {
                let distinct =
                    kinds().enumerate().all(|(index, kind)| !kinds().take(index).any(|it| it == kind));
                kinds().count() > count as usize || !distinct
            }
        }
    }

    pub(crate) fn leave_turnstile(&mut self, party: Party) {
        let nodes = self.tree().children(TURNSTILE).iter().filter(|(_, node)| node.owner == Some(party));
        let nodes = nodes.map(|(place, _)| Path::Child(TURNSTILE, *place)).collect::<Vec<_>>();
        self.ensemble.delete(nodes);
    }

    /// A permit is gone, and nobody knows what its holder still has under way.
    pub(crate) fn vanish(&mut self, setup: &Setup) {
        for contender in &mut self.contenders {
            let owes = setup.takeover == Takeover::Delayed && contender.waited;
            contender.owes |= owes;
            contender.owes_since_its_look |= owes;
        }
    }
}

/// How a server shows our node.
pub(crate) fn standing(found: Option<&Node<Data>>, own: Option<Own>) -> Standing {
    match found.filter(|node| own.is_some_and(|own| own.czxid == node.czxid)) {
        Some(node) if node.version > 0 => Standing::Touched,
        Some(_) => Standing::Held,
        None => Standing::Gone,
    }
}

pub(crate) fn stock(pool: Option<&Node<Data>>) -> Option<Stock> {
    if let Data::Stock(stock) = pool?.data { Some(stock) } else { None }
}

/// What a look shows.
pub(crate) fn seen(pool: &Node<Data>, children: &[(Place, Node<Data>)], connection: u64) -> Seen {
    Seen {
        data: Vec::new(),
        stock: stock(Some(pool)),
        version: pool.version,
        czxid: pool.czxid,
        children: children.iter().map(|(place, _)| place.name()).collect(),
        connection,
    }
}
