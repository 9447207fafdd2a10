//! The steps: which are possible, and what each does.

use zklock_recipe::Left;

use super::world::{Background, Doing, Fate, Mutant, Node, Owner, Party, Process, Setup, Standing, World};
use crate::world::exploration::{self, possible};

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
    pub(crate) fn is_voluntary(self, world: &World) -> bool {
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
        let first = self.queue.first();
        let leaves = self.queue.iter().any(|node| matches!(node, Node::Leaving(_)));
        let is_there = self.node(Owner::Remote).is_some() || self.queue.contains(&Node::HeldRemotely);
        steps.extend(possible([
            (leaves, Step::Delete),
            (self.remote > 0 && !is_there, Step::RemoteEnters),
            (matches!(first, Some(Node::Waiting(Owner::Remote, _))), Step::RemoteHolds),
            (first == Some(&Node::HeldRemotely), Step::RemoteLeaves),
        ]));
        if self.faults.deletions > 0 {
            let evicted = |(_, node): &(usize, &Node)| {
                matches!(node, Node::Waiting(Owner::Local(_), _) | Node::Held(..))
            };
            let places = self.queue.iter().enumerate().filter(evicted);
            steps.extend(places.map(|(place, _)| Step::Evict(place)));
        }
    }

    fn steps_of_task(&self, party: Party, steps: &mut Vec<Step>) {
        let (task, faults) = (&self.tasks[party], &self.faults);
        let (gives_up, refused) = (faults.departures > 0, faults.refusals > 0);
        match task.doing {
            Doing::Away if task.comings > 0 => {
                steps.extend(possible([(true, Step::Arrive(party)), (faults.tries > 0, Step::Try(party))]));
            }
            Doing::Away => {}
            Doing::InLine(place) => {
                let offer = self.locals[task.process].offer.filter(|offer| offer.to == party);
                let comes_later = self.is_late_for_ever(party) && offer.is_some_and(|offer| offer.looks < 2);
                let in_vain = gives_up && offer.is_some() && refused;
                steps.extend(possible([
                    (place.woken && !comes_later, Step::Poll(party)),
                    (gives_up, Step::GiveUp(party, Left::Half, Allowed::Yes)),
                    (in_vain, Step::GiveUp(party, Left::Half, Allowed::No)),
                    (in_vain, Step::GiveUp(party, Left::Nothing, Allowed::Yes)),
                ]));
            }
            Doing::Took(..) => steps.push(Step::Check(party)),
            Doing::Holding(_) => steps.push(Step::LetGo(party)),
            Doing::Passing { .. } => steps.extend(possible([
                (true, Step::Pass(party, Allowed::Yes)),
                (refused, Step::Pass(party, Allowed::No)),
            ])),
            Doing::Lingering(_) => steps.push(Step::EndTurn(party)),
            Doing::Trying => steps.extend(possible([
                (true, Step::Tried(party)),
                (gives_up, Step::GiveUp(party, Left::Half, Allowed::Yes)),
            ])),
        }
    }

    fn steps_of_process(&self, process: Process, setup: &Setup, steps: &mut Vec<Step>) {
        let (local, node) = (&self.locals[process], self.node(Owner::Local(process)));
        let acquires = local.background == Background::Acquiring;
        let is_over = matches!(local.background, Background::Watching(hold) if hold.fate != Fate::Valid);
        let may_lapse = self.faults.lapses > 0 && local.background != Background::None;
        steps.extend(possible([
            (acquires && node.is_none(), Step::Enter(process)),
            (acquires && node == Some(0) && !local.lapsed, Step::Grant(process)),
            (acquires && local.nudged, Step::Retire(process)),
            (acquires && self.faults.failures > 0, Step::Fail(process)),
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
        let refused = self.faults.refusals > 0;
        let absent = self.place(offer.to).is_some_and(|place| place.standing == Standing::Absent);
        if !comes && !absent && self.faults.absences == 0 {
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

/// One step under way.
pub(crate) type Run<'a> = exploration::Run<'a, Setup>;

impl Run<'_> {
    pub(crate) fn take(&mut self, step: Step) {
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
