//! The steps: which are possible, and what each does.

use stateright::Property;

use zklock_recipe::Left;

use super::contest::{Contest, properties};
use super::world::{
    Background, Doing, Fate, Fault, Mutant, Node, Owner, Party, Process, Setup, Standing, Witness, World,
};
use crate::world::exploration::{self, State, possible};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Arrive(Party),
    Try(Party),
    /// A try comes to its end.
    Tried(Party),
    Poll(Party),
    /// A task checks what it took.
    Check(Party),
    GiveUp(Party, Left, Allowed),
    /// A turn ends.
    LetGo(Party),
    Pass(Party, Allowed),
    /// A turn ends after the hold was passed on.
    EndTurn(Party),
    Enter(Process),
    Grant(Process),
    Retire(Process),
    Fail(Process),
    Over(Process),
    Look(Process, Left, Allowed),
    /// ZooKeeper deletes the first node that is leaving.
    Delete,
    Lapse(Process),
    Renew(Process),
    Expire(Process),
    /// An operator deletes this node.
    Evict(usize),
    RemoteEnters,
    RemoteHolds,
    RemoteLeaves,
}

/// Whether time and the lease allow to pass a hold on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Allowed {
    Yes,
    No,
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
        for party in 0..world.tasks.len() {
            world.steps_of_task(party, steps);
        }
        for process in 0..world.locals.len() {
            world.steps_of_process(process, self, steps);
        }
        let first = world.queue.first();
        let leaves = world.queue.iter().any(|node| matches!(node, Node::Leaving(_)));
        let is_there = world.node(Owner::Remote).is_some() || world.queue.contains(&Node::HeldRemotely);
        steps.extend(possible([
            (leaves, Step::Delete),
            (world.remote > 0 && !is_there, Step::RemoteEnters),
            (matches!(first, Some(Node::Waiting(Owner::Remote, _))), Step::RemoteHolds),
            (first == Some(&Node::HeldRemotely), Step::RemoteLeaves),
        ]));
        let evicted =
            |(_, node): &(usize, &Node)| matches!(node, Node::Waiting(Owner::Local(_), _) | Node::Held(..));
        let places = world.queue.iter().enumerate().filter(evicted);
        steps.extend(places.map(|(place, _)| Step::Evict(place)));
    }

    fn fault(_: &State<Self>, step: Step) -> Option<Fault> {
        Some(match step {
            Step::Try(_) => Fault::Try,
            Step::GiveUp(..) => Fault::Departure,
            Step::Lapse(_) => Fault::Lapse,
            Step::Evict(_) => Fault::Deletion,
            Step::Fail(_) => Fault::Failure,
            Step::Pass(_, Allowed::No) => Fault::Refusal,
            _ => return None,
        })
    }

    fn is_voluntary(world: &State<Self>, step: Step) -> bool {
        match step {
            // One that is passed over, or has failed, stands in nobody's way.
            Step::Poll(party) => match world.tasks[party].doing {
                Doing::InLine(_) if world.is_late_for_ever(party) => false,
                Doing::InLine(place) => world.may(Fault::Absence) || place.standing != Standing::Present,
                _ => false,
            },
            // Sooner or later no time is left.
            Step::Look(process, Left::Nothing, _) => world.locals[process]
                .offer
                .is_some_and(|offer| offer.looks < 2 || world.is_late_for_ever(offer.to)),
            Step::Look(.., allowed) => allowed == Allowed::No,
            Step::Arrive(_) | Step::Tried(_) | Step::RemoteEnters => true,
            _ => false,
        }
    }

    fn take(run: &mut Run<'_>, step: Step) {
        run.take(step);
    }

    fn mutated(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    fn properties(&self) -> Vec<Property<Contest>> {
        properties()
    }
}

impl State<Setup> {
    fn steps_of_task(&self, party: Party, steps: &mut Vec<Step>) {
        let (task, refused) = (&self.tasks[party], self.may(Fault::Refusal));
        match task.doing {
            Doing::Away if task.comings > 0 => {
                steps.extend([Step::Arrive(party), Step::Try(party)]);
            }
            Doing::Away => {}
            Doing::InLine(place) => {
                let offer = self.locals[task.process].offer.filter(|offer| offer.to == party);
                let comes_later = self.is_late_for_ever(party) && offer.is_some_and(|offer| offer.looks < 2);
                let in_vain = offer.is_some() && refused;
                steps.extend(possible([
                    (place.woken && !comes_later, Step::Poll(party)),
                    (true, Step::GiveUp(party, Left::Half, Allowed::Yes)),
                    (in_vain, Step::GiveUp(party, Left::Half, Allowed::No)),
                    (in_vain, Step::GiveUp(party, Left::Nothing, Allowed::Yes)),
                ]));
            }
            Doing::Took(..) => steps.push(Step::Check(party)),
            Doing::Holding(_) => steps.push(Step::LetGo(party)),
            Doing::Passing { .. } => {
                steps.extend([Step::Pass(party, Allowed::Yes), Step::Pass(party, Allowed::No)]);
            }
            Doing::Lingering(_) => steps.push(Step::EndTurn(party)),
            Doing::Trying => {
                steps.extend([Step::Tried(party), Step::GiveUp(party, Left::Half, Allowed::Yes)]);
            }
        }
    }

