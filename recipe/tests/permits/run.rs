//! The steps: which are possible, and what each does.

use zklock_recipe::admission::{Event, Standing};
use zklock_recipe::{Kind, Patience, SessionEnd, Stock, Wish};

use super::contest::{DELAYED, KEPT, ONCE, ORDER, REAL, WITHIN};
use super::pool::{Caller, Contender, Data, POOL, Pending, Reasons, TURNSTILE, World};
use super::setup::{Mutant, Party, Setup, Witness};
use crate::world::ensemble::{Ask, Ensemble, Word};
use crate::world::exploration::{self, possible};
use crate::world::tree::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Enqueue(Party),
    /// It holds the turnstile, and its machine begins.
    Begin(Party),
    /// Its node in the turnstile is gone before it was the first.
    Requeue(Party),
    /// A server serves its next request.
    Serve(Party, Lateness),
    /// The follower hears what the leader sent next.
    Replicate,
    /// It hears what became of its transaction, or that a watch has fired.
    Hear(Party),
    Touched(Party),
    /// The takeover delay has passed.
    Delayed(Party),
    ApplyStray(Party),
    /// Its node in the turnstile is deleted, as it wants.
    Leave(Party),
    Release(Party),
    Told(Party),
    Break(Party),
    Lapse(Party),
    Expire(Party),
    Depart(Party),
    Evict(Party),
    Displace(Party),
    Touch(Party),
    /// To one more, or one less.
    Change(bool),
}

/// Whether requests of earlier connections are still carried out once a quorum has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lateness {
    Settled,
    Late,
}

impl Step {
    /// Whether nobody has to take it.
    pub(crate) fn is_voluntary(self, world: &World) -> bool {
        match self {
            Self::Break(_)
            | Self::Lapse(_)
            | Self::Depart(_)
            | Self::Evict(_)
            | Self::Displace(_)
            | Self::Touch(_)
            | Self::Change(_)
            | Self::Release(_)
            | Self::Serve(_, Lateness::Late)
            | Self::ApplyStray(_) => true,
            // A session lives for as long as it likes.
            Self::Expire(party) => world.contenders[party].caller != Caller::Lapsed,
            _ => false,
        }
    }
}

impl World {
    pub(crate) fn steps(&self, setup: &Setup, steps: &mut Vec<Step>) {
        for party in 0..self.contenders.len() {
            self.steps_of(party, setup, steps);
        }
        steps.extend(self.ensemble.is_behind().then_some(Step::Replicate));
        if self.faults.changes > 0 {
            steps.push(Step::Change(true));
            steps.extend((number(self.stock()) > 1).then_some(Step::Change(false)));
        }
    }

