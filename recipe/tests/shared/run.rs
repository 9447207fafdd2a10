//! The steps: which are possible, and what each does.

use stateright::Property;
use zklock_recipe::transaction::Operation;

use super::contender::{Caller, Pending};
use super::contest::{Contest, breach, properties};
use super::foreigner::Stage;
use super::queue::{QUEUE, World};
use super::setup::{Fault, Mutant, Party, Setup, Witness};
use crate::world::exploration::{self, State, possible};
use crate::world::tree::{Named, Path, deletion};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Begin(Party),
    /// A server carries its next request out, and it hears the answer.
    Serve(Party),
    /// It hears how its predecessor's node went.
    Notice(Party),
    Delayed(Party),
    Release(Party),
    GiveUp(Party),
    Break {
        party: Party,
        served: bool,
    },
    Expire(Party),
    Evict(Party),
    /// Somebody writes to its node.
    Revoke(Party),
    Reap,
    /// A contender of the other client makes its node.
    Come(usize),
    /// It lists.
    Look(usize),
    Leave(usize),
    /// Its session expires.
    Vanish(usize),
    /// It learns that its session has expired.
    Learn(usize),
}

/// One step under way.
pub(crate) type Run<'a> = exploration::Run<'a, Setup>;

impl exploration::Setup for Setup {
    type World = World;
    type Step = Step;
    type Fault = Fault;
    type Mutant = Mutant;
    type Witness = Witness;

    fn first(&self) -> State<Self> {
        State::<Self>::new(World::new(self), &self.faults)
    }

    fn steps(&self, world: &State<Self>, steps: &mut Vec<Step>) {
        for (party, contender) in world.contenders.iter().enumerate() {
            let (caller, asks) = (contender.caller, contender.asks());
            let removes = matches!(contender.pending, Pending::Release(..) | Pending::Delete(..));
            let watches = matches!(contender.pending, Pending::Watching(_));
            let delayed = matches!(&contender.pending, Pending::Delay(awaited) if awaited.is_empty());
            steps.extend(possible([
                (caller == Caller::Idle, Step::Begin(party)),
                (asks, Step::Serve(party)),
                (contender.shown.is_some(), Step::Notice(party)),
                (delayed, Step::Delayed(party)),
                (caller == Caller::Holding, Step::Release(party)),
                (caller == Caller::Waiting, Step::GiveUp(party)),
                (asks || watches, Step::Break { party, served: false }),
                (removes, Step::Break { party, served: true }),
                (watches, Step::Evict(party)),
                (watches || matches!(contender.pending, Pending::Delay(_)), Step::Revoke(party)),
                (caller != Caller::Idle && !contender.is_ended(), Step::Expire(party)),
            ]));
        }
        for (foreigner, stage) in world.foreigners.iter().enumerate() {
            let is_queued = matches!(stage, Stage::Looking | Stage::Waiting | Stage::Holding);
            steps.extend(possible([
                (*stage == Stage::Idle, Step::Come(foreigner)),
                (*stage == Stage::Looking, Step::Look(foreigner)),
                (*stage == Stage::Holding, Step::Leave(foreigner)),
                (is_queued, Step::Vanish(foreigner)),
                (*stage == Stage::Believing, Step::Learn(foreigner)),
            ]));
        }
        // Only a container that has had a child is removed.
        let is_empty =
            |directory: zklock_recipe::Directory| directory.children == 0 && directory.cversion > 0;
        steps.extend(world.directory().is_some_and(is_empty).then_some(Step::Reap));
    }

    fn fault(_: &State<Self>, step: Step) -> Option<Fault> {
        Some(match step {
            Step::GiveUp(_) => Fault::Departure,
            Step::Break { .. } => Fault::Break,
            Step::Expire(_) => Fault::Expiry,
            Step::Evict(_) => Fault::Eviction,
            Step::Revoke(_) => Fault::Revocation,
            Step::Reap => Fault::Reap,
            Step::Vanish(_) => Fault::Vanishing,
            _ => return None,
        })
    }

    fn is_voluntary(_: &State<Self>, step: Step) -> bool {
        matches!(step, Step::Begin(_) | Step::Release(_) | Step::Come(_) | Step::Leave(_))
    }

    fn take(run: &mut Run<'_>, step: Step) {
        run.take(step);
        run.settle();
    }

    fn mutated(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    fn properties(&self) -> Vec<Property<Contest>> {
        properties()
    }
}

impl Run<'_> {
    fn take(&mut self, step: Step) {
        match step {
            Step::Begin(party) => self.begin(party),
            Step::Serve(party) => {
                let heard = self.serve(party);
                heard.into_iter().for_each(|input| self.feed(party, input));
            }
            Step::Notice(party) => self.notice(party),
            Step::Delayed(party) => self.delayed(party),
            Step::Release(party) => self.release(party),
            Step::GiveUp(party) => self.give_up(party),
            Step::Break { party, served } => self.break_connection(party, served),
            Step::Expire(party) => self.expire(party),
            Step::Evict(party) => {
                let paths = self.world.tree().of(party);
                self.world.commit(Party::MAX, &deletion(paths));
            }
            Step::Revoke(party) => {
                let paths = self.world.tree().of(party);
                let writes = paths.into_iter().map(|path| Operation::Set(Named::of(path), None));
                self.world.commit(Party::MAX, &writes.collect::<Vec<_>>());
            }
            Step::Reap => {
                let removal = Operation::Delete(Named::of(Path::Directory(QUEUE)), None);
                self.world.commit(Party::MAX, &[removal]);
            }
            Step::Come(foreigner) => self.come(foreigner),
            Step::Look(foreigner) => self.look(foreigner),
            Step::Leave(foreigner) => self.leave(foreigner),
            Step::Vanish(foreigner) => self.vanish(foreigner),
            Step::Learn(foreigner) => self.learn(foreigner),
        }
    }

    fn settle(&mut self) {
        let World { contenders, foreigners, .. } = &mut *self.world;
        for contender in contenders {
            if let Pending::Delay(awaited) = &mut contender.pending {
                let before = awaited.len();
                awaited.retain(|it| foreigners[*it] == Stage::Believing);
                if awaited.len() < before {
                    (self.witness)(Witness::DelayOutlasted);
                }
            }
        }
        breach(self.world).into_iter().for_each(|rule| self.breach(rule));
    }
}
