//! The steps: which are possible, and what each does.

use stateright::Property;

use zklock_recipe::Left;

use super::contest::{Contest, properties};
use super::world::{
    Background, Doing, Fate, Fault, Mutant, Node, Owner, Party, Process, Setup, Standing, Witness, World,
};
use crate::world::act::{Act, act, possible};
use crate::world::exploration::{self, State};

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
    type Step = Act<Self>;
    type Fault = Fault;
    type Mutant = Mutant;
    type Witness = Witness;

    fn first(&self) -> State<Self> {
        State::<Self>::new(World::new(self), &self.faults)
    }

    fn steps(&self, world: &State<Self>, steps: &mut Vec<Act<Self>>) {
        for party in 0..world.tasks.len() {
            world.steps_of_task(party, steps);
        }
        for process in 0..world.locals.len() {
            world.steps_of_process(process, self, steps);
        }
        let first = world.queue.first();
        let leaves = world.queue.iter().any(|node| matches!(node, Node::Leaving(_)));
        let is_there = world.node(Owner::Remote).is_some() || world.queue.contains(&Node::HeldRemotely);
        let acts = [
            (leaves, act!(delete)),
            (world.remote > 0 && !is_there, act!(enter_remotely).voluntary(true)),
            (matches!(first, Some(Node::Waiting(Owner::Remote, _))), act!(hold_remotely)),
            (first == Some(&Node::HeldRemotely), act!(leave_remotely)),
        ];
        steps.extend(possible(0, acts));
        let evicted =
            |(_, node): &(usize, &Node)| matches!(node, Node::Waiting(Owner::Local(_), _) | Node::Held(..));
        let places = world.queue.iter().enumerate().filter(evicted);
        steps.extend(places.map(|(place, _)| act!(evict).due_to(Fault::Deletion).of(place)));
    }

    fn mutated(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    fn properties(&self) -> Vec<Property<Contest>> {
        properties()
    }
}

impl State<Setup> {
    fn steps_of_task(&self, party: Party, steps: &mut Vec<Act<Setup>>) {
        let (task, refused) = (&self.tasks[party], self.may(Fault::Refusal));
        let place = self.place(party);
        let offer = self.locals[task.process].offer.filter(|offer| offer.to == party);
        let comes_later = self.is_late_for_ever(party) && offer.is_some_and(|offer| offer.looks < 2);
        let woken = place.is_some_and(|place| place.woken);
        // One that is passed over, or has failed, stands in nobody's way.
        let may_be_absent = place.is_some_and(|place| {
            !self.is_late_for_ever(party) && (self.may(Fault::Absence) || place.standing != Standing::Present)
        });
        let in_vain = place.is_some() && offer.is_some() && refused;
        let comes = matches!(task.doing, Doing::Away if task.comings > 0);
        let gives_up = place.is_some() || task.doing == Doing::Trying;
        let passes = matches!(task.doing, Doing::Passing { .. });
        let acts = [
            (comes, act!(arrive).voluntary(true)),
            (comes, act!(begin_try).due_to(Fault::Try)),
            (woken && !comes_later, act!(poll).voluntary(may_be_absent)),
            (matches!(task.doing, Doing::Took(..)), act!(check)),
            (matches!(task.doing, Doing::Holding(_)), act!(let_go)),
            (passes, act!(pass(Allowed::Yes))),
            (passes, act!(pass(Allowed::No)).due_to(Fault::Refusal)),
            (matches!(task.doing, Doing::Lingering(_)), act!(end_turn)),
            (task.doing == Doing::Trying, act!(end_try).voluntary(true)),
            (gives_up, act!(give_up(Left::Half, Allowed::Yes)).due_to(Fault::Departure)),
            (in_vain, act!(give_up(Left::Half, Allowed::No)).due_to(Fault::Departure)),
            (in_vain, act!(give_up(Left::Nothing, Allowed::Yes)).due_to(Fault::Departure)),
        ];
        steps.extend(possible(party, acts));
    }

    fn steps_of_process(&self, process: Process, setup: &Setup, steps: &mut Vec<Act<Setup>>) {
        let (local, node) = (&self.locals[process], self.node(Owner::Local(process)));
        let acquires = local.background == Background::Acquiring;
        let is_over = matches!(local.background, Background::Watching(hold) if hold.fate != Fate::Valid);
        let may_lapse = local.background != Background::None;
        let acts = [
            (acquires && node.is_none(), act!(enter_locally)),
            (acquires && node == Some(0) && !local.lapsed, act!(grant)),
            (acquires && local.nudged, act!(retire)),
            (acquires, act!(fail).due_to(Fault::Failure)),
            (is_over, act!(over)),
            (local.lapsed, act!(renew)),
            (local.lapsed, act!(expire)),
            (!local.lapsed && may_lapse, act!(lapse).due_to(Fault::Lapse)),
        ];
        steps.extend(possible(process, acts));
        let watches = matches!(local.background, Background::Watching(_));
        if watches && local.stage.offered().is_some() && setup.mutant != Some(Mutant::NeverLooks) {
            self.looks(process, steps);
        }
    }

    /// Time goes on. Before half of it is over, a task that is late for ever takes the hold that opens with it.
    fn looks(&self, process: Process, steps: &mut Vec<Act<Setup>>) {
        let Some(offer) = self.locals[process].offer else {
            return steps.push(act!(look(Left::Half, Allowed::Yes)).of(process));
        };
        let comes = self.is_late_for_ever(offer.to);
        let refused = self.may(Fault::Refusal);
        let absent = self.place(offer.to).is_some_and(|place| place.standing == Standing::Absent);
        if !comes && !absent && !self.may(Fault::Absence) {
            return;
        }
        // Sooner or later no time is left.
        let may_last = offer.looks < 2 || comes;
        let acts = [
            (true, act!(look(Left::Half, Allowed::Yes))),
            (!(comes && offer.opens), act!(look(Left::LessThanHalf, Allowed::Yes))),
            (refused, act!(look(Left::Half, Allowed::No)).voluntary(true)),
            (
                refused || !comes && offer.looks > 1,
                act!(look(Left::Nothing, Allowed::Yes)).voluntary(may_last),
            ),
        ];
        steps.extend(possible(process, acts));
    }
}

impl Run<'_> {
    /// A turn ends after the hold was passed on.
    fn end_turn(&mut self, party: Party) {
        self.world.tasks[party].doing = Doing::Away;
    }

    fn enter_locally(&mut self, process: Process) {
        self.enter(Owner::Local(process));
    }

    /// ZooKeeper deletes the first node that is leaving.
    fn delete(&mut self, _: usize) {
        let place = self.world.queue.iter().position(|node| matches!(node, Node::Leaving(_)));
        place.map(|place| self.world.queue.remove(place));
    }

    fn lapse(&mut self, process: Process) {
        self.world.locals[process].lapsed = true;
        self.lose(process);
    }

    fn renew(&mut self, process: Process) {
        self.world.locals[process].lapsed = false;
    }

    /// An operator deletes the node in this place.
    fn evict(&mut self, place: usize) {
        if let Node::Held(process, hold) = self.world.queue.remove(place)
            && self.world.is_valid(process, hold)
        {
            self.lose(process);
        }
    }

    fn enter_remotely(&mut self, _: usize) {
        self.world.remote -= 1;
        self.enter(Owner::Remote);
    }

    fn hold_remotely(&mut self, place: usize) {
        self.world.queue[place] = Node::HeldRemotely;
        self.begin_turn();
    }

    fn leave_remotely(&mut self, place: usize) {
        self.world.queue.remove(place);
    }

    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.setup.mutant == Some(mutant)
    }
}
