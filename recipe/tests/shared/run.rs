//! The steps: which are possible, and what each does.

use stateright::Property;
use zklock_recipe::transaction::Operation;

use super::contender::{Caller, Pending};
use super::contest::{Contest, breach, properties};
use super::foreigner::Stage;
use super::queue::{QUEUE, World};
use super::setup::{Fault, Mutant, Party, Setup, Witness};
use crate::world::act::{Act, act, possible};
use crate::world::exploration::{self, State};
use crate::world::tree::{Named, Path, deletion};

/// One step under way.
pub(crate) type Run<'a> = exploration::Run<'a, Setup>;

impl exploration::Setup for Setup {
    type World = World;
    type Step = Act<Self>;
    type Fault = Fault;
    type Mutant = Mutant;
    type Witness = Witness;

    fn first(&self) -> State<Self> {
        State::<Self>::new(World::new(self), &self.faults)
    }

    fn steps(&self, world: &State<Self>, steps: &mut Vec<Act<Self>>) {
        for (party, contender) in world.contenders.iter().enumerate() {
            let (caller, asks) = (contender.caller, contender.asks());
            let removes = matches!(contender.pending, Pending::Release(..) | Pending::Delete(..));
            let watches = matches!(contender.pending, Pending::Watching(_));
            let delays = matches!(contender.pending, Pending::Delay(_));
            let delayed = matches!(&contender.pending, Pending::Delay(awaited) if awaited.is_empty());
            let lives = caller != Caller::Idle && !contender.is_ended();
            let acts = [
                (caller == Caller::Idle, act!(begin).voluntary(true)),
                (asks, act!(answer)),
                (contender.shown.is_some(), act!(notice)),
                (delayed, act!(delayed)),
                (caller == Caller::Holding, act!(release).voluntary(true)),
                (caller == Caller::Waiting, act!(give_up).due_to(Fault::Departure)),
                (asks || watches, act!(break_connection(false)).due_to(Fault::Break)),
                (removes, act!(break_connection(true)).due_to(Fault::Break)),
                (watches, act!(evict).due_to(Fault::Eviction)),
                (watches || delays, act!(revoke).due_to(Fault::Revocation)),
                (lives, act!(expire).due_to(Fault::Expiry)),
            ];
            steps.extend(possible(party, acts));
        }
        for (foreigner, stage) in world.foreigners.iter().enumerate() {
            let is_queued = matches!(stage, Stage::Looking | Stage::Waiting | Stage::Holding);
            let acts = [
                (*stage == Stage::Idle, act!(come).voluntary(true)),
                (*stage == Stage::Looking, act!(look)),
                (*stage == Stage::Holding, act!(leave).voluntary(true)),
                (is_queued, act!(vanish).due_to(Fault::Vanishing)),
                (*stage == Stage::Believing, act!(learn)),
            ];
            steps.extend(possible(foreigner, acts));
        }
        // Only a container that has had a child is removed.
        let is_empty =
            |directory: zklock_recipe::Directory| directory.children == 0 && directory.cversion > 0;
        let reapable = world.directory().is_some_and(is_empty);
        steps.extend(reapable.then_some(act!(reap).due_to(Fault::Reap).of(QUEUE)));
    }

    fn settle(run: &mut Run<'_>) {
        let World { contenders, foreigners, .. } = &mut *run.world;
        for contender in contenders {
            if let Pending::Delay(awaited) = &mut contender.pending {
                let before = awaited.len();
                awaited.retain(|it| foreigners[*it] == Stage::Believing);
                if awaited.len() < before {
                    (run.witness)(Witness::DelayOutlasted);
                }
            }
        }
        breach(run.world).into_iter().for_each(|rule| run.breach(rule));
    }

    fn mutated(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    fn properties(&self) -> Vec<Property<Contest>> {
        properties()
    }
}

impl Run<'_> {
    /// A server carries its next request out, and it hears the answer.
    fn answer(&mut self, party: Party) {
        let heard = self.serve(party);
        heard.into_iter().for_each(|input| self.feed(party, input));
    }

    fn evict(&mut self, party: Party) {
        let paths = self.world.tree().of(party);
        self.world.commit(Party::MAX, &deletion(paths));
    }

    /// Somebody writes to its node.
    fn revoke(&mut self, party: Party) {
        let paths = self.world.tree().of(party);
        let writes = paths.into_iter().map(|path| Operation::Set(Named::of(path), None));
        self.world.commit(Party::MAX, &writes.collect::<Vec<_>>());
    }

    fn reap(&mut self, queue: usize) {
        let removal = Operation::Delete(Named::of(Path::Directory(queue)), None);
        self.world.commit(Party::MAX, &[removal]);
    }
}
