//! The steps: which are possible, and what each does.

use zklock_recipe::admission::{Admission, Command, Event, Outcome, Seen, Settlement, Standing, Stated};
use zklock_recipe::{Arrival, Kind, Patience, SessionEnd, Takeover, Wish};

use crate::world::{
    Attempt, Breach, Caller, Contender, Half, InTurnstile, Mutant, Party, Pending, Permit, Pool, Reasons,
    Reply, Setup, Witness, World,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Enqueue(Party),
    /// It holds the turnstile, and its machine begins.
    Begin(Party),
    /// Its node in the turnstile is gone before it was the first.
    Requeue(Party),
    /// A server reads its node in the turnstile, and the data with its version.
    Read(Party, Age),
    /// The server looks on: it lists the permits.
    List(Party, Age),
    Watch(Party),
    Changed(Party),
    Touched(Party),
    /// The takeover delay has passed.
    Delayed(Party),
    Serve(Party),
    Hear(Party),
    ApplyStray(Party),
    /// A server reads the turnstile, for a contender that asks what became of its transaction.
    ReadTurnstile(Party),
    /// It asks a quorum, and lists the permits. Requests of earlier connections are carried out before that, or never;
    /// unless they are late.
    Settle(Party, Lateness),
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

/// Which server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Age {
    Present,
    Past,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lateness {
    Settled,
    Late,
}

impl Step {
    /// Whether nobody has to take it.
    fn is_voluntary(self, world: &World) -> bool {
        match self {
            Self::Break(_)
            | Self::Lapse(_)
            | Self::Depart(_)
            | Self::Evict(_)
            | Self::Displace(_)
            | Self::Touch(_)
            | Self::Change(_)
            | Self::Release(_)
            | Self::Read(_, Age::Past)
            | Self::List(_, Age::Past)
            | Self::Settle(_, Lateness::Late)
            | Self::ApplyStray(_) => true,
            // A session lives for as long as it likes.
            Self::Expire(party) => world.contenders[party].caller != Caller::Lapsed,
            Self::Enqueue(_)
            | Self::Begin(_)
            | Self::Requeue(_)
            | Self::Read(..)
            | Self::List(..)
            | Self::Watch(_)
            | Self::Changed(_)
            | Self::Touched(_)
            | Self::Delayed(_)
            | Self::Serve(_)
            | Self::Hear(_)
            | Self::ReadTurnstile(_)
            | Self::Settle(..)
            | Self::Leave(_)
            | Self::Told(_) => false,
        }
    }
}

impl World {
    pub(crate) fn steps(&self, setup: &Setup, steps: &mut Vec<Step>) {
        for party in 0..self.contenders.len() {
            self.steps_of(party, setup, steps);
        }
        if self.faults.changes > 0 {
            steps.push(Step::Change(true));
            steps.extend((number(self.pool.stock) > 1).then_some(Step::Change(false)));
        }
    }

    fn steps_of(&self, party: Party, setup: &Setup, steps: &mut Vec<Step>) {
        let (contender, faults) = (&self.contenders[party], &self.faults);
        let stale = faults.stale > 0 && self.past.is_some();
        let node = self.ticket(party);
        match contender.caller {
            // It first settles what its last acquisition has left.
            Caller::Idle if contender.machine.is_none() && !contender.departs => {
                steps.push(Step::Enqueue(party))
            }
            Caller::Waiting if contender.machine.is_none() && node.is_none() => {
                steps.push(Step::Requeue(party))
            }
            Caller::Waiting if contender.machine.is_none() => {
                let impatient = setup.mutant == Some(Mutant::PassesTheLarge);
                let tries = setup.wishes[party].1 == Patience::Try;
                steps.extend((self.is_first(party) || impatient || tries).then_some(Step::Begin(party)));
            }
            Caller::Held => {
                steps.push(Step::Release(party));
                let gone = self.pool.permit(party, contender.ticket).is_none();
                steps.extend(gone.then_some(Step::Told(party)));
                steps.extend((faults.expiries > 0).then_some(Step::Lapse(party)));
            }
            Caller::Lapsed => steps.push(Step::Release(party)),
            Caller::Idle | Caller::Waiting | Caller::Done => {}
        }
        match &contender.pending {
            Pending::Look => {
                steps.push(Step::Read(party, Age::Present));
                steps.extend(stale.then_some(Step::Read(party, Age::Past)));
            }
            Pending::HalfLooked(_, from_the_past) => {
                steps.push(Step::List(party, Age::Present));
                // A server does not go back.
                steps.extend((stale && *from_the_past).then_some(Step::List(party, Age::Past)));
            }
            Pending::Watch(_) => steps.push(Step::Watch(party)),
            Pending::Wait { changed } => {
                steps.extend(changed.then_some(Step::Changed(party)));
                let touched = node.is_none_or(|node| node.touched);
                steps.extend(touched.then_some(Step::Touched(party)));
            }
            Pending::Delay => steps.push(Step::Delayed(party)),
            Pending::Attempt(_) => steps.push(Step::Serve(party)),
            Pending::Answered(_) => steps.push(Step::Hear(party)),
            Pending::Settle => steps.push(Step::ReadTurnstile(party)),
            Pending::HalfSettled(_) => {
                steps.push(Step::Settle(party, Lateness::Settled));
                let late = faults.late > 0 && !contender.strays.is_empty();
                steps.extend(late.then_some(Step::Settle(party, Lateness::Late)));
            }
            Pending::Leave => steps.push(Step::Leave(party)),
            Pending::Nothing | Pending::Deaf => {}
        }
        if contender.departs {
            steps.push(Step::Leave(party));
        }
        if !contender.strays.is_empty() {
            steps.push(Step::ApplyStray(party));
        }
        let asks = !matches!(contender.pending, Pending::Nothing | Pending::Deaf | Pending::Leave);
        if asks && !contender.cut && faults.breaks > 0 {
            steps.push(Step::Break(party));
        }
        // The lease of a holder ends first.
        let outlives = setup.mutant == Some(Mutant::OutlivesItsSession) && contender.caller == Caller::Held;
        let expires = match contender.caller {
            Caller::Idle | Caller::Done => contender.machine.is_some() && faults.expiries > 0,
            Caller::Waiting => faults.expiries > 0,
            Caller::Held => outlives && faults.expiries > 0,
            Caller::Lapsed => true,
        };
        steps.extend(expires.then_some(Step::Expire(party)));
        if contender.caller == Caller::Waiting && faults.departures > 0 {
            steps.push(Step::Depart(party));
        }
        if faults.evictions > 0 && self.pool.permits.iter().any(|permit| permit.party == party) {
            steps.push(Step::Evict(party));
        }
        if faults.displacements > 0 && node.is_some() {
            steps.push(Step::Displace(party));
        }
        if faults.touches > 0 && contender.machine.is_some() && node.is_some_and(|node| !node.touched) {
            steps.push(Step::Touch(party));
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_quiet(&self, setup: &Setup) -> bool {
        let mut steps = Vec::new();
        self.steps(setup, &mut steps);
        steps.iter().all(|step| step.is_voluntary(self))
    }

    pub(crate) fn take(&mut self, step: Step, setup: &Setup, witness: &impl Fn(Witness)) {
        Run { world: self, setup, witness }.take(step);
        let hollow = |(party, contender): (Party, &Contender)| {
            let permit = self.pool.permit(party, contender.ticket);
            contender.caller == Caller::Held && !contender.evicted && permit.is_none()
        };
        if self.contenders.iter().enumerate().any(hollow) {
            self.breach(Breach::Hollow);
        }
    }
}

fn number(stock: zklock_recipe::Stock) -> u32 {
    let (zklock_recipe::Stock::Permits(number) | zklock_recipe::Stock::Slots(number)) = stock;
    number
}

/// One step under way.
struct Run<'a, W> {
    world: &'a mut World,
    setup: &'a Setup,
    witness: &'a W,
}

impl<W: Fn(Witness)> Run<'_, W> {
    fn is(&self, mutant: Mutant) -> bool {
        self.setup.mutant == Some(mutant)
    }

    fn is_delayed(&self) -> bool {
        self.setup.takeover == Takeover::Delayed
    }

    fn pool(&mut self, age: Age) -> Pool {
        match (age, &self.world.past) {
            (Age::Past, Some(past)) => {
                (self.witness)(Witness::AnsweredFromThePast);
                past.clone()
            }
            _ => self.world.pool.clone(),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Enqueue(party) => self.enqueue(party),
            Step::Begin(party) => self.begin(party),
            Step::Requeue(party) => self.requeue(party),
            Step::Read(party, age) => self.read(party, age),
            Step::List(party, age) => self.list(party, age),
            Step::Watch(party) => self.watch(party),
            Step::Changed(party) => self.feed(party, Event::Changed),
            Step::Touched(party) => self.feed(party, Event::Touched),
            Step::Delayed(party) => self.delayed(party),
            Step::Serve(party) => {
                let Pending::Attempt(attempt) = self.world.contenders[party].pending else { return };
                self.world.contenders[party].pending = Pending::Answered(self.apply(party, attempt));
            }
            Step::Hear(party) => {
                let Pending::Answered(reply) = self.world.contenders[party].pending else { return };
                let ticket = self.world.contenders[party].ticket;
                let event = match reply {
                    // An operator may have deleted it by now.
                    Reply::Admitted(kind) => Event::Admitted(Permit { party, ticket, kind }.own()),
                    Reply::Changed => Event::PoolChanged,
                    Reply::NotHeld => Event::NotHeld,
                };
                self.feed(party, event);
            }
            Step::ApplyStray(party) => {
                let contender = &mut self.world.contenders[party];
                let late = !matches!(contender.pending, Pending::Settle | Pending::HalfSettled(_));
                let attempt = contender.strays.remove(0);
                let applied = matches!(self.apply(party, attempt), Reply::Admitted(_));
                (self.witness)(if applied { Witness::StrayApplied } else { Witness::StrayRefused });
                if applied && late {
                    (self.witness)(Witness::LateApplied);
                }
            }
            Step::ReadTurnstile(party) => {
                let half = match self.is(Mutant::SettlesInTheWrongOrder) {
                    true => Half::Permit(self.permit(party)),
                    false => Half::Standing(self.standing(party)),
                };
                self.world.contenders[party].pending = Pending::HalfSettled(half);
            }
            Step::Settle(party, lateness) => self.settle(party, lateness),
            Step::Leave(party) => {
                self.world.leave_turnstile(party);
                let contender = &mut self.world.contenders[party];
                contender.departs = false;
                if contender.pending == Pending::Leave {
                    self.feed(party, Event::Left);
                }
            }
            Step::Release(party) => {
                self.give_back(party);
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
                self.world.change(self.setup, false, |pool| pool.permits.retain(|it| it.party != party));
                self.world.vanish(self.setup);
            }
            Step::Displace(party) => {
                self.world.faults.displacements -= 1;
                self.world.leave_turnstile(party);
            }
            Step::Touch(party) => {
                self.world.faults.touches -= 1;
                let own = self.world.queue.iter_mut().filter(|node| node.party == party);
                own.for_each(|node| node.touched = true);
            }
            Step::Change(more) => {
                self.world.faults.changes -= 1;
                self.world.change(self.setup, true, |pool| {
                    let changed = if more { number(pool.stock) + 1 } else { number(pool.stock) - 1 };
                    pool.version += 1;
                    match &mut pool.stock {
                        zklock_recipe::Stock::Permits(number) | zklock_recipe::Stock::Slots(number) => {
                            *number = changed
                        }
                    }
                });
            }
        }
    }

    fn enqueue(&mut self, party: Party) {
        let ticket = self.world.next;
        self.world.next += 1;
        let behind = self.is_delayed() && !self.world.queue.is_empty();
        self.world.queue.push(InTurnstile { party, ticket, touched: false });
        let contender = &mut self.world.contenders[party];
        (contender.ticket, contender.evicted, contender.caller) = (ticket, false, Caller::Waiting);
        contender.waited |= behind;
        self.remember(party, behind, |reasons| &mut reasons.turnstile);
    }

    /// Remembers why a contender must delay. Without a mutant, the machine itself remembers that from its begin on.
    fn remember(&mut self, party: Party, is_so: bool, reason: impl FnOnce(&mut Reasons) -> &mut bool) {
        let is_so = is_so && self.is_delayed();
        let contender = &mut self.world.contenders[party];
        if is_so && (self.setup.mutant.is_some() || contender.machine.is_none()) {
            *reason(&mut contender.reasons) = true;
        }
    }

    fn begin(&mut self, party: Party) {
        let (wish, patience) = self.setup.wishes[party];
        if patience == Patience::Try && !self.world.is_first(party) {
            (self.witness)(Witness::FoundBusy);
            self.world.leave_turnstile(party);
            self.world.contenders[party].caller = Caller::Done;
            return;
        }
        let mut reasons = self.world.contenders[party].reasons;
        reasons.turnstile &= !self.is(Mutant::ForgetsTheTurnstile);
        let patience = if self.is(Mutant::WaitsThoughItTries) { Patience::Wait } else { patience };
        self.start(party, wish, patience, reasons);
    }

    fn start(&mut self, party: Party, wish: Wish, patience: Patience, reasons: Reasons) {
        let arrival = if reasons == Reasons::default() { Arrival::New } else { Arrival::Queued };
        let machine = Admission::new(wish, patience, self.setup.takeover, arrival);
        let contender = &mut self.world.contenders[party];
        contender.machine = Some(machine);
        if self.setup.mutant.is_none() {
            contender.reasons = Reasons::default();
        }
        self.feed(party, Event::Begin);
    }

    /// The acquisition queues again, as one that has waited.
    fn requeue(&mut self, party: Party) {
        (self.witness)(Witness::QueuedAgain);
        self.world.contenders[party].caller = Caller::Idle;
        self.remember(party, true, |reasons| &mut reasons.attempt);
    }

    /// Gives the machine an event, and performs what follows.
    fn feed(&mut self, party: Party, event: Event) {
        let contender = &mut self.world.contenders[party];
        // What was asked for is answered, whether or not the machine goes on by that.
        let asked = match event {
            Event::GiveUp => contender.pending.clone(),
            _ => std::mem::replace(&mut contender.pending, Pending::Nothing),
        };
        if self.swallows(party, &event, &asked) {
            return;
        }
        let broken = self.mutate(party, &event, &asked);
        let Some(machine) = &mut self.world.contenders[party].machine else { return };
        let in_vain = matches!(
            event,
            Event::PoolChanged | Event::Unanswered | Event::Settled(Settlement::Not(Standing::Held))
        );
        if let Event::Settled(Settlement::Not(Standing::Held)) = event {
            (self.witness)(Witness::NotCommitted);
        }
        let commands = machine.handle(broken.unwrap_or(event));
        if machine.is_ended() {
            (self.world.contenders[party].machine, self.world.contenders[party].pending) =
                (None, Pending::Nothing);
        }
        self.remember(party, in_vain, |reasons| &mut reasons.attempt);
        for command in commands {
            self.perform(party, command, &asked);
        }
    }

    /// Whether a mutant does not hear the event.
    fn swallows(&self, party: Party, event: &Event, asked: &Pending) -> bool {
        let gone = self.world.contenders[party].caller == Caller::Done;
        let settles = matches!(asked, Pending::Settle | Pending::HalfSettled(_));
        match (self.setup.mutant, event) {
            (Some(Mutant::StopsAtSilence), Event::Unanswered) => settles && !gone,
            (Some(Mutant::GivesItsDoubtUp), Event::Unanswered) => settles && gone,
            (Some(Mutant::ForgetsThatItsCallerHasGone), Event::GiveUp) => {
                settles || matches!(asked, Pending::Attempt(_) | Pending::Answered(_))
            }
            _ => false,
        }
    }

    /// What a mutant takes the event for.
    fn mutate(&self, party: Party, event: &Event, asked: &Pending) -> Option<Event> {
        let mutant = self.setup.mutant?;
        let count = |seen: &Seen| {
            let mut seen = seen.clone();
            match (mutant, self.setup.wishes[party].0) {
                (Mutant::CountsItself, Wish::Permit(weight)) => {
                    seen.children.push(format!("permit-{weight}-{:010}", 100 + party));
                }
                (Mutant::SumsCounts, _) => {
                    let name = |number| format!("permit-1-{number:010}");
                    seen.children = (0..seen.children.len()).map(name).collect();
                }
                _ => return None,
            }
            Some(seen)
        };
        match event {
            Event::Looked(standing, Some((seen, stated))) => {
                Some(Event::Looked(*standing, Some((count(seen)?, *stated))))
            }
            Event::Watched(Some((seen, stated))) => match (mutant, asked) {
                (Mutant::TrustsItsFirstLook, Pending::Watch(before)) => {
                    Some(Event::Watched(Some((before.clone(), *stated))))
                }
                _ => Some(Event::Watched(Some((count(seen)?, *stated)))),
            },
            Event::Unanswered if mutant == Mutant::TriesAgain => Some(Event::PoolChanged),
            Event::Looked(Standing::Touched, _) if mutant == Mutant::TakesTouchedForGone => {
                Some(Event::Looked(Standing::Gone, None))
            }
            Event::Settled(Settlement::Not(Standing::Touched)) if mutant == Mutant::TakesTouchedForGone => {
                Some(Event::Settled(Settlement::Not(Standing::Gone)))
            }
            _ => None,
        }
    }

    fn perform(&mut self, party: Party, command: Command, asked: &Pending) {
        let contender = &mut self.world.contenders[party];
        match command {
            Command::Look => (contender.pending, contender.cut) = (Pending::Look, false),
            Command::Watch(_) | Command::Attempt(..) if contender.cut => {
                // It is not sent: its connection is gone.
                contender.cut = false;
                self.feed(party, Event::Unanswered);
            }
            Command::Watch(seen) => {
                contender.pending = Pending::Watch(seen);
                self.remember(party, true, |reasons| &mut reasons.room);
            }
            Command::Wait => {
                (self.witness)(Witness::Waited);
                contender.pending = Pending::Wait { changed: false };
                self.waits(party);
            }
            Command::Delay => {
                self.waits(party);
                let contender = &mut self.world.contenders[party];
                let mut reasons = contender.reasons;
                reasons.room &= !self.is(Mutant::ForgetsThatItWaited);
                reasons.attempt &= !self.is(Mutant::ForgetsItsAttempt);
                if self.setup.mutant.is_some() && reasons == Reasons::default() {
                    return self.feed(party, Event::Delayed);
                }
                self.world.contenders[party].pending = Pending::Delay;
            }
            Command::Attempt(kind, seen) => {
                let delayed = *asked == Pending::Delay;
                let owes = contender.owes && !delayed;
                let attempt = Attempt {
                    ticket: contender.ticket,
                    version: seen.version,
                    kind,
                    owes,
                    at_once: !delayed,
                };
                contender.pending = Pending::Attempt(attempt);
            }
            Command::Settle => (contender.pending, contender.cut) = (Pending::Settle, false),
            Command::Leave => contender.pending = Pending::Leave,
            Command::Depart | Command::Forfeit => contender.departs = true,
            // Nobody removes the turnstile here, so no name is given again.
            Command::Spend | Command::ExpectLate => {}
            Command::GiveBack(..) => {
                (self.witness)(Witness::GivenBack);
                self.give_back(party);
            }
            // The caller has gone, so nobody hears it.
            Command::Tell(_) if contender.caller != Caller::Waiting => {}
            Command::Tell(Outcome::Admitted(..)) => contender.caller = Caller::Held,
            Command::Tell(Outcome::Displaced) => self.requeue(party),
            Command::Tell(Outcome::Busy) => {
                (self.witness)(Witness::FoundBusy);
                contender.caller = Caller::Done;
            }
            Command::Tell(Outcome::Unfit(..)) => {
                (self.witness)(Witness::Refused);
                contender.caller = Caller::Done;
            }
            command @ (Command::Create
            | Command::EndSession(_)
            | Command::Tell(Outcome::Foreign | Outcome::Refused(_))) => {
                unreachable!("{command:?}: the pool is there, and ours, and each reply is clear")
            }
        }
    }

    fn waits(&mut self, party: Party) {
        if self.setup.wishes[party].1 == Patience::Try {
            self.world.breach(Breach::TriedAndWaited);
        }
    }

    fn give_back(&mut self, party: Party) {
        let ticket = self.world.contenders[party].ticket;
        if self.world.pool.permit(party, ticket).is_some() {
            self.world.change(self.setup, false, |pool| pool.remove(party, ticket));
        }
    }

    fn permit(&self, party: Party) -> Option<zklock_recipe::Own> {
        self.world.pool.permit(party, self.world.contenders[party].ticket).map(Permit::own)
    }

    fn standing(&self, party: Party) -> Standing {
        match self.world.ticket(party) {
            Some(node) if node.touched => Standing::Touched,
            Some(_) => Standing::Held,
            None => Standing::Gone,
        }
    }

    fn read(&mut self, party: Party, age: Age) {
        let standing = self.standing(party);
        if standing == Standing::Gone && self.is(Mutant::TakesGoneForFailed) {
            let contender = &mut self.world.contenders[party];
            (contender.machine, contender.pending) = (None, Pending::Nothing);
            return self.requeue(party);
        }
        if standing != Standing::Held && !self.is(Mutant::TriesAgain) {
            if standing == Standing::Touched {
                (self.witness)(Witness::FoundTouched);
            }
            // What it shows of the pool counts for nothing then.
            return self.feed(party, Event::Looked(standing, None));
        }
        if age == Age::Past {
            self.world.faults.stale -= 1;
        }
        let seen = self.pool(age).seen();
        self.world.contenders[party].pending = Pending::HalfLooked(seen, age == Age::Past);
    }

    fn list(&mut self, party: Party, age: Age) {
        let Pending::HalfLooked(first, _) = self.world.contenders[party].pending.clone() else { return };
        let second = self.pool(age).seen();
        let seen = match self.is(Mutant::ListsBeforeItReads) {
            true => Seen { children: first.children, ..second },
            false => Seen { children: second.children, ..first },
        };
        self.world.contenders[party].owes_since_its_look = false;
        let stated = stated(&seen);
        self.feed(party, Event::Looked(Standing::Held, Some((seen, stated))));
        self.has_seen(party);
    }

    /// Sets both watches, and sees the pool as it is then.
    fn watch(&mut self, party: Party) {
        let seen = self.pool(Age::Present).seen();
        self.world.contenders[party].owes_since_its_look = false;
        let stated = stated(&seen);
        self.feed(party, Event::Watched(Some((seen, stated))));
        if !matches!(self.world.contenders[party].pending, Pending::Wait { .. }) {
            (self.witness)(Witness::FoundRoomAtTheWatch);
        }
        self.has_seen(party);
    }

    fn has_seen(&mut self, party: Party) {
        let delayed = self.is_delayed();
        let contender = &mut self.world.contenders[party];
        contender.waited |= delayed && contender.caller != Caller::Done;
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

    /// The transaction, as a server carries it out.
    fn apply(&mut self, party: Party, attempt: Attempt) -> Reply {
        let ours = |node: &InTurnstile| (node.party, node.ticket) == (party, attempt.ticket);
        let place = self.world.queue.iter().position(ours);
        let held = place.is_some_and(|place| !self.world.queue[place].touched);
        if !held && !self.is(Mutant::IgnoresTheTurnstile) && !self.is(Mutant::TriesAgain) {
            return Reply::NotHeld;
        }
        if attempt.version != i32::from(self.world.pool.version) && !self.is(Mutant::IgnoresTheVersion) {
            (self.witness)(Witness::SentInVain);
            return Reply::Changed;
        }
        if self.world.pool.permit(party, attempt.ticket).is_some() {
            self.world.breach(Breach::Twice);
        }
        if attempt.owes {
            self.world.breach(Breach::Undelayed);
        }
        if self.is_delayed() && attempt.at_once {
            (self.witness)(Witness::AdmittedAtOnce);
        }
        if place != Some(0) {
            self.world.breach(Breach::Overtaken);
        }
        let beside = !self.world.pool.permits.is_empty();
        let kind = attempt.kind;
        self.world.change(self.setup, false, |pool| {
            pool.permits.push(Permit { party, ticket: attempt.ticket, kind });
            pool.version += 1;
        });
        self.world.queue.retain(|node| !ours(node));
        if self.world.pool.is_exceeded() {
            self.world.breach(Breach::Exceeded);
        }
        if beside {
            (self.witness)(Witness::HeldTogether);
        }
        match (self.setup.wishes[party].0, kind) {
            (_, Kind::Permit(2..)) => (self.witness)(Witness::LargeHeld),
            (Wish::Slot(Some(wished)), Kind::Slot(index)) if wished != index => {
                (self.witness)(Witness::TookAnotherSlot);
            }
            _ => {}
        }
        Reply::Admitted(kind)
    }

    fn settle(&mut self, party: Party, lateness: Lateness) {
        if lateness == Lateness::Late {
            self.world.faults.late -= 1;
        } else {
            self.world.contenders[party].strays.clear();
        }
        let (standing, permit) = match self.world.contenders[party].pending {
            Pending::HalfSettled(Half::Standing(standing)) => (standing, self.permit(party)),
            Pending::HalfSettled(Half::Permit(permit)) => (self.standing(party), permit),
            _ => return,
        };
        if permit.is_some() {
            (self.witness)(Witness::Adopted);
        }
        let settlement = permit.map_or(Settlement::Not(standing), Settlement::Admitted);
        self.feed(party, Event::Settled(settlement));
    }

    fn break_connection(&mut self, party: Party) {
        self.world.faults.breaks -= 1;
        let mutant = self.setup.mutant;
        let contender = &mut self.world.contenders[party];
        match contender.pending.clone() {
            // The watch is lost. Broken, the contender waits for it all the same.
            Pending::Wait { .. } if mutant == Some(Mutant::ForgetsThatItsWatchIsLost) => {
                contender.pending = Pending::Deaf;
                return;
            }
            Pending::Wait { .. } => return self.feed(party, Event::Changed),
            Pending::Delay => {
                contender.cut = true;
                return;
            }
            Pending::Attempt(attempt) => contender.strays.push(attempt),
            _ => {}
        }
        let attempted = matches!(contender.pending, Pending::Attempt(_) | Pending::Answered(_));
        if attempted && mutant == Some(Mutant::TakesUnknownForFailed) {
            // Its old node goes, as that of any failed acquisition.
            (contender.machine, contender.pending, contender.departs) = (None, Pending::Nothing, true);
            return self.requeue(party);
        }
        self.feed(party, Event::Unanswered);
    }

    /// The session ends, and its nodes go with it. The leader refuses what it has sent before.
    fn expire(&mut self, party: Party) {
        (self.witness)(Witness::Expired);
        let lapsed = self.world.contenders[party].caller == Caller::Lapsed;
        if !lapsed {
            self.world.faults.expiries -= 1;
        }
        self.world.leave_turnstile(party);
        if self.world.pool.permits.iter().any(|permit| permit.party == party) {
            self.world.change(self.setup, false, |pool| pool.permits.retain(|permit| permit.party != party));
            self.world.vanish(self.setup);
        }
        let contender = &mut self.world.contenders[party];
        contender.strays.clear();
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
            let pending = std::mem::replace(&mut contender.pending, Pending::Nothing);
            (contender.machine, contender.departs) = (None, true);
            if let Pending::Attempt(attempt) = pending {
                // It is on its way, in front of the deletion of the node in the turnstile.
                let _nobody_hears = self.apply(party, attempt);
            }
            return;
        }
        self.feed(party, Event::GiveUp);
        let contender = &mut self.world.contenders[party];
        if forgets && contender.departs {
            (contender.machine, contender.pending) = (None, Pending::Nothing);
        }
    }
}

/// Everybody knows how much the pool has.
fn stated(seen: &Seen) -> Stated {
    Stated { stock: seen.stock.expect("the pool is ours"), changed: false }
}
