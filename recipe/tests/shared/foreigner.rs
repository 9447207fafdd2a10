//! A contender of the other client: it makes its node, lists, and holds the lock if nobody that it counts has a lower number.
//! Otherwise it watches its predecessor's node, and lists again at any event.

use zklock_recipe::transaction::Operation;
use zklock_recipe::{Kind, Own};

use super::queue::QUEUE;
use super::run::Run;
use super::setup::{Mutant, Witness};
use crate::world::ensemble;
use crate::world::tree::{Name, Named, Path, deletion};

/// How far a contender of the other client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It has not come.
    Idle,
    /// It is about to list the queue.
    Looking,
    /// It watches its predecessor.
    Waiting,
    /// It holds the lock, and its node is there.
    Holding,
    /// Its node went with its session, and it goes on as if it held the lock.
    Believing,
    /// It is gone, and knows.
    Gone,
}

impl Run<'_> {
    fn stage(&mut self, foreigner: usize, stage: Stage) {
        self.world.foreigners[foreigner] = stage;
    }

    fn node(&self, foreigner: usize) -> Own {
        self.world.nodes(self.world.session(foreigner)).next().expect("it is in the queue")
    }

    /// It makes the directory if that is missing, and then its node.
    pub(crate) fn come(&mut self, foreigner: usize) {
        let session = self.world.session(foreigner);
        self.make_directory(session);
        let create = Named { name: Name::Next(QUEUE, Kind::Exclusive), data: () };
        self.world.commit(session, &[Operation::Create(create)]);
        self.stage(foreigner, Stage::Looking);
    }

    /// It lists, and watches its predecessor. If that goes between the two, it lists again. So it might as well do both at once.
    pub(crate) fn look(&mut self, foreigner: usize) {
        let passes = self.is(Mutant::PassesOursOver);
        let (session, place) = (self.world.session(foreigner), self.node(foreigner).place);
        let counts = |owner| !(passes && self.world.is_ours(owner));
        match self.world.predecessor(place, counts) {
            Some(predecessor) => {
                let path = Path::Child(QUEUE, predecessor);
                self.world.server.watch(session, path, ensemble::Kind::Data);
                self.stage(foreigner, Stage::Waiting);
            }
            None => {
                self.note(Witness::TheirsAfterOurs, self.world.last == Some(true));
                self.world.last = Some(false);
                self.stage(foreigner, Stage::Holding);
            }
        }
    }

    /// It deletes its node.
    pub(crate) fn leave(&mut self, foreigner: usize) {
        let path = Path::Child(QUEUE, self.node(foreigner).place);
        self.world.commit(self.world.session(foreigner), &deletion([path]));
        self.stage(foreigner, Stage::Gone);
    }

    /// Its session expires.
    pub(crate) fn vanish(&mut self, foreigner: usize) {
        let holds = self.world.foreigners[foreigner] == Stage::Holding;
        self.stage(foreigner, if holds { Stage::Believing } else { Stage::Gone });
        self.world.expire(self.world.session(foreigner));
    }

    pub(crate) fn learn(&mut self, foreigner: usize) {
        self.stage(foreigner, Stage::Gone);
    }

    pub(crate) fn make_directory(&mut self, session: usize) {
        let directory = Path::Directory(QUEUE);
        if self.world.tree().get(directory).is_none() {
            (self.witness)(Witness::DirectoryMadeAgain);
            self.world.commit(session, &[Operation::Create(Named::of(directory))]);
        }
    }
}
