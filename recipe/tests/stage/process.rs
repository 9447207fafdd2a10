//! What a process does for its tasks: the background task, its nodes in ZooKeeper's queue, and its session.

use zklock_recipe::{HoldNumber, Step};

use crate::run::{Allowed, Run};
use crate::world::{
    Background, Breach, Caller, Doing, Fate, Hold, Mutant, Node, Offer, Owner, Process, Standing, Witness,
};

impl<W: Fn(Witness)> Run<'_, W> {
    /// Starts the background task.
    pub(crate) fn contend(&mut self, process: Process) {
        if self.world.locals[process].background != Background::None {
            return self.world.breach(Breach::ContendedTwice);
        }
        self.world.locals[process].background = Background::Acquiring;
    }

    /// A contender's node is created. Those in front of it may have so many turns.
    pub(crate) fn enter(&mut self, owner: Owner) {
        let budget = self.setup.budget;
        let turns = self.world.queue.clone().into_iter().map(|node| match node {
            Node::Waiting(Owner::Local(_), _) => budget + 1,
            Node::Waiting(Owner::Remote, _) => 1,
            Node::Held(process, number) if self.world.is_valid(process, number) => {
                self.world.hold(process).map_or(0, |hold| (budget + 1).saturating_sub(hold.turns))
            }
            Node::Held(process, _) if owner == Owner::Local(process) => {
                (self.witness)(Witness::WaitedBehindItself);
                0
            }
            Node::Held(..) | Node::HeldRemotely | Node::Leaving(_) => 0,
        });
        let turns = turns.sum();
        let place = if self.is(Mutant::KeepsItsPlace) { 0 } else { self.world.queue.len() };
        self.world.queue.insert(place, Node::Waiting(owner, turns));
    }

    pub(crate) fn grant(&mut self, process: Process) {
        let (number, step) = self.world.locals[process].stage.granted();
        self.hold(process, number);
        if step == Step::Release {
            (self.witness)(Witness::GrantedToNobody);
            self.check_release(process);
        }
        self.go_on(process, number, step);
    }

    /// The process's node is the first.
    pub(crate) fn hold(&mut self, process: Process, number: HoldNumber) {
        if let Some(place) = self.world.node(Owner::Local(process)) {
            self.world.queue[place] = Node::Held(process, number);
        }
        let hold = Hold { number, fate: Fate::Valid, passed: 0, turns: 0 };
        self.world.locals[process].background = Background::Watching(hold);
    }

    /// Somebody has a turn, before each that waits.
    pub(crate) fn begin_turn(&mut self) {
        let mut overtaken = false;
        for node in &mut self.world.queue {
            if let Node::Waiting(_, turns) = node {
                overtaken |= *turns == 0;
                *turns = turns.saturating_sub(1);
            }
        }
        if overtaken {
            self.world.breach(Breach::Overtaken);
        }
    }

    /// Carries out what the stage has decided about a hold.
    pub(crate) fn go_on(&mut self, process: Process, hold: HoldNumber, step: Step<Caller>) {
        match step {
            Step::Nothing => {}
            Step::GiveUp => self.world.locals[process].nudged = !self.is(Mutant::NeverRetires),
            Step::Wake(caller) => {
                let is_present = self.world.hold(process).is_some_and(|present| present.number == hold);
                if !is_present || self.world.locals[process].offer.is_some() {
                    self.world.breach(Breach::NotTheHold);
                }
                if self.world.next(process) != Some(caller.party) {
                    self.world.breach(Breach::OutOfOrder);
                }
                self.world.locals[process].offer = Some(Offer { hold, to: caller.party, looks: 0 });
                self.wake(caller);
            }
            Step::Release => self.release(process, hold),
        }
    }

    fn wake(&mut self, caller: Caller) {
        if let Doing::InLine(place) = &mut self.world.tasks[caller.party].doing
            && place.caller == caller
        {
            place.woken = true;
        }
    }

    /// A hold without a turn was released: nobody may wait that could have it.
    fn check_release(&mut self, process: Process) {
        if self.world.next(process).is_some() {
            self.world.breach(Breach::ReleasedTooSoon);
        }
    }

    /// A guard is dropped whose hold nobody shall have any more.
    pub(crate) fn release(&mut self, process: Process, number: HoldNumber) {
        for node in &mut self.world.queue {
            if *node == Node::Held(process, number) {
                *node = Node::Leaving(process);
            }
        }
        if self.world.is_valid(process, number)
            && let Some(hold) = self.world.hold(process)
        {
            hold.fate = Fate::Released;
        }
    }

    pub(crate) fn retire(&mut self, process: Process) {
        let wanted = self.world.next(process).is_some();
        let local = &mut self.world.locals[process];
        local.nudged = false;
        let retires = local.stage.retire();
        if !retires {
            (self.witness)(Witness::RetireRaced);
        }
        if retires || self.is(Mutant::RetiresThoughWanted) {
            (self.witness)(Witness::Retired);
            if wanted {
                self.world.breach(Breach::LeftThoughWanted);
            }
            self.leave_queue(process);
        }
    }

    fn leave_queue(&mut self, process: Process) {
        if let Some(place) = self.world.node(Owner::Local(process)) {
            self.world.queue[place] = Node::Leaving(process);
        }
        self.world.locals[process].background = Background::None;
    }

    pub(crate) fn fail(&mut self, process: Process) {
        self.world.faults.failures -= 1;
        for task in self.world.tasks.iter_mut().filter(|task| task.process == process) {
            if let Doing::InLine(place) = &mut task.doing {
                place.standing = Standing::Failed;
            }
        }
        let failed = self.world.locals[process].stage.fail();
        let count = if self.is(Mutant::WakesOnlyTheFirst) { 1 } else { failed.len() };
        for (_, caller) in failed.into_iter().take(count) {
            self.wake(caller);
        }
        self.leave_queue(process);
    }

    /// The background task sees that its hold is over.
    pub(crate) fn over(&mut self, process: Process) {
        let Some(number) = self.world.hold(process).map(|hold| hold.number) else { return };
        let again = self.world.locals[process].stage.over(number);
        if self.world.locals[process].offer.take_if(|offer| offer.hold == number).is_some()
            && !self.is(Mutant::KeepsALostOffer)
        {
            self.release(process, number);
        }
        let again = again && !self.is(Mutant::ForgetsToContendAgain);
        if again {
            (self.witness)(Witness::ContendedAgain);
            if self.world.queue.iter().any(|node| matches!(node, Node::Waiting(Owner::Remote, _))) {
                (self.witness)(Witness::WentBehindTheRemote);
            }
        }
        self.world.locals[process].background = if again { Background::Acquiring } else { Background::None };
    }

    pub(crate) fn look(&mut self, process: Process, allowed: Allowed) {
        let may = allowed == Allowed::Yes;
        let looks_once = self.is(Mutant::LooksOnce);
        let local = &mut self.world.locals[process];
        let Some(mut offer) = local.offer.take() else { return self.world.breach(Breach::NotTheHold) };
        let mut step = local.stage.look(may);
        if looks_once && step == Step::Nothing {
            step = local.stage.look(may);
        }
        if step == Step::Nothing {
            offer.looks += 1;
            local.offer = Some(offer);
            return;
        }
        self.world.faults.absences -= 1;
        if offer.looks == 0 {
            self.world.breach(Breach::PassedOverAtOnce);
        }
        if let Doing::InLine(place) = &mut self.world.tasks[offer.to].doing {
            place.standing = Standing::Absent;
        }
        (self.witness)(Witness::PassedOver);
        if step == Step::Release {
            match allowed {
                Allowed::Yes => {
                    (self.witness)(Witness::AllPassedOver);
                    self.check_release(process);
                }
                Allowed::No => {
                    self.world.faults.refusals -= 1;
                    (self.witness)(Witness::PassingOverRefused);
                }
            }
        }
        self.go_on(process, offer.hold, step);
    }

    /// The process's present hold, if it has one, is lost.
    pub(crate) fn lose(&mut self, process: Process) {
        if let Some(hold) = self.world.hold(process).filter(|hold| hold.fate == Fate::Valid) {
            hold.fate = Fate::Lost;
            let offered = self.world.locals[process].offer.is_some();
            if offered {
                (self.witness)(Witness::LostWhileOffered);
            } else {
                (self.witness)(Witness::LostWhileTaken);
            }
        }
    }

    /// The session expires, and the next one begins.
    pub(crate) fn expire(&mut self, process: Process) {
        self.world.locals[process].lapsed = false;
        self.world.queue.retain(|node| {
            let owner = match node {
                Node::Waiting(owner, _) => *owner,
                Node::Held(owner, _) | Node::Leaving(owner) => Owner::Local(*owner),
                Node::HeldRemotely => Owner::Remote,
            };
            owner != Owner::Local(process)
        });
    }
}
