//! One run: the queue of its lock, its record, and the processes that claim it.

use std::convert::Infallible;

use zklock_recipe::Own;
use zklock_recipe::claim::{self, Progress, Record, RunEnd};
use zklock_recipe::nodes::confirmation;
use zklock_recipe::transaction::{Operation, UNTOUCHED};

use super::claimer::Claimer;
use super::setup::{Party, Setup, Token};
use crate::world::ensemble::Ensemble;
use crate::world::tree::{Name, Named, Node, Numbered, Path, Transaction, Tree};

/// The directories.
pub(crate) const LOCK: usize = 0;
pub(crate) const RECORDS: usize = 1;
pub(crate) const RECORD: usize = 2;

/// Stands in what an operator writes.
const OPERATOR: Token = 0;

/// What nodes have for data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Data {
    #[default]
    Nothing,
    Record {
        progress: Progress,
        token: Token,
        attempt: u8,
    },
}

impl Data {
    fn encode(self) -> Vec<u8> {
        let Self::Record { progress, token, attempt } = self else { return Vec::new() };
        let progress = match progress {
            Progress::Begun => 0,
            Progress::Ended(RunEnd::Succeeded) => 1,
            Progress::Ended(RunEnd::Failed) => 2,
        };
        vec![progress, token as u8, attempt]
    }

    pub(crate) fn decode(data: &[u8]) -> Self {
        let ends = [Progress::Ended(RunEnd::Succeeded), Progress::Ended(RunEnd::Failed)];
        let progress = [Progress::Begun, ends[0], ends[1]][usize::from(data[0])];
        Self::Record { progress, token: data[1].into(), attempt: data[2] }
    }
}

/// What a look shows.
pub(crate) fn record(node: &Node<Data>) -> Option<Record> {
    let Data::Record { progress, token, attempt } = node.data else { return None };
    Some(Record { progress, token, attempt: attempt.into(), version: node.version, data: node.data.encode() })
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) ensemble: Ensemble<Data>,
    pub(crate) claimers: Vec<Claimer>,
    /// The tokens under which it was done.
    pub(crate) ran: Vec<Token>,
    /// The tokens of guards that were lost, so that their begins may stay.
    pub(crate) excused: Vec<Token>,
    /// Whether a run has succeeded.
    pub(crate) succeeded: bool,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let tree = Tree::new([Some(Data::Nothing), Some(Data::Nothing), None], [Numbered::Children(LOCK)]);
        Self {
            ensemble: Ensemble::new(tree, setup.retries.len(), &[]),
            claimers: vec![Claimer { claims: setup.claims, ..Claimer::default() }; setup.retries.len()],
            ran: Vec::new(),
            excused: Vec::new(),
            succeeded: false,
        }
    }

    fn tree(&self) -> &Tree<Data> {
        self.ensemble.tree()
    }

    /// The run's record.
    pub(crate) fn record(&self) -> Option<Record> {
        self.tree().get(Path::Directory(RECORD)).and_then(record)
    }

    /// Whether a run began under this token, or a guard with it was lost.
    pub(crate) fn knows(&self, token: Token) -> bool {
        self.ran.contains(&token) || self.excused.contains(&token)
    }

    pub(crate) fn is_queued(&self, party: Party) -> bool {
        self.tree().children(LOCK).iter().any(|(_, node)| node.owner == Some(party))
    }

    /// Whether the process's guard has its node.
    pub(crate) fn holds(&self, party: Party) -> bool {
        let own = self.claimers[party].own;
        let first = self.tree().children(LOCK).first();
        first.is_some_and(|(place, node)| own == Some(Own { place: *place, czxid: node.czxid }))
    }

    pub(crate) fn leave(&mut self, party: Party) {
        let nodes = self.tree().of(party);
        self.ensemble.delete(nodes);
        // The leader refuses what needs the node.
        self.ensemble.links[party].strays.clear();
    }

    /// An operator writes to the record: the same again, or that the run has succeeded.
    pub(crate) fn meddle(&mut self, end: Option<RunEnd>) {
        let Some(Node { data: Data::Record { progress, token, attempt }, .. }) =
            self.tree().get(Path::Directory(RECORD)).cloned()
        else {
            return;
        };
        let data = match end {
            Some(end) => Data::Record { progress: Progress::Ended(end), token: OPERATOR, attempt },
            None => Data::Record { progress, token, attempt },
        };
        self.succeeded |= end == Some(RunEnd::Succeeded);
        self.ensemble.write(Path::Directory(RECORD), data);
    }
}

/// A transaction of the holder of this node, which writes these data.
pub(crate) fn guarded(
    own: Own,
    operations: impl IntoIterator<Item = Operation<claim::Target<Infallible>>>,
    data: Data,
) -> Transaction<Data> {
    let name = |target| match target {
        claim::Target::Records => Named::of(Path::Directory(RECORDS)),
        claim::Target::Record => Named { name: Name::At(Path::Directory(RECORD)), data },
        claim::Target::Dropped(nobody) => match nobody {},
    };
    confirmation([Named::of(Path::Child(LOCK, own.place))], Some(UNTOUCHED))
        .chain(operations.into_iter().map(|operation| operation.map(name)))
        .collect()
}
