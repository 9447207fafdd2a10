//! One office: the queue of its candidates, its announcement, and an observer.

use zklock_recipe::Stamp;

use super::candidate::Candidate;
use super::onlooker::Onlooker;
use super::setup::{Fault, Party, Setup};
use crate::world::ensemble::Ensemble;
use crate::world::tree::{Node, Numbered, Path, Tree};

/// The directories.
pub(crate) const LOCK: usize = 0;
pub(crate) const ANNOUNCEMENT: usize = 1;

/// A token, and the value that was announced with it.
pub(crate) type Told = (i64, u8);

/// What nodes have for data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Data {
    #[default]
    Nothing,
    Announced(Told),
    /// Of a deletion: the one that made it has read the announcement that was made by this transaction.
    Read(i64),
}

/// An announcement, or what stands in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Announcement {
    pub(crate) told: Told,
    pub(crate) zxid: i64,
    pub(crate) version: i32,
    /// Who made it; `None` if that was an operator.
    pub(crate) maker: Option<Party>,
}

impl Announcement {
    pub(crate) fn of(node: &Node<Data>) -> Option<Self> {
        let Data::Announced(told) = node.data else { return None };
        Some(Self { told, zxid: node.czxid, version: node.version, maker: node.owner })
    }

    /// What an observer is to take it for.
    pub(crate) fn read(self) -> Option<(Option<Stamp>, Told)> {
        (self.version == 0 && self.maker.is_some()).then_some(self.taken())
    }

    pub(crate) fn taken(self) -> (Option<Stamp>, Told) {
        (Some(Stamp { token: self.told.0, zxid: self.zxid }), self.told)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) ensemble: Ensemble<Data>,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) onlooker: Option<Onlooker>,
    /// What leaders have announced.
    pub(crate) announced: Vec<Told>,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let onlooker = setup.candidates;
        let following = if setup.observed { vec![onlooker] } else { Vec::new() };
        let tree =
            Tree::new([Some(Data::Nothing), None], [Numbered::Children(LOCK), Numbered::Node(ANNOUNCEMENT)]);
        // A rewind goes back from one leader's announcement to the one before.
        let keeps = if setup.faults.contains(&Fault::Rewind) { 2 } else { 0 };
        let ensemble = Ensemble::new(tree, onlooker + 1, &following).showing(&[ANNOUNCEMENT], keeps);
        let mut world = Self {
            ensemble,
            candidates: vec![Candidate::default(); setup.candidates],
            onlooker: None,
            announced: Vec::new(),
        };
        if setup.observed {
            world.onlooker = Some(Onlooker::new(onlooker, setup.mutant, &mut world.ensemble));
        }
        world
    }

    fn tree(&self) -> &Tree<Data> {
        self.ensemble.tree()
    }

    pub(crate) fn announcement(&self) -> Option<Announcement> {
        self.tree().get(Path::Directory(ANNOUNCEMENT)).and_then(Announcement::of)
    }

    /// The candidate's node.
    pub(crate) fn node(&self, party: Party) -> Option<Path> {
        let owned = |(_, node): &&(_, Node<Data>)| node.owner == Some(party);
        self.tree().children(LOCK).iter().find(owned).map(|(place, _)| Path::Child(LOCK, *place))
    }

    pub(crate) fn is_first(&self, party: Party) -> bool {
        self.tree().children(LOCK).first().is_some_and(|(_, node)| node.owner == Some(party))
    }

    /// Whether the candidate's node is there as the candidate has made it.
    pub(crate) fn is_held(&self, party: Party) -> bool {
        let node = self.node(party).and_then(|path| self.tree().get(path));
        node.is_some_and(|node| node.version == 0)
    }
}
