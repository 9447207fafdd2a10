//! What a process does for its tasks: the background task, its nodes in ZooKeeper's queue, and its session.

use zklock_recipe::{Half, HoldNumber, Left, Step};

use super::contest::{
    BOUNDED, BUDGET, HALF, IN_THE_END, ONE_CONTENDER, ORDER, PATIENT, PLACE, PRESENT, SERVED, STANDS,
};
use super::run::{Allowed, Run};
use super::world::{
    Background, Caller, Doing, Fate, Fault, Hold, Lateness, Mutant, Node, Offer, Owner, Process, Setup,
    Standing, Witness,
};

impl Run<'_> {
    /// Starts the background task.
    pub(crate) fn contend(&mut self, process: Process) {
        if self.world.locals[process].background != Background::None {
            return self.breach(ONE_CONTENDER);
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
        let half = self.setup.half();
        let forgiven = self.world.line(process).filter(|(_, place)| place.pause == 1).collect::<Vec<_>>();
        let (forgets, earlier) = (self.is(Mutant::NeverForgives), self.is(Mutant::OffersAnEarlierHold));
        let stage = &mut self.world.locals[process].stage;
        if forgets {
            // The stage does not see those with whom the hold may open again.
            forgiven.iter().for_each(|(_, place)| drop(stage.leave(place.ticket, Left::Half, true)));
        }
        let number = stage.begin();
        let step = stage.granted(if earlier { HoldNumber::default() } else { number }, half);
        self.hold(process, number);
        if let Step::Release(_) = step {
            (self.witness)(Witness::GrantedToNobody);
            self.check_release(process);
        }
        self.carry_out(process, number, step, Some(half));
    }

    /// The process's node is the first.
    pub(crate) fn hold(&mut self, process: Process, number: HoldNumber) {
        if let Some(place) = self.world.node(Owner::Local(process)) {
            self.world.queue[place] = Node::Held(process, number);
        }
        for task in self.world.tasks.iter_mut().filter(|task| task.process == process) {
            if let Doing::InLine(place) = &mut task.doing
                && place.lateness == Lateness::Last
            {
                place.pause -= 1;
                if place.pause == 0 {
                    place.lateness = Lateness::Late;
                }
            }
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
        self.forbid(BOUNDED, overtaken);
    }

    /// Carries out what the stage has decided about a hold that goes on.
    pub(crate) fn go_on(&mut self, process: Process, hold: HoldNumber, step: Step<Caller, HoldNumber>) {
        self.carry_out(process, hold, step, None);
    }

    fn carry_out(
        &mut self,
        process: Process,
        hold: HoldNumber,
        step: Step<Caller, HoldNumber>,
        half: Option<Half>,
    ) {
        match step {
            Step::Nothing => {}
            Step::GiveUp => self.world.locals[process].nudged = !self.is(Mutant::NeverRetires),
            Step::Wake(caller) => {
                let is_present = self.world.hold(process).is_some_and(|present| present.number == hold);
                self.forbid(PRESENT, !is_present || self.world.locals[process].offer.is_some());
                self.forbid(ORDER, self.world.next(process, half) != Some(caller.party));
                let late =
                    self.world.place(caller.party).is_some_and(|place| place.lateness == Lateness::Late);
                let offer = Offer { hold, to: caller.party, looks: 0, opens: half.is_some() && late };
                self.world.locals[process].offer = Some(offer);
                self.wake(caller);
            }
            Step::Release(hold) => self.release(process, hold),
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
        self.forbid(SERVED, self.world.is_wanted(process));
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
        let wanted = self.world.is_wanted(process);
        let local = &mut self.world.locals[process];
        local.nudged = false;
        let retires = local.stage.retire();
        self.note(Witness::RetireRaced, !retires);
        if retires || self.is(Mutant::RetiresThoughWanted) {
            (self.witness)(Witness::Retired);
            self.forbid(PLACE, wanted);
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
        for task in self.world.tasks.iter_mut().filter(|task| task.process == process) {
            if let Doing::InLine(place) = &mut task.doing {
                place.standing = Standing::Failed;
            }
        }
        let (failed, withdrawn) = self.world.locals[process].stage.fail(&());
        self.forbid(PRESENT, withdrawn.is_some());
        let count = if self.is(Mutant::WakesOnlyTheFirst) { 1 } else { failed.len() };
        for caller in failed.into_iter().take(count) {
            self.wake(caller);
        }
        self.leave_queue(process);
    }

    /// The background task sees that its hold is over.
    pub(crate) fn over(&mut self, process: Process) {
        let Some(number) = self.world.hold(process).map(|hold| hold.number) else { return };
        let (again, withdrawn) = self.world.locals[process].stage.over(number);
        self.world.locals[process].offer.take_if(|offer| offer.hold == number);
        if !self.is(Mutant::KeepsALostOffer) {
            withdrawn.into_iter().for_each(|hold| self.release(process, hold));
        }
        let again = again && !self.is(Mutant::ForgetsToContendAgain);
        if again {
            (self.witness)(Witness::ContendedAgain);
            self.note(
                Witness::WentBehindTheRemote,
                self.world.queue.iter().any(|node| matches!(node, Node::Waiting(Owner::Remote, _))),
            );
        }
        self.world.locals[process].background = if again { Background::Acquiring } else { Background::None };
    }

    pub(crate) fn look(&mut self, process: Process, left: Left, allowed: Allowed) {
        let Some(mut offer) = self.world.locals[process].offer else {
            return self.breach(PRESENT);
        };
        let (seen, may) = self.mistaken(left, allowed == Allowed::Yes, offer);
        let stage = &mut self.world.locals[process].stage;
        let mut step = stage.look(seen, may);
        if self.setup.mutant == Some(Mutant::LooksOnce) && step == Step::Nothing {
            step = stage.look(seen, may);
        }
        let Some(mut place) = self.world.place(offer.to) else {
            return self.breach(PRESENT);
        };
        let late = place.lateness.max(Lateness::Late);
        let worse = if offer.opens { Lateness::Last } else { late };
        let others = || self.world.present(process).filter(|(party, _)| *party != offer.to);
        // For an absent task somebody waited when the hold began.
        let absent = place.standing == Standing::Absent;
        let others_wait = absent || others().any(|(_, other)| other.lateness < worse);
        let nobody_waits = others().next().is_none();
        let has_its_half = offer.opens && left == Left::Half;
        if step == Step::Nothing {
            self.forbid(STANDS, offer.looks > 0 && (left == Left::Nothing || others_wait && !has_its_half));
            offer.looks = 2.min(offer.looks + 1);
            self.world.locals[process].offer = Some(offer);
            return;
        }
        let comes = self.world.is_late_for_ever(offer.to);
        if offer.looks == 0 {
            self.breach(PATIENT);
        } else if comes {
            // Only whether it has its turn counts.
        } else if has_its_half {
            self.breach(HALF);
        } else if left != Left::Nothing && !others_wait {
            self.breach(STANDS);
        }
        (self.witness)(Witness::PassedOver);
        self.note(Witness::MissedItsHalfThoughAbsent, absent && left == Left::Nothing && offer.looks == 1);
        self.note(Witness::MissedItsHalfForNobody, absent && nobody_waits);
        (place.standing, place.lateness) = (Standing::Absent, if others_wait { worse } else { late });
        if offer.opens && others_wait {
            (self.witness)(if place.halves == 0 {
                Witness::BecameTheLast
            } else {
                Witness::MissedAnotherHalf
            });
            place.halves += 1;
            place.pause = 2_u32.pow(place.halves);
        }
        if comes {
            place.missed += 1;
            self.forbid(IN_THE_END, place.missed > self.most_missed());
        } else if !absent {
            self.spend(Fault::Absence);
        }
        if allowed == Allowed::No || left == Left::Nothing && (comes || offer.looks < 2) {
            self.spend(Fault::Refusal);
        }
        self.world.tasks[offer.to].doing = Doing::InLine(place);
        self.world.locals[process].offer = None;
        let allowed = if left == Left::Nothing { Allowed::No } else { allowed };
        if let Step::Release(_) = step {
            (self.witness)(if self.world.is_wanted(process) {
                Witness::PassingOverRefused
            } else {
                Witness::AllPassedOver
            });
        }
        self.check_handing_on(process, &step, allowed);
        self.go_on(process, offer.hold, step);
    }

    /// What a look takes for the time that is left, and whether the lease lasts.
    fn mistaken(&self, left: Left, may: bool, offer: Offer) -> (Left, bool) {
        match (self.setup.mutant, left) {
            (Some(Mutant::PassesTheOnlyOneOver), _) if offer.looks == 1 => (Left::Nothing, may),
            (Some(Mutant::NeverWaitsForTheLate), Left::Half) => (Left::LessThanHalf, may),
            (Some(Mutant::WaitsForTheLateForTooLong), Left::LessThanHalf) => (Left::Half, may),
            (Some(Mutant::HandsOnWithoutTime), Left::Nothing) => (Left::LessThanHalf, may),
            (Some(Mutant::HandsOnWithoutALease), _) => (left, true),
            _ => (left, may),
        }
    }

    /// How often a task that is late for ever may be passed over: at first, for each task that comes during an offer to it,
    /// and when time is over. While time lasts, it is passed over only until a hold opens with it, however many come: once for
    /// each time that the hold before is handed on. Another late task, or a lost hold, may come before that opening.
    fn most_missed(&self) -> u32 {
        let Setup { comings, late, budget, .. } = &self.setup;
        let count = |fault| self.setup.faults.iter().filter(|it| **it == fault).count() as u32;
        let others = 1 + (self.world.tasks.len() - 1) as u32 * u32::from(*comings);
        if count(Fault::Refusal) > 0 {
            return others + count(Fault::Refusal);
        }
        let late = *late as u32;
        let offers = (1 + budget + count(Fault::Departure)) * late;
        others.min(offers * (late + count(Fault::Lapse)))
    }

    /// An offer was not taken. Only if that is allowed, another task has it.
    pub(crate) fn check_handing_on(
        &mut self,
        process: Process,
        step: &Step<Caller, HoldNumber>,
        allowed: Allowed,
    ) {
        match (step, allowed) {
            (Step::Wake(_), Allowed::No) => self.breach(BUDGET),
            (Step::Release(_), Allowed::Yes) => self.check_release(process),
            _ => {}
        }
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