    fn steps_of_process(&self, process: Process, setup: &Setup, steps: &mut Vec<Step>) {
        let (local, node) = (&self.locals[process], self.node(Owner::Local(process)));
        let acquires = local.background == Background::Acquiring;
        let is_over = matches!(local.background, Background::Watching(hold) if hold.fate != Fate::Valid);
        let may_lapse = local.background != Background::None;
        steps.extend(possible([
            (acquires && node.is_none(), Step::Enter(process)),
            (acquires && node == Some(0) && !local.lapsed, Step::Grant(process)),
            (acquires && local.nudged, Step::Retire(process)),
            (acquires, Step::Fail(process)),
            (is_over, Step::Over(process)),
            (local.lapsed, Step::Renew(process)),
            (local.lapsed, Step::Expire(process)),
            (!local.lapsed && may_lapse, Step::Lapse(process)),
        ]));
        let watches = matches!(local.background, Background::Watching(_));
        if watches && local.stage.offered().is_some() && setup.mutant != Some(Mutant::NeverLooks) {
            self.looks(process, steps);
        }
    }

    /// Time goes on. Before half of it is over, a task that is late for ever takes the hold that opens with it.
    fn looks(&self, process: Process, steps: &mut Vec<Step>) {
        let Some(offer) = self.locals[process].offer else {
            return steps.push(Step::Look(process, Left::Half, Allowed::Yes));
        };
        let comes = self.is_late_for_ever(offer.to);
        let refused = self.may(Fault::Refusal);
        let absent = self.place(offer.to).is_some_and(|place| place.standing == Standing::Absent);
        if !comes && !absent && !self.may(Fault::Absence) {
            return;
        }
        steps.extend(possible([
            (true, Step::Look(process, Left::Half, Allowed::Yes)),
            (!(comes && offer.opens), Step::Look(process, Left::LessThanHalf, Allowed::Yes)),
            (refused, Step::Look(process, Left::Half, Allowed::No)),
            (refused || !comes && offer.looks > 1, Step::Look(process, Left::Nothing, Allowed::Yes)),
        ]));
    }
}

impl Run<'_> {
    fn take(&mut self, step: Step) {
        match step {
            Step::Arrive(party) => self.arrive(party),
            Step::Try(party) => self.begin_try(party),
            Step::Tried(party) => self.end_try(party),
            Step::Poll(party) => self.poll(party),
            Step::Check(party) => self.check(party),
            Step::GiveUp(party, left, allowed) => self.give_up(party, left, allowed),
            Step::LetGo(party) => self.let_go(party),
            Step::Pass(party, allowed) => self.pass(party, allowed),
            Step::EndTurn(party) => self.world.tasks[party].doing = Doing::Away,
            Step::Enter(process) => self.enter(Owner::Local(process)),
            Step::Grant(process) => self.grant(process),
            Step::Retire(process) => self.retire(process),
            Step::Fail(process) => self.fail(process),
            Step::Over(process) => self.over(process),
            Step::Look(process, left, allowed) => self.look(process, left, allowed),
            Step::Delete => {
                let place = self.world.queue.iter().position(|node| matches!(node, Node::Leaving(_)));
                place.map(|place| self.world.queue.remove(place));
            }
            Step::Lapse(process) => {
                self.world.locals[process].lapsed = true;
                self.lose(process);
            }
            Step::Renew(process) => self.world.locals[process].lapsed = false,
            Step::Expire(process) => self.expire(process),
            Step::Evict(place) => {
                if let Node::Held(process, hold) = self.world.queue.remove(place)
                    && self.world.is_valid(process, hold)
                {
                    self.lose(process);
                }
            }
            Step::RemoteEnters => {
                self.world.remote -= 1;
                self.enter(Owner::Remote);
            }
            Step::RemoteHolds => {
                self.world.queue[0] = Node::HeldRemotely;
                self.begin_turn();
            }
            Step::RemoteLeaves => {
                self.world.queue.remove(0);
            }
        }
    }

    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.setup.mutant == Some(mutant)
    }
}
