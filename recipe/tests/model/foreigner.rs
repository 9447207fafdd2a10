//! Who is in the first queue's directory besides ours: somebody who asks for the lock, a stranger that forges a release, and
//! contenders of another client.
//!
//! An asker's node comes and goes at any time, and so does a forger's. Contenders of another client honour our nodes: each it waits until no lower node is there, whosever it is, holds the
//! lock without a lease, and releases it by a plain deletion.
//!
//! All that it does takes effect on the server at once. So it holds from the first instant in which it could have seen
//! that nobody is lower, until its node is gone: longer than any real one. A look that shows somebody lower, and the watch
//! that follows, change nothing for others and are no steps.

use zklock_recipe::transaction::Operation;
use zklock_recipe::{Kind, nodes};

use super::contest::valid_guards;
use super::exploration::Run;
use super::findings::Witness;
use super::nodes::{Data, Make, Party};
use super::queues::World;
use super::step::Step;
use super::tree::{Name, Named, Node, Path};

/// They contend in the first queue.
const QUEUE: usize = 0;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Foreigner {
    pub(crate) make: Make,
    pub(crate) stay: Stay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stay {
    /// Has not begun.
    Idle,
    Waiting,
    Holding,
    Gone,
}

impl Foreigner {
    /// Whether it need never leave.
    pub(crate) fn may_stay(&self) -> bool {
        self.contends() && self.stay != Stay::Holding
    }

    /// Whether it is a contender of another client, which honours our nodes.
    fn contends(&self) -> bool {
        matches!(self.make, Make::Foreign | Make::Lookalike)
    }

    pub(crate) fn new(make: Make) -> Self {
        Self { make, stay: Stay::Idle }
    }
}

impl World {
    pub(crate) fn foreigner_steps(&self, steps: &mut Vec<Step>) {
        for (index, foreigner) in self.foreigners.iter().enumerate() {
            match foreigner.stay {
                Stay::Idle if self.leader.tree.directories[QUEUE].is_some() => {
                    steps.push(Step::ForeignerEnters(index))
                }
                Stay::Waiting => {
                    steps.push(Step::ForeignerLeaves(index));
                    let is_first = |(_, first): &(_, Node)| first.data.creator == self.foreign(index);
                    let first = self.leader.tree.children(QUEUE).first();
                    if foreigner.contends() && first.is_some_and(is_first) {
                        steps.push(Step::ForeignerHolds(index));
                    }
                }
                Stay::Holding => steps.push(Step::ForeignerLeaves(index)),
                Stay::Idle | Stay::Gone => {}
            }
        }
    }

    fn foreign(&self, index: usize) -> Party {
        self.contenders.len() + index
    }
}

impl Run<'_> {
    pub(crate) fn foreigner_enters(&mut self, index: usize) {
        let (party, make) = (self.world.foreign(index), self.world.foreigners[index].make);
        let name = Name::Next(QUEUE, Kind::Exclusive);
        let create =
            Operation::Create(Named { name, data: Data { creator: party, make, ..Data::default() } });
        let _ = self.commit(party + self.world.sessions.len(), vec![create]);
        self.world.foreigners[index].stay = Stay::Waiting;
    }

    pub(crate) fn foreigner_holds(&mut self, index: usize) {
        self.note(Witness::ForeignerHeldNext, self.world.tokens[QUEUE].any > 0);
        self.world.foreigners[index].stay = Stay::Holding;
    }

    pub(crate) fn foreigner_leaves(&mut self, index: usize) {
        let node = self.world.leader.tree.node_of(QUEUE, self.world.foreign(index));
        let path = node.map(|own| Path::Child(QUEUE, own.place));
        match self.world.foreigners[index].make {
            Make::Forger => {
                self.note(Witness::ReleaseForged, valid_guards(self.world) > 0);
                let forged = nodes::release(path);
                let _ = self
                    .commit(index, forged.into_iter().map(|operation| operation.map(Named::of)).collect());
            }
            _ => self.delete(path),
        }
        self.world.foreigners[index].stay = Stay::Gone;
    }
}