    fn steps_of(&self, party: Party, setup: &Setup, steps: &mut Vec<Step>) {
        let (contender, faults) = (&self.contenders[party], &self.faults);
        let link = &self.ensemble.links[party];
        let (standing, rests) = (self.standing(party), contender.machine.is_none());
        let (waits, holds) = (contender.caller == Caller::Waiting, contender.caller == Caller::Held);
        let impatient = setup.mutant == Some(Mutant::PassesTheLarge);
        let begins = self.is_first(party) || impatient || setup.wishes[party].1 == Patience::Try;
        // Its create went to its server.
        let entered = self.turnstile(party).is_some_and(|(path, _)| self.ensemble.shows(party, path));
        let serves = self.ensemble.can_serve(party);
        let late = faults.late > 0 && !link.strays.is_empty() && link.up.first() == Some(&Ask::Sync);
        let hears = match contender.pending {
            Pending::Attempt(_) => link.down.iter().any(|word| matches!(word, Word::Answer(_))),
            Pending::Wait => !link.down.is_empty(),
            _ => false,
        };
        let asks = !matches!(contender.pending, Pending::Nothing | Pending::Deaf | Pending::Leave);
        // The lease of a holder ends first.
        let outlives = holds && setup.mutant == Some(Mutant::OutlivesItsSession);
        let expires = match contender.caller {
            Caller::Idle | Caller::Done => !rests && faults.expiries > 0,
            Caller::Waiting => faults.expiries > 0,
            Caller::Held => outlives && faults.expiries > 0,
            Caller::Lapsed => true,
        };
        let has_permit = || self.permits().any(|(_, owner, _)| owner == party);
        steps.extend(possible([
            // It first settles what its last acquisition has left.
            (contender.caller == Caller::Idle && rests && !contender.departs, Step::Enqueue(party)),
            (waits && rests && standing == Standing::Gone, Step::Requeue(party)),
            (waits && rests && begins && entered, Step::Begin(party)),
            (holds || contender.caller == Caller::Lapsed, Step::Release(party)),
            (holds && self.permit(party).is_none(), Step::Told(party)),
            (holds && faults.expiries > 0, Step::Lapse(party)),
            (serves, Step::Serve(party, Lateness::Settled)),
            (serves && late, Step::Serve(party, Lateness::Late)),
            (hears, Step::Hear(party)),
            (contender.pending == Pending::Wait && standing != Standing::Held, Step::Touched(party)),
            (contender.pending == Pending::Delay, Step::Delayed(party)),
            (contender.pending == Pending::Leave || contender.departs, Step::Leave(party)),
            (!link.strays.is_empty(), Step::ApplyStray(party)),
            (asks && faults.breaks > 0, Step::Break(party)),
            (expires, Step::Expire(party)),
            (waits && faults.departures > 0, Step::Depart(party)),
            (faults.evictions > 0 && has_permit(), Step::Evict(party)),
            (faults.displacements > 0 && standing != Standing::Gone, Step::Displace(party)),
            (faults.touches > 0 && !rests && standing == Standing::Held, Step::Touch(party)),
        ]));
    }

    /// Each valid guard has its permit, unless an operator has deleted it.
    pub(crate) fn settle(&mut self) {
        for contender in &mut self.contenders {
            // What is over makes no difference any more.
            if contender.machine.is_none() && matches!(contender.caller, Caller::Done | Caller::Idle) {
                (contender.own, contender.connection) = (None, 0);
            }
        }
        let hollow = |(party, contender): (Party, &Contender)| {
            contender.caller == Caller::Held && !contender.evicted && self.permit(party).is_none()
        };
        if self.contenders.iter().enumerate().any(hollow) {
            self.breach(REAL);
        }
    }
}

fn number(stock: Stock) -> u32 {
    let (Stock::Permits(number) | Stock::Slots(number)) = stock;
    number
}

/// One step under way.
pub(crate) type Run<'a> = exploration::Run<'a, Setup>;

