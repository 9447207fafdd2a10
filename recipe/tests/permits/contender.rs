//! A contender: what its machine is told, and how what that asks for is sent.

use zklock_recipe::admission::{
    Admission, Command, Event, Outcome, Seen, Settlement, Standing, Stated, Target, attempt, attempt_failed,
};
use zklock_recipe::transaction::Operation;
use zklock_recipe::{Arrival, Kind, Own, Patience, Takeover, Wish};

use super::contest::PATIENT;
use super::pool::{Caller, Data, POOL, Pending, Reasons, TURNSTILE, seen, standing, stock};
use super::run::Run;
use super::setup::{Mutant, Party, Witness};
use crate::world::ensemble::{Answer, Ask, Word};
use crate::world::tree::{Change, Directory, Name, Named, Node, Path, Transaction};

impl Run<'_> {
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.setup.mutant == Some(mutant)
    }

    pub(crate) fn is_delayed(&self) -> bool {
        self.setup.takeover == Takeover::Delayed
    }

    /// Remembers why a contender must delay. Without a mutant, the machine itself remembers that from its begin on.
    pub(crate) fn remember(
        &mut self,
        party: Party,
        is_so: bool,
        reason: impl FnOnce(&mut Reasons) -> &mut bool,
    ) {
        let is_so = is_so && self.is_delayed();
        let contender = &mut self.world.contenders[party];
        if is_so && (self.setup.mutant.is_some() || contender.machine.is_none()) {
            *reason(&mut contender.reasons) = true;
        }
    }

    pub(crate) fn begin(&mut self, party: Party) {
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

    pub(crate) fn start(&mut self, party: Party, wish: Wish, patience: Patience, reasons: Reasons) {
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
    pub(crate) fn requeue(&mut self, party: Party) {
        (self.witness)(Witness::QueuedAgain);
        self.world.contenders[party].caller = Caller::Idle;
        self.remember(party, true, |reasons| &mut reasons.attempt);
    }

    /// Gives the machine an event, and performs what follows.
    pub(crate) fn feed(&mut self, party: Party, event: Event) {
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
            self.end_machine(party);
        }
        self.remember(party, in_vain, |reasons| &mut reasons.attempt);
        for command in commands {
            self.perform(party, command, &asked);
        }
    }

    /// Nothing is asked or awaited any more.
    pub(crate) fn end_machine(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        (contender.machine, contender.pending, contender.watched) = (None, Pending::Nothing, None);
        self.world.ensemble.unwatch(party);
    }

    /// Whether a mutant does not hear the event.
    fn swallows(&self, party: Party, event: &Event, asked: &Pending) -> bool {
        let gone = self.world.contenders[party].caller == Caller::Done;
        let settles = *asked == Pending::Settle;
        match (self.setup.mutant, event) {
            (Some(Mutant::StopsAtSilence), Event::Unanswered) => settles && !gone,
            (Some(Mutant::GivesItsDoubtUp), Event::Unanswered) => settles && gone,
            (Some(Mutant::ForgetsThatItsCallerHasGone), Event::GiveUp) => {
                settles || matches!(asked, Pending::Attempt(_))
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
            Event::Looked(Standing::Touched, _) if mutant == Mutant::TakesTouchedForGone => {
                Some(Event::Looked(Standing::Gone, None))
            }
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
            Event::Settled(Settlement::Not(Standing::Touched)) if mutant == Mutant::TakesTouchedForGone => {
                Some(Event::Settled(Settlement::Not(Standing::Gone)))
            }
            _ => None,
        }
    }

    fn perform(&mut self, party: Party, command: Command, asked: &Pending) {
        let (pool, number) = (Path::Directory(POOL), self.world.contenders[party].connection);
        let delayed = *asked == Pending::Delay;
        if command != Command::Wait {
            // The next wait is for another watch of the children.
            self.world.ensemble.unwatch_children(party);
        }
        let contender = &mut self.world.contenders[party];
        match command {
            Command::Look => {
                let mut asks = vec![Ask::Get(pool, false), Ask::List(POOL, false)];
                if self.is(Mutant::ListsBeforeItReads) {
                    asks.reverse();
                }
                asks.insert(0, self.own(party));
                self.renumber(party);
                self.ask(party, Pending::Look, asks);
            }
            // It is not sent: its connection is gone.
            Command::Watch(seen) | Command::Attempt(_, seen) if seen.connection != number => {
                self.feed(party, Event::Unanswered);
            }
            // A watch of the data that still stands need not be set again. That of the children is another one from here on.
            Command::Watch(seen) => {
                let is_watched = contender.watched.replace(number) == Some(number);
                let watches = !self.is(Mutant::WatchesPermitsOnly);
                let data = (!is_watched).then_some(Ask::Get(pool, watches));
                self.ask(party, Pending::Watch(seen), data.into_iter().chain([Ask::List(POOL, true)]));
                self.remember(party, true, |reasons| &mut reasons.room);
            }
            Command::Wait => {
                (self.witness)(Witness::Waited);
                contender.pending = Pending::Wait;
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
                let owes = contender.owes && !delayed;
                self.note(Witness::AttemptedAtOnce, self.is_delayed() && !delayed);
                let transaction = self.transaction(party, kind, &seen, owes);
                self.ask(party, Pending::Attempt(kind), [Ask::Commit(transaction)]);
            }
            Command::Settle => {
                let mut asks = vec![self.own(party), Ask::Sync, Ask::List(POOL, false)];
                if self.is(Mutant::SettlesInTheWrongOrder) {
                    asks.reverse();
                }
                self.renumber(party);
                self.ask(party, Pending::Settle, asks);
            }
            Command::Leave => contender.pending = Pending::Leave,
            Command::Depart | Command::Forfeit => contender.departs = true,
            // Nobody removes the turnstile here, so no name is given again.
            Command::Spend | Command::ExpectLate => {}
            Command::GiveBack(permit, _) => {
                (self.witness)(Witness::GivenBack);
                self.give_back(permit);
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

    /// The machine remembers no connection from here on, so the present one can be called the first.
    fn renumber(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        let number = std::mem::take(&mut contender.connection);
        contender.watched = contender.watched.filter(|watched| *watched == number).map(|_| 0);
    }

    fn ask(&mut self, party: Party, pending: Pending, asks: impl IntoIterator<Item = Ask<Data>>) {
        self.world.contenders[party].pending = pending;
        self.world.ensemble.send(party, asks);
    }

    /// Reads the node in the turnstile.
    fn own(&self, party: Party) -> Ask<Data> {
        let own = self.world.contenders[party].own.expect("it is in the turnstile");
        Ask::Get(Path::Child(TURNSTILE, own.place), false)
    }

    /// The shipped operations, or what a mutant makes of them.
    fn operations(&self, kind: Kind, version: i32) -> Vec<Operation<Target>> {
        let keeps = |operation: &Operation<Target>| {
            let ignored = self.is(Mutant::IgnoresTheTurnstile) || self.is(Mutant::TriesAgain);
            !ignored || *operation.node() != Target::Turnstile
        };
        let checks = |operation| match operation {
            Operation::Set(Target::Pool, _) if self.is(Mutant::IgnoresTheVersion) => {
                Operation::Set(Target::Pool, None)
            }
            operation => operation,
        };
        attempt(kind, version).into_iter().filter(keeps).map(checks).collect()
    }

    fn transaction(&self, party: Party, kind: Kind, seen: &Seen, owes: bool) -> Transaction<Data> {
        let own = self.world.contenders[party].own.expect("it is in the turnstile");
        let stock = seen.stock.expect("the pool is ours");
        let name = |target| match target {
            Target::Turnstile => Named::of(Path::Child(TURNSTILE, own.place)),
            Target::Permit(kind) => {
                Named { name: Name::Next(POOL, kind), data: Data::Permit { id: own.czxid, owes } }
            }
            Target::Pool => Named { name: Name::At(Path::Directory(POOL)), data: Data::Stock(stock) },
        };
        self.operations(kind, seen.version).into_iter().map(|operation| operation.map(name)).collect()
    }

    /// All answers to the last request are there, and they are reads.
    pub(crate) fn listen(&mut self, party: Party) {
        let pending = self.world.contenders[party].pending.clone();
        let (wanted, reads_own, reads_pool) = match pending {
            Pending::Look => (3, true, true),
            Pending::Settle => (3, true, false),
            Pending::Watch(_) => (1, false, true),
            _ => return,
        };
        let link = &mut self.world.ensemble.links[party];
        let is_answer = |word: &Word<Data>| matches!(word, Word::Answer(_));
        let (answers, events): (Vec<_>, Vec<_>) = link.down.iter().cloned().partition(is_answer);
        if !link.up.is_empty() || answers.len() < wanted {
            return;
        }
        link.down = events;
        let (mut got, mut listed) = (Vec::new(), None);
        for answer in answers {
            match answer {
                Word::Answer(Answer::Got(found)) => got.push(found),
                Word::Answer(Answer::Listed(found)) => listed = found,
                _ => {}
            }
        }
        // The last answers: those to an earlier request, which nobody awaits any more, come before them.
        let mut last = |wanted: bool| if wanted { got.pop().flatten() } else { None };
        let (pool, own) = (last(reads_pool), last(reads_own));
        let listed = listed.expect("the pool is there");
        match pending {
            Pending::Look => self.looked(party, own.as_ref(), pool.as_ref(), &listed),
            Pending::Watch(before) => self.watched(party, &before, pool.as_ref(), &listed),
            _ => self.settled(party, own.as_ref(), &listed),
        }
    }

    fn looked(
        &mut self,
        party: Party,
        own: Option<&Node<Data>>,
        pool: Option<&Node<Data>>,
        listed: &Directory<Data>,
    ) {
        let standing = standing(own, self.world.contenders[party].own);
        if standing == Standing::Gone && self.is(Mutant::TakesGoneForFailed) {
            self.end_machine(party);
            return self.requeue(party);
        }
        let standing = if self.is(Mutant::TriesAgain) { Standing::Held } else { standing };
        self.note(Witness::FoundTouched, standing == Standing::Touched);
        let pool = pool.expect("the pool is there");
        let seen = seen(pool, &listed.children, self.world.contenders[party].connection);
        self.world.contenders[party].owes_since_its_look = false;
        let stated = stated(&seen);
        self.feed(party, Event::Looked(standing, Some((seen, stated))));
        self.has_seen(party);
    }

    fn watched(&mut self, party: Party, before: &Seen, pool: Option<&Node<Data>>, listed: &Directory<Data>) {
        let (version, stock) =
            pool.map_or((before.version, before.stock), |pool| (pool.version, stock(Some(pool))));
        // The pool has changed in between.
        if listed.node.version != version {
            return self.feed(party, Event::Watched(None));
        }
        let seen = Seen { stock, ..seen(&listed.node, &listed.children, before.connection) };
        self.world.contenders[party].owes_since_its_look = false;
        let stated = stated(&seen);
        self.feed(party, Event::Watched(Some((seen, stated))));
        self.note(
            Witness::FoundRoomAtTheWatch,
            !matches!(self.world.contenders[party].pending, Pending::Wait),
        );
        self.has_seen(party);
    }

    fn settled(&mut self, party: Party, own: Option<&Node<Data>>, listed: &Directory<Data>) {
        let queued = self.world.contenders[party].own;
        let ours =
            |data| matches!(data, Data::Permit { id, .. } if queued.is_some_and(|own| own.czxid == id));
        let settlement = match listed.children.iter().find(|(_, node)| ours(node.data)) {
            Some((place, node)) => {
                (self.witness)(Witness::Adopted);
                Settlement::Admitted(Own { place: *place, czxid: node.czxid })
            }
            None => Settlement::Not(standing(own, queued)),
        };
        self.feed(party, Event::Settled(settlement));
    }

    /// The answer to a transaction, or what a watch shows.
    pub(crate) fn hear(&mut self, party: Party) {
        let words = std::mem::take(&mut self.world.ensemble.links[party].down);
        let Pending::Attempt(kind) = self.world.contenders[party].pending else {
            if words.iter().any(|word| matches!(word, Word::Event(_, Change::Written, _))) {
                self.world.contenders[party].watched = None;
            }
            return self.feed(party, Event::Changed);
        };
        for word in words {
            let event = match word {
                Word::Answer(Answer::Committed(created)) => Event::Admitted(created[0]),
                Word::Answer(Answer::Failed(index, problem)) => {
                    let target = *self.operations(kind, 0)[index].node();
                    self.note(Witness::SentInVain, target == Target::Pool);
                    attempt_failed(target, problem)
                }
                event => {
                    self.world.ensemble.links[party].down.push(event);
                    continue;
                }
            };
            self.feed(party, event);
        }
    }

    fn waits(&mut self, party: Party) {
        self.forbid(PATIENT, self.setup.wishes[party].1 == Patience::Try);
    }

    pub(crate) fn give_back(&mut self, permit: Own) {
        let path = Path::Child(POOL, permit.place);
        let there = self.world.tree().has(POOL, permit);
        self.world.ensemble.delete(there.then_some(path));
    }

    fn has_seen(&mut self, party: Party) {
        let delayed = self.is_delayed();
        let contender = &mut self.world.contenders[party];
        contender.waited |= delayed && contender.caller != Caller::Done;
    }
}

/// Everybody knows how much the pool has.
fn stated(seen: &Seen) -> Stated {
    Stated { stock: seen.stock.expect("the pool is ours"), changed: false }
}
