//! A contender of the other client: it makes its node, lists, and holds the lock if nobody that it counts has a lower number.
//! Otherwise it watches its predecessor's node, and lists again at any event.

use zklock_recipe::transaction::Operation;
use zklock_recipe::{Kind, Place};

use super::queue::QUEUE;
use super::run::Run;
use super::setup::{Habit, Mutant, Witness};
use crate::world::ensemble;
use crate::world::tree::{Name, Named, Path, deletion};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Foreigner {
    pub(crate) habit: Habit,
    pub(crate) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It has not come.
    Idle,
    /// It is about to list the queue.
    Looking,
    /// It watches its predecessor.
    Waiting,
    /// It holds the lock, and its nodes are there.
    Holding,
    /// Its nodes went with its session, and it goes on as if it held the lock in this place.
    Believing(Place),
    /// It is gone, and knows.
    Gone,
}

impl Foreigner {
    pub(crate) fn new(habit: Habit) -> Self {
        Self { habit, stage: Stage::Idle }
    }

    fn kind(self) -> Kind {
        if self.habit == Habit::Shared { Kind::Shared } else { Kind::Exclusive }
    }
}

impl Run<'_> {
    fn stage(&mut self, foreigner: usize, stage: Stage) {
        self.world.foreigners[foreigner].stage = stage;
    }

    /// Its place in the queue: as a writer, as long as it has that node.
    fn place(&self, foreigner: usize) -> Place {
        let node = self.world.nodes(self.world.session(foreigner)).next();
        node.expect("it is in the queue").place
    }

    /// It makes the directory if that is missing, and then its node.
    pub(crate) fn come(&mut self, foreigner: usize) {
        let (session, kind) = (self.world.session(foreigner), self.world.foreigners[foreigner].kind());
        self.make_directory(session);
        let create = Named { name: Name::Next(QUEUE, kind), data: () };
        self.world.commit(session, &[Operation::Create(create)]);
        self.stage(foreigner, Stage::Looking);
    }

    /// It lists, and watches its predecessor. If that goes between the two, it lists again. So it might as well do both at once.
    pub(crate) fn look(&mut self, foreigner: usize) {
        let passes = self.is(Mutant::PassesOursOver);
        let (session, place) = (self.world.session(foreigner), self.place(foreigner));
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

    /// A writer makes a reader's node with its own number.
    pub(crate) fn share(&mut self, foreigner: usize) {
        self.make_reader(foreigner, self.place(foreigner));
    }

    /// As that, in the next session, of one that has not noticed that its node is gone.
    pub(crate) fn rejoin(&mut self, foreigner: usize) {
        let Stage::Believing(place) = self.world.foreigners[foreigner].stage else { return };
        self.make_directory(self.world.session(foreigner));
        self.make_reader(foreigner, place);
        self.stage(foreigner, Stage::Holding);
    }

    fn make_reader(&mut self, foreigner: usize, place: Place) {
        let reader = Place { kind: Kind::Shared, ..place };
        let name = Name::Ephemeral(Path::Child(QUEUE, reader));
        self.world.commit(self.world.session(foreigner), &[Operation::Create(Named { name, data: () })]);
    }

    /// It deletes its node: the writer's first.
    pub(crate) fn leave(&mut self, foreigner: usize) {
        let session = self.world.session(foreigner);
        let place = self.place(foreigner);
        self.world.commit(session, &deletion([Path::Child(QUEUE, place)]));
        if self.world.nodes(session).next().is_none() {
            self.stage(foreigner, Stage::Gone);
        }
    }

    /// Its session expires.
    pub(crate) fn vanish(&mut self, foreigner: usize) {
        let session = self.world.session(foreigner);
        let stage = match self.world.foreigners[foreigner].stage {
            Stage::Holding => Stage::Believing(self.place(foreigner)),
            _ => Stage::Gone,
        };
        self.stage(foreigner, stage);
        self.world.expire(session);
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
