//! The steps: which are possible, and what each does.

use zklock_recipe::Left;

use super::world::{
    Background, Doing, Fate, Mutant, Node, Owner, Party, Process, Setup, Standing, Witness, World,
};

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

impl Step {
    /// Whether the world goes on by itself without it.
    fn is_voluntary(self, world: &World) -> bool {
        match self {
            // One that is passed over, or has failed, stands in nobody's way.
            Self::Poll(party) => match world.tasks[party].doing {
                Doing::InLine(_) if world.is_late_for_ever(party) => false,
                Doing::InLine(place) => world.faults.absences > 0 || place.standing != Standing::Present,
                _ => false,
            },
            Self::Pass(_, allowed) => allowed == Allowed::No,
            // Sooner or later no time is left.
            Self::Look(process, Left::Nothing, _) => world.locals[process]
                .offer
                .is_some_and(|offer| offer.looks < 2 || world.is_late_for_ever(offer.to)),
            Self::Look(.., allowed) => allowed == Allowed::No,
            Self::Arrive(_)
            | Self::Try(_)
            | Self::Tried(_)
            | Self::GiveUp(..)
            | Self::Fail(_)
            | Self::Lapse(_)
            | Self::Evict(_)
            | Self::RemoteEnters => true,
            _ => false,
        }
    }
}

impl World {
    pub(crate) fn steps(&self, setup: &Setup, steps: &mut Vec<Step>) {
        for party in 0..self.tasks.len() {
            self.steps_of_task(party, steps);
        }
        for process in 0..self.locals.len() {
            self.steps_of_process(process, setup, steps);
        }
        if self.queue.iter().any(|node| matches!(node, Node::Leaving(_))) {
            steps.push(Step::Delete);
        }
        if self.faults.deletions > 0 {
            let evicted = |(_, node): &(usize, &Node)| {
                matches!(node, Node::Waiting(Owner::Local(_), _) | Node::Held(..))
            };
            let places = self.queue.iter().enumerate().filter(evicted);
            steps.extend(places.map(|(place, _)| Step::Evict(place)));
        }
        if self.remote > 0 && self.node(Owner::Remote).is_none() && !self.queue.contains(&Node::HeldRemotely)
        {
            steps.push(Step::RemoteEnters);
        }
        match self.queue.first() {
            Some(Node::Waiting(Owner::Remote, _)) => steps.push(Step::RemoteHolds),
            Some(Node::HeldRemotely) => steps.push(Step::RemoteLeaves),
            _ => {}
        }
    }

    fn steps_of_task(&self, party: Party, steps: &mut Vec<Step>) {
        let task = &self.tasks[party];
        match task.doing {
            Doing::Away if task.comings > 0 => {
                steps.push(Step::Arrive(party));
                if self.faults.tries > 0 {
                    steps.push(Step::Try(party));
                }
            }
            Doing::Away => {}
            Doing::InLine(place) => {
                let offer = self.locals[task.process].offer.filter(|offer| offer.to == party);
                let comes_later = self.is_late_for_ever(party) && offer.is_some_and(|offer| offer.looks < 2);
                if place.woken && !comes_later {
                    steps.push(Step::Poll(party));
                }
                if self.faults.departures > 0 {
                    steps.push(Step::GiveUp(party, Left::Half, Allowed::Yes));
                    if offer.is_some() && self.faults.refusals > 0 {
                        steps.push(Step::GiveUp(party, Left::Half, Allowed::No));
                        steps.push(Step::GiveUp(party, Left::Nothing, Allowed::Yes));
                    }
                }
            }
            Doing::Took(..) => steps.push(Step::Check(party)),
            Doing::Holding(_) => steps.push(Step::LetGo(party)),
            Doing::Passing { .. } => {
                steps.push(Step::Pass(party, Allowed::Yes));
                if self.faults.refusals > 0 {
                    steps.push(Step::Pass(party, Allowed::No));
                }
            }
            Doing::Lingering(_) => steps.push(Step::EndTurn(party)),
            Doing::Trying => {
                steps.push(Step::Tried(party));
                if self.faults.departures > 0 {
                    steps.push(Step::GiveUp(party, Left::Half, Allowed::Yes));
                }
            }
        }
    }

    fn steps_of_process(&self, process: Process, setup: &Setup, steps: &mut Vec<Step>) {
        let local = &self.locals[process];
        match local.background {
            Background::None => {}
            Background::Acquiring => {
                match self.node(Owner::Local(process)) {
                    None => steps.push(Step::Enter(process)),
                    Some(0) if !local.lapsed => steps.push(Step::Grant(process)),
                    Some(_) => {}
                }
                if local.nudged {
                    steps.push(Step::Retire(process));
                }
                if self.faults.failures > 0 {
                    steps.push(Step::Fail(process));
                }
            }
            Background::Watching(hold) => {
                if hold.fate != Fate::Valid {
                    steps.push(Step::Over(process));
                }
                if local.stage.offered().is_some() && setup.mutant != Some(Mutant::NeverLooks) {
                    self.looks(process, steps);
                }
            }
        }
        if local.lapsed {
            steps.extend([Step::Renew(process), Step::Expire(process)]);
        } else if self.faults.lapses > 0 && local.background != Background::None {
            steps.push(Step::Lapse(process));
        }
    }

    /// Time goes on. Before half of it is over, a task that is late for ever takes the hold that opens with it.
    fn looks(&self, process: Process, steps: &mut Vec<Step>) {
        let Some(offer) = self.locals[process].offer else {
            return steps.push(Step::Look(process, Left::Half, Allowed::Yes));
        };
        let comes = self.is_late_for_ever(offer.to);
        let refused = self.faults.refusals > 0;
        let absent = self.place(offer.to).is_some_and(|place| place.standing == Standing::Absent);
        if !comes && !absent && self.faults.absences == 0 {
            return;
        }
        steps.push(Step::Look(process, Left::Half, Allowed::Yes));
        if !(comes && offer.opens) {
            steps.push(Step::Look(process, Left::LessThanHalf, Allowed::Yes));
        }
        if refused {
            steps.push(Step::Look(process, Left::Half, Allowed::No));
        }
        if refused || !comes && offer.looks > 1 {
            steps.push(Step::Look(process, Left::Nothing, Allowed::Yes));
        }
    }

    /// Whether nothing is under way, though a woken task may be left unpolled.
    pub(crate) fn is_quiet(&self, setup: &Setup) -> bool {
        let mut steps = Vec::new();
        self.steps(setup, &mut steps);
        steps.iter().all(|step| step.is_voluntary(self))
    }

    pub(crate) fn take(&mut self, step: Step, setup: &Setup, witness: &impl Fn(Witness)) {
        Run { world: self, setup, witness }.take(step);
    }
}

/// One step under way.
pub(crate) struct Run<'a, W> {
    pub(crate) world: &'a mut World,
    pub(crate) setup: &'a Setup,
    pub(crate) witness: &'a W,
}

impl<W: Fn(Witness)> Run<'_, W> {
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
                self.world.faults.lapses -= 1;
                self.world.locals[process].lapsed = true;
                self.lose(process);
            }
            Step::Renew(process) => self.world.locals[process].lapsed = false,
            Step::Expire(process) => self.expire(process),
            Step::Evict(place) => {
                self.world.faults.deletions -= 1;
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
