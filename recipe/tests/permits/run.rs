//! The steps: which are possible, and what each does.

use stateright::Property;

use zklock_recipe::admission::{Event, Standing};
use zklock_recipe::{Kind, Patience, SessionEnd, Stock, Wish};

use super::contest::{Contest, DELAYED, KEPT, ONCE, ORDER, REAL, WITHIN, properties};
use super::pool::{Caller, Contender, Data, POOL, Pending, Reasons, TURNSTILE, World};
use super::setup::{Fault, Mutant, Party, Setup, Witness};
use crate::world::act::{Act, act, possible};
use crate::world::ensemble::{Ask, Ensemble, Word};
use crate::world::exploration::{self, State};
use crate::world::tree::Path;

/// Whether requests of earlier connections are still carried out once a quorum has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lateness {
    Settled,
    Late,
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
        (0..self.wishes.len()).for_each(|party| world.steps_of(party, self, steps));
        let acts = [
            (world.ensemble.is_behind(), act!(replicate)),
            (true, act!(change(true)).due_to(Fault::Change)),
            (number(world.stock()) > 1, act!(change(false)).due_to(Fault::Change)),
        ];
        steps.extend(possible(POOL, acts));
    }

    /// Each valid guard has its permit, unless an operator has deleted it.
    fn settle(run: &mut Run<'_>) {
        for contender in &mut run.world.contenders {
            // What is over makes no difference any more.
            if contender.machine.is_none() && matches!(contender.caller, Caller::Done | Caller::Idle) {
                (contender.own, contender.connection) = (None, 0);
            }
        }
        let world = &run.world;
        let hollow = |(party, contender): (Party, &Contender)| {
            contender.caller == Caller::Held && !contender.evicted && world.permit(party).is_none()
        };
        let is_hollow = world.contenders.iter().enumerate().any(hollow);
        run.forbid(REAL, is_hollow);
    }

    fn mutated(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    fn properties(&self) -> Vec<Property<Contest>> {
        properties()
    }
}

impl World {
    fn steps_of(&self, party: Party, setup: &Setup, steps: &mut Vec<Act<Setup>>) {
        let contender = &self.contenders[party];
        let link = &self.ensemble.links[party];
        let (standing, rests) = (self.standing(party), contender.machine.is_none());
        let (waits, holds) = (contender.caller == Caller::Waiting, contender.caller == Caller::Held);
        let impatient = setup.mutant == Some(Mutant::PassesTheLarge);
        let begins = self.is_first(party) || impatient || setup.wishes[party].1 == Patience::Try;
        // Its create went to its server.
        let entered = self.turnstile(party).is_some_and(|(path, _)| self.ensemble.shows(party, path));
        let serves = self.ensemble.can_serve(party);
        let is_late = !link.strays.is_empty() && link.up.first() == Some(&Ask::Sync);
        let hears = match contender.pending {
            Pending::Attempt(_) => link.down.iter().any(|word| matches!(word, Word::Answer(_))),
            Pending::Wait => !link.down.is_empty(),
            _ => false,
        };
        let asks = !matches!(contender.pending, Pending::Nothing | Pending::Deaf | Pending::Leave);
        // The lease of a holder ends first.
        let outlives = holds && setup.mutant == Some(Mutant::OutlivesItsSession);
        let expires = match contender.caller {
            Caller::Idle | Caller::Done => !rests,
            Caller::Held => outlives,
            Caller::Waiting | Caller::Lapsed => true,
        };
        let has_permit = || self.permits().any(|(_, owner, _)| owner == party);
        let lapsed = contender.caller == Caller::Lapsed;
        // A session lives for as long as it likes.
        let expire = if lapsed { act!(expire) } else { act!(expire).due_to(Fault::Expiry) };
        let acts = [
            // It first settles what its last acquisition has left.
            (contender.caller == Caller::Idle && rests && !contender.departs, act!(enqueue)),
            // Its node in the turnstile is gone before it was the first.
            (waits && rests && standing == Standing::Gone, act!(requeue)),
            (waits && rests && begins && entered, act!(begin)),
            (holds || lapsed, act!(release).voluntary(true)),
            (holds && self.permit(party).is_none(), act!(hear_of_its_permit)),
            (holds, act!(lapse).due_to(Fault::Expiry)),
            (serves, act!(serve(Lateness::Settled))),
            (serves && is_late, act!(serve(Lateness::Late)).due_to(Fault::Late)),
            (hears, act!(hear)),
            (contender.pending == Pending::Wait && standing != Standing::Held, act!(touched)),
            (contender.pending == Pending::Delay, act!(delayed)),
            (contender.pending == Pending::Leave || contender.departs, act!(leave)),
            (!link.strays.is_empty(), act!(apply_stray).voluntary(true)),
            (asks, act!(break_connection).due_to(Fault::Break)),
            (expires, expire),
            (waits, act!(depart).due_to(Fault::Departure)),
            (has_permit(), act!(evict).due_to(Fault::Eviction)),
            (standing != Standing::Gone, act!(displace).due_to(Fault::Displacement)),
            (!rests && standing == Standing::Held, act!(touch).due_to(Fault::Touch)),
        ];
        steps.extend(possible(party, acts));
    }
}