impl Run<'_> {
    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Enqueue(party) => self.enqueue(party),
            Step::Begin(party) => self.begin(party),
            Step::Requeue(party) => self.requeue(party),
            Step::Serve(party, lateness) => {
                let late = lateness == Lateness::Late;
                self.world.faults.late -= u8::from(late);
                let behind = self.world.ensemble.links[party].follows && self.world.ensemble.is_behind();
                if behind && matches!(self.world.ensemble.links[party].up[0], Ask::Get(..) | Ask::List(..)) {
                    (self.witness)(Witness::AnsweredFromThePast);
                }
                self.carry_out(party, |ensemble| ensemble.serve(party, late));
                self.listen(party);
            }
            Step::Replicate => {
                self.world.ensemble.replicate();
                self.setup.following.iter().for_each(|party| self.listen(*party));
            }
            Step::Hear(party) => self.hear(party),
            Step::Touched(party) => self.feed(party, Event::Touched),
            Step::Delayed(party) => self.delayed(party),
            Step::ApplyStray(party) => {
                let late = self.world.contenders[party].pending != Pending::Settle;
                let applied = self.carry_out(party, |ensemble| {
                    ensemble.apply_stray(party);
                });
                (self.witness)(if applied { Witness::StrayApplied } else { Witness::StrayRefused });
                if applied && late {
                    (self.witness)(Witness::LateApplied);
                }
            }
            Step::Leave(party) => {
                self.world.leave_turnstile(party);
                let contender = &mut self.world.contenders[party];
                contender.departs = false;
                if contender.pending == Pending::Leave {
                    self.feed(party, Event::Left);
                }
            }
            Step::Release(party) => {
                self.world.ensemble.delete(self.world.permit(party));
                self.world.contenders[party].caller = Caller::Done;
            }
            Step::Told(party) => {
                (self.witness)(Witness::Told);
                self.world.contenders[party].caller = Caller::Done;
            }
            Step::Break(party) => self.break_connection(party),
            Step::Lapse(party) => {
                self.world.faults.expiries -= 1;
                self.world.contenders[party].caller = Caller::Lapsed;
            }
            Step::Expire(party) => self.expire(party),
            Step::Depart(party) => self.depart(party),
            Step::Evict(party) => {
                self.world.faults.evictions -= 1;
                self.world.contenders[party].evicted = true;
                let permits = self.world.permits().filter(|(_, owner, _)| *owner == party);
                let permits = permits.map(|(path, ..)| path).collect::<Vec<_>>();
                self.world.ensemble.delete(permits);
                self.world.vanish(self.setup);
            }
            Step::Displace(party) => {
                self.world.faults.displacements -= 1;
                self.world.leave_turnstile(party);
            }
            Step::Touch(party) => {
                self.world.faults.touches -= 1;
                if let Some((path, _)) = self.world.turnstile(party) {
                    self.world.ensemble.write(path, Data::Nothing);
                }
            }
            Step::Change(more) => {
                self.world.faults.changes -= 1;
                let changed = |number: u32| if more { number + 1 } else { number - 1 };
                let stock = match self.world.stock() {
                    Stock::Permits(capacity) => Stock::Permits(changed(capacity)),
                    Stock::Slots(count) => Stock::Slots(changed(count)),
                };
                self.world.ensemble.write(Path::Directory(POOL), Data::Stock(stock));
            }
        }
    }

    fn enqueue(&mut self, party: Party) {
        let behind = self.is_delayed() && !self.world.tree().children(TURNSTILE).is_empty();
        let own = self.world.ensemble.enqueue(party, TURNSTILE);
        let contender = &mut self.world.contenders[party];
        (contender.own, contender.evicted, contender.caller) = (own, false, Caller::Waiting);
        contender.waited |= behind;
        self.remember(party, behind, |reasons| &mut reasons.turnstile);
    }

    /// What was free at the look has been free for the delay.
    fn delayed(&mut self, party: Party) {
        (self.witness)(Witness::Delayed);
        let contender = &mut self.world.contenders[party];
        if contender.owes_since_its_look {
            (self.witness)(Witness::VanishedInTheDelay);
        }
        contender.owes = contender.owes_since_its_look;
        if self.is(Mutant::LooksAfterItsDelay) {
            let (wish, patience) = self.setup.wishes[party];
            self.world.contenders[party].reasons = Reasons::default();
            return self.start(party, wish, patience, Reasons::default());
        }
        self.feed(party, Event::Delayed);
    }

    /// Carries something out, which may be an attempt of this contender. Returns whether that took effect.
    fn carry_out(&mut self, party: Party, step: impl FnOnce(&mut Ensemble<Data>)) -> bool {
        let before = self.world.permits().map(|(path, _, id)| (path, id)).collect::<Vec<_>>();
        let first = self.world.tree().children(TURNSTILE).first().map(|(_, node)| node.czxid);
        let stock = self.world.stock();
        step(&mut self.world.ensemble);
        if self.world.stock() != stock {
            self.world.breach(KEPT);
        }
        let new = |(path, ..): &(Path, Party, i64)| before.iter().all(|(other, _)| other != path);
        let Some((path, _, id)) = self.world.permits().find(|it| new(it)) else { return false };
        if before.iter().any(|(_, other)| *other == id) {
            self.world.breach(ONCE);
        }
        let node = self.world.tree().get(path).map(|node| node.data);
        if matches!(node, Some(Data::Permit { owes: true, .. })) {
            self.world.breach(DELAYED);
        }
        if first.is_some_and(|first| first != id) {
            self.world.breach(ORDER);
        }
        if self.world.is_exceeded() {
            self.world.breach(WITHIN);
        }
        if !before.is_empty() {
            (self.witness)(Witness::HeldTogether);
        }
        let Path::Child(_, place) = path else { return true };
        match (self.setup.wishes[party].0, place.kind) {
            (_, Kind::Permit(2..)) => (self.witness)(Witness::LargeHeld),
            (Wish::Slot(Some(wished)), Kind::Slot(index)) if wished != index => {
                (self.witness)(Witness::TookAnotherSlot);
            }
            _ => {}
        }
        true
    }

    fn break_connection(&mut self, party: Party) {
        self.world.faults.breaks -= 1;
        self.world.ensemble.cut(party);
        self.world.ensemble.connect(party);
        let mutant = self.setup.mutant;
        let contender = &mut self.world.contenders[party];
        contender.connection += 1;
        match contender.pending {
            // The watch is lost. Broken, the contender waits for it all the same.
            Pending::Wait if mutant == Some(Mutant::ForgetsThatItsWatchIsLost) => {
                contender.pending = Pending::Deaf;
            }
            Pending::Wait => self.feed(party, Event::Changed),
            Pending::Delay => {}
            Pending::Attempt(_) if mutant == Some(Mutant::TakesUnknownForFailed) => {
                // Its old node goes, as that of any failed acquisition.
                contender.departs = true;
                self.end_machine(party);
                self.requeue(party);
            }
            _ => self.feed(party, Event::Unanswered),
        }
    }

    /// The session ends, and its nodes go with it. The leader refuses what it has sent before.
    fn expire(&mut self, party: Party) {
        (self.witness)(Witness::Expired);
        let lapsed = self.world.contenders[party].caller == Caller::Lapsed;
        if !lapsed {
            self.world.faults.expiries -= 1;
        }
        let held = self.world.permits().any(|(_, owner, _)| owner == party);
        self.world.ensemble.expire(party);
        // The next one begins a session of its own.
        self.world.ensemble.connect(party);
        if held {
            self.world.vanish(self.setup);
        }
        let contender = &mut self.world.contenders[party];
        contender.connection += 1;
        match contender.caller {
            // Broken, its guard stays valid.
            Caller::Held => {}
            Caller::Lapsed => contender.caller = Caller::Done,
            Caller::Waiting if contender.machine.is_none() => self.requeue(party),
            Caller::Idle | Caller::Waiting | Caller::Done => {
                self.feed(party, Event::SessionOver(SessionEnd::Expired))
            }
        }
        self.world.contenders[party].departs = false;
    }

    /// The caller goes.
    fn depart(&mut self, party: Party) {
        self.world.faults.departures -= 1;
        let (drops, forgets) = (self.is(Mutant::DropsItsAttempt), self.is(Mutant::ForgetsItsDoubt));
        let contender = &mut self.world.contenders[party];
        contender.caller = Caller::Done;
        if contender.machine.is_none() {
            return self.world.leave_turnstile(party);
        }
        if drops {
            contender.departs = true;
            self.end_machine(party);
            // What is on its way is in front of the deletion of the node in the turnstile, and nobody hears of it.
            while !self.world.ensemble.links[party].up.is_empty() {
                self.world.ensemble.serve(party, false);
            }
            self.world.ensemble.links[party].down.clear();
            return;
        }
        self.feed(party, Event::GiveUp);
        let contender = &mut self.world.contenders[party];
        if forgets && contender.departs {
            self.end_machine(party);
        }
    }
}
