//! A task: it comes, waits or tries, has its turn, and goes.

use zklock_recipe::{HoldNumber, Left, Turned};

use super::contest::{BUDGET, FRESH, ORDER, PRESENT, SERVED};
use super::run::{Allowed, Run};
use super::world::{
    Background, Caller, Doing, Lateness, Mutant, Node, Owner, Party, Place, Process, Standing, Witness,
};

impl Run<'_> {
    pub(crate) fn arrive(&mut self, party: Party) {
        self.world.tasks[party].comings -= 1;
        let process = self.world.tasks[party].process;
        let local = &mut self.world.locals[process];
        let since = local.arrived;
        local.arrived += 1;
        let caller = Caller { party, moved: false };
        let ticket = local.stage.arrive();
        let contend = local.stage.poll(ticket, caller) == Turned::Contend;
        let place = Place {
            ticket,
            since,
            caller,
            woken: false,
            standing: Standing::Present,
            lateness: Lateness::Prompt,
            halves: 0,
            pause: 0,
            missed: 0,
        };
        self.world.tasks[party].doing = Doing::InLine(place);
        if contend || self.is(Mutant::ContendsForEach) {
            self.contend(process);
        }
    }

    pub(crate) fn begin_try(&mut self, party: Party) {
        self.world.tasks[party].comings -= 1;
        let process = self.world.tasks[party].process;
        let alone = self.world.locals[process].stage.is_free();
        if !alone && !self.is(Mutant::TriesBesideTheLine) {
            return (self.witness)(Witness::TryRefused);
        }
        let busy = self.world.locals[process].background != Background::None;
        let waits = self.world.line(process).any(|(_, place)| place.standing != Standing::Failed);
        self.forbid(ORDER, busy || waits);
        self.world.tasks[party].doing = Doing::Trying;
    }

    pub(crate) fn end_try(&mut self, party: Party) {
        let process = self.world.tasks[party].process;
        let local = &mut self.world.locals[process];
        if !self.world.queue.is_empty() || local.lapsed {
            (self.witness)(Witness::TryFailed);
            self.world.tasks[party].doing = Doing::Away;
            return;
        }
        (self.witness)(Witness::TrySucceeded);
        let Some(number) = local.stage.tried() else {
            // Its hold has no part in the stage, as that of a contender elsewhere.
            (self.witness)(Witness::TrySucceededBesideOthers);
            self.world.tasks[party].doing = Doing::Away;
            self.world.queue.push(Node::HeldRemotely);
            return self.begin_turn();
        };
        self.enter(Owner::Local(process));
        self.hold(process, number);
        self.world.tasks[party].doing = Doing::Holding(number);
        self.begin_local_turn(party);
    }

    pub(crate) fn poll(&mut self, party: Party) {
        let process = self.world.tasks[party].process;
        let Doing::InLine(mut place) = self.world.tasks[party].doing else { return };
        let absent = place.standing == Standing::Absent;
        self.note(Witness::CameBack, absent);
        let forgotten = absent && self.is(Mutant::ForgetsTheAbsent);
        (place.woken, place.standing) = (false, Standing::Present);
        self.world.tasks[party].doing = Doing::InLine(place);
        if forgotten {
            return;
        }
        let local = &mut self.world.locals[process];
        place.caller.moved = !place.caller.moved;
        let first_waker = Caller { party, moved: false };
        let keeps = self.setup.mutant == Some(Mutant::KeepsTheFirstWaker);
        let caller = if keeps { first_waker } else { place.caller };
        match local.stage.poll(place.ticket, caller) {
            Turned::Yours(hold) => match local.offer.take() {
                Some(offer) if (offer.to, offer.hold) == (party, hold) => {
                    // Nobody wakes it while it has the hold, so its waker is of no account.
                    place.caller.moved = false;
                    self.note_late_turn(process, place.lateness, offer.opens);
                    self.note(Witness::HadAnotherHalf, offer.opens && place.halves > 0);
                    self.note(Witness::HadItsHalfThoughAbsent, absent);
                    // If it is put back, it begins anew.
                    place.lateness = Lateness::Prompt;
                    (place.halves, place.pause, place.missed) = (0, 0, 0);
                    self.world.tasks[party].doing = Doing::Took(place, hold);
                }
                _ => self.breach(PRESENT),
            },
            Turned::Waits => self.world.tasks[party].doing = Doing::InLine(place),
            Turned::Contend => {
                (self.witness)(Witness::CameBackAlone);
                self.world.tasks[party].doing = Doing::InLine(place);
                self.contend(process);
            }
            Turned::Failed(()) if self.is(Mutant::ForgetsTheFailure) => {
                self.world.tasks[party].doing = Doing::InLine(place);
            }
            Turned::Failed(()) => {
                (self.witness)(Witness::Failed);
                self.world.tasks[party].doing = Doing::Away;
            }
        }
    }

    fn note_late_turn(&self, process: Process, lateness: Lateness, opens: bool) {
        let prompt = self.world.present(process).any(|(_, place)| place.lateness == Lateness::Prompt);
        match lateness {
            Lateness::Late if opens && prompt => (self.witness)(Witness::HadItsHalf),
            Lateness::Late => (self.witness)(Witness::HadTheRest),
            Lateness::Last => (self.witness)(Witness::TheLastHadATurn),
            Lateness::Prompt => {}
        }
    }

    /// A task checks outside the mutex whether the hold that it took is valid.
    pub(crate) fn check(&mut self, party: Party) {
        let process = self.world.tasks[party].process;
        let Doing::Took(place, hold) = self.world.tasks[party].doing else { return };
        if self.world.is_valid(process, hold) || self.is(Mutant::TakesALostHold) {
            self.world.tasks[party].doing = Doing::Holding(hold);
            return self.begin_local_turn(party);
        }
        (self.witness)(Witness::PutBack);
        self.world.tasks[party].doing = Doing::InLine(place);
        self.put_back(party, place, hold);
        self.release(process, hold);
    }

    fn put_back(&mut self, party: Party, mut place: Place, hold: HoldNumber) {
        let process = self.world.tasks[party].process;
        if self.is(Mutant::ForgetsToPutBack) {
            return;
        }
        let at_the_end = self.is(Mutant::PutsBackAtTheEnd);
        let local = &mut self.world.locals[process];
        if local.offer.is_some_and(|offer| offer.hold != hold) {
            (self.witness)(Witness::PutBackBesideAHold);
        }
        if at_the_end {
            place.ticket = local.stage.arrive();
        }
        let turned = local.stage.poll(place.ticket, place.caller);
        self.world.tasks[party].doing = Doing::InLine(place);
        if turned == Turned::Contend {
            (self.witness)(Witness::PutBackAlone);
            if !self.is(Mutant::ForgetsToContendForThePutBack) {
                self.contend(process);
            }
        }
    }

    /// A task gives up while it waits, or its try is dropped.
    pub(crate) fn give_up(&mut self, party: Party, left: Left, allowed: Allowed) {
        let process = self.world.tasks[party].process;
        let Doing::InLine(place) = self.world.tasks[party].doing else {
            (self.witness)(Witness::TryDropped);
            self.world.tasks[party].doing = Doing::Away;
            return;
        };
        self.world.tasks[party].doing = Doing::Away;
        let seen = if self.is(Mutant::LeavesWithoutTime) { Left::Half } else { left };
        let may = allowed == Allowed::Yes || self.is(Mutant::LeavesWithoutALease);
        let step = self.world.locals[process].stage.leave(place.ticket, seen, may);
        let allowed = if left == Left::Nothing { Allowed::No } else { allowed };
        match self.world.locals[process].offer {
            Some(offer) if offer.to == party => {
                let last = !self.world.is_wanted(process);
                (self.witness)(match allowed {
                    Allowed::No => Witness::LeftWithoutTime,
                    Allowed::Yes if last => Witness::LeftWhileOfferedToTheLast,
                    Allowed::Yes => Witness::LeftWhileOffered,
                });
                self.check_handing_on(process, &step, allowed);
                if !self.is(Mutant::KeepsTheOffer) {
                    self.world.locals[process].offer = None;
                    self.go_on(process, offer.hold, step);
                }
            }
            // Nothing of a hold is offered to it, so the number is of no account.
            _ => self.go_on(process, HoldNumber::default(), step),
        }
    }

    /// The turn of a task is over. Only then may the hold be passed on.
    pub(crate) fn let_go(&mut self, party: Party) {
        let process = self.world.tasks[party].process;
        let Doing::Holding(hold) = self.world.tasks[party].doing else { return };
        let lost = !self.world.is_valid(process, hold);
        if !lost || self.is(Mutant::PassesALostHold) {
            self.world.tasks[party].doing = Doing::Passing { hold, lost };
            if self.is(Mutant::EndsTheTurnTooLate) {
                self.pass(party, Allowed::Yes);
                self.world.tasks[party].doing = Doing::Lingering(hold);
            }
            return;
        }
        self.world.tasks[party].doing = Doing::Away;
        if !self.is(Mutant::LeavesTheNodeOfALostHold) {
            self.release(process, hold);
        }
    }

    pub(crate) fn pass(&mut self, party: Party, allowed: Allowed) {
        let process = self.world.tasks[party].process;
        let Doing::Passing { hold, lost } = self.world.tasks[party].doing else { return };
        self.world.tasks[party].doing = Doing::Away;
        let present = self.world.hold(process).map(|hold| *hold);
        let number = match present {
            Some(present) if self.is(Mutant::IgnoresTheHoldNumber) => present.number,
            _ => hold,
        };
        let is_present = present.is_some_and(|present| present.number == hold);
        if !is_present {
            (self.witness)(Witness::LatePass);
            if self.world.tasks.iter().any(|task| {
                let later = matches!(task.doing, Doing::Took(..) | Doing::Holding(_));
                later && task.process == process
            }) {
                (self.witness)(Witness::LatePassBesideATurn);
            }
        } else if !lost && !self.world.is_valid(process, hold) {
            (self.witness)(Witness::LostWhilePassed);
        }
        let may = allowed == Allowed::Yes || self.is(Mutant::IgnoresTheRefusal);
        let step = self.world.locals[process].stage.passed(number, hold, may);
        match step {
            zklock_recipe::Step::Wake(_) => {
                self.forbid(FRESH, lost);
                self.forbid(BUDGET, allowed == Allowed::No);
                self.count_pass(process);
            }
            _ if is_present && self.world.is_wanted(process) => {
                let spent = present.is_some_and(|present| present.passed >= self.setup.budget);
                match (allowed, spent) {
                    (Allowed::No, _) => (self.witness)(Witness::PassingRefused),
                    (Allowed::Yes, true) => (self.witness)(Witness::BudgetEnded),
                    (Allowed::Yes, false) => self.breach(SERVED),
                }
            }
            _ => {}
        }
        self.go_on(process, hold, step);
    }

    fn count_pass(&mut self, process: usize) {
        (self.witness)(Witness::PassedOn);
        let budget = self.setup.budget;
        let passed = self.world.hold(process).map(|hold| {
            hold.passed += 1;
            hold.passed
        });
        self.forbid(BUDGET, passed.is_some_and(|passed| passed > budget));
    }

    /// A task has a guard.
    fn begin_local_turn(&mut self, party: Party) {
        let process = self.world.tasks[party].process;
        let Doing::Holding(hold) = self.world.tasks[party].doing else { return };
        self.forbid(FRESH, !self.world.is_valid(process, hold));
        if let Some(hold) = self.world.hold(process) {
            hold.turns += 1;
        }
        self.begin_turn();
    }
}