fn number(stock: Stock) -> u32 {
    let (Stock::Permits(number) | Stock::Slots(number)) = stock;
    number
}

impl Run<'_> {
    /// A server serves its next request.
    fn serve(&mut self, party: Party, lateness: Lateness) {
        let late = lateness == Lateness::Late;
        let behind = self.world.ensemble.links[party].follows && self.world.ensemble.is_behind();
        self.note(
            Witness::AnsweredFromThePast,
            behind && matches!(self.world.ensemble.links[party].up[0], Ask::Get(..) | Ask::List(..)),
        );
        self.carry_out(party, |ensemble| ensemble.serve(party, late));
        self.listen(party);
    }

    /// The follower hears what the leader sent next.
    fn replicate(&mut self, _: usize) {
        self.world.ensemble.replicate();
        self.setup.following.iter().for_each(|party| self.listen(*party));
    }

    fn touched(&mut self, party: Party) {
        self.feed(party, Event::Touched);
    }

    fn apply_stray(&mut self, party: Party) {
        let late = self.world.contenders[party].pending != Pending::Settle;
        let applied = self.carry_out(party, |ensemble| {
            ensemble.apply_stray(party);
        });
        (self.witness)(if applied { Witness::StrayApplied } else { Witness::StrayRefused });
        self.note(Witness::LateApplied, applied && late);
    }

    /// Its node in the turnstile is deleted, as it wants.
    fn leave(&mut self, party: Party) {
        self.world.leave_turnstile(party);
        let contender = &mut self.world.contenders[party];
        contender.departs = false;
        if contender.pending == Pending::Leave {
            self.feed(party, Event::Left);
        }
    }

    fn release(&mut self, party: Party) {
        self.world.ensemble.delete(self.world.permit(party));
        self.world.contenders[party].caller = Caller::Done;
    }

    /// Somebody has deleted its permit.
    fn hear_of_its_permit(&mut self, party: Party) {
        (self.witness)(Witness::Told);
        self.world.contenders[party].caller = Caller::Done;
    }

    fn lapse(&mut self, party: Party) {
        self.world.contenders[party].caller = Caller::Lapsed;
    }

    fn evict(&mut self, party: Party) {
        self.world.contenders[party].evicted = true;
        let permits = self.world.permits().filter(|(_, owner, _)| *owner == party);
        let permits = permits.map(|(path, ..)| path).collect::<Vec<_>>();
        self.world.ensemble.delete(permits);
        self.world.vanish(self.setup);
    }

    fn displace(&mut self, party: Party) {
        self.world.leave_turnstile(party);
    }

    fn touch(&mut self, party: Party) {
        if let Some((path, _)) = self.world.turnstile(party) {
            self.world.ensemble.write(path, Data::Nothing);
        }
    }

    /// To one more, or one less.
    fn change(&mut self, pool: usize, more: bool) {
        let changed = |number: u32| if more { number + 1 } else { number - 1 };
        let stock = match self.world.stock() {
            Stock::Permits(capacity) => Stock::Permits(changed(capacity)),
            Stock::Slots(count) => Stock::Slots(changed(count)),
        };
        self.world.ensemble.write(Path::Directory(pool), Data::Stock(stock));
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
        self.forbid(KEPT, self.world.stock() != stock);
        let new = |(path, ..): &(Path, Party, i64)| before.iter().all(|(other, _)| other != path);
        let Some((path, _, id)) = self.world.permits().find(|it| new(it)) else { return false };
        self.forbid(ONCE, before.iter().any(|(_, other)| *other == id));
        let node = self.world.tree().get(path).map(|node| node.data);
        if matches!(node, Some(Data::Permit { owes: true, .. })) {
            self.breach(DELAYED);
        }
        self.forbid(ORDER, first.is_some_and(|first| first != id));
        self.forbid(WITHIN, self.world.is_exceeded());
        self.note(Witness::HeldTogether, !before.is_empty());
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
