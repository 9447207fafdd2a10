//! The steps: which are possible, and what each does.

use stateright::Property;

use zklock_recipe::claim::{Claim, Outcome, Progress, RunEnd};
use zklock_recipe::ending::{self, Ending};

use super::claimer::{Caller, Claimer, Fate, Heard, Machine, Pending, Reply, Told};
use super::record::{Data, LOCK, World, record};
use super::setup::{Fault, Mutant, Party, Setup, Witness};
use super::{ALONE, CAUSED, Contest, HONEST, ONCE, RECORDED, TRUE, UNDENIED, properties};
use crate::world::act::{Act, act, possible};
use crate::world::ensemble::{Answer, Ensemble, Word};
use crate::world::exploration::{self, State};

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
        (0..self.retries.len()).for_each(|party| world.steps_of(party, steps));
    }

    fn mutated(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    fn properties(&self) -> Vec<Property<Contest>> {
        properties()
    }
}

impl World {
    fn steps_of(&self, party: Party, steps: &mut Vec<Act<Setup>>) {
        let claimer = &self.claimers[party];
        let (in_queue, link) = (self.is_queued(party), &self.ensemble.links[party]);
        let (rests, holds) = (claimer.machine.is_none(), self.holds(party));
        let runs = matches!(claimer.caller, Caller::Running { .. });
        let asks = matches!(claimer.pending, Pending::Look | Pending::Write);
        let writes = claimer.pending == Pending::Write && !link.up.is_empty();
        let recorded = self.record().is_some_and(|record| record.token == claimer.token());
        let meddles = (runs || claimer.caller == Caller::Ending) && recorded;
        let left = claimer.lost || claimer.caller == Caller::Dead;
        let waits = matches!(claimer.caller, Caller::Queued | Caller::Claiming);
        let has_guard = (!rests || runs) && !claimer.lost && holds;
        let idle = claimer.caller == Caller::Idle && rests;
        let acts = [
            (idle && claimer.claims > 0 && !in_queue, act!(enqueue)),
            // In the background, once the machine of a caller that has gone has ended.
            (claimer.caller == Caller::Gone && rests, act!(done)),
            (claimer.caller == Caller::Queued && holds, act!(begin)),
            (runs, act!(end_run(RunEnd::Succeeded))),
            (runs, act!(end_run(RunEnd::Failed))),
            // The turn is dropped.
            (runs, act!(done)),
            (self.ensemble.can_serve(party), act!(serve)),
            (!link.down.is_empty(), act!(hear_reply)),
            (claimer.pending == Pending::Release, act!(release)),
            (asks, act!(break_connection).due_to(Fault::Break)),
            (writes, act!(refuse).due_to(Fault::Refusal)),
            (meddles, act!(meddle(None)).due_to(Fault::Meddling)),
            (meddles, act!(meddle(Some(RunEnd::Succeeded))).due_to(Fault::Meddling)),
            (!link.strays.is_empty(), act!(apply_stray).voluntary(true)),
            (left && in_queue, act!(vanish)),
            (waits, act!(depart).due_to(Fault::Departure)),
            (has_guard, act!(lose).due_to(Fault::Loss)),
            (has_guard, act!(evict).due_to(Fault::Eviction)),
            (claimer.caller != Caller::Dead && in_queue, act!(crash).due_to(Fault::Crash)),
        ];
        steps.extend(possible(party, acts));
    }
}

impl Run<'_> {
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.setup.mutant == Some(mutant)
    }

    pub(crate) fn claimer(&mut self, party: Party) -> &mut Claimer {
        &mut self.world.claimers[party]
    }

    fn enqueue(&mut self, party: Party) {
        let own = self.world.ensemble.enqueue(party, LOCK);
        let claimer = self.claimer(party);
        (claimer.caller, claimer.own, claimer.lost) = (Caller::Queued, own, false);
    }

    /// A server serves its next request, and it hears what it has read.
    fn serve(&mut self, party: Party) {
        // Nobody asks under a guard that is known to be lost.
        if self.claimer(party).pending == Pending::Verify && self.claimer(party).lost {
            self.world.ensemble.links[party].up.clear();
            return self.feed(party, Heard::Lost);
        }
        self.carry_out(party, |ensemble| ensemble.serve(party, false));
        self.listen(party);
    }

    /// It hears what became of its transaction.
    fn hear_reply(&mut self, party: Party) {
        let Some(Word::Answer(answer)) = self.world.ensemble.links[party].down.pop() else { return };
        self.feed(party, Heard::Replied(reply(&answer)));
    }

    fn release(&mut self, party: Party) {
        self.world.leave(party);
        self.feed(party, Heard::Released);
    }

    fn apply_stray(&mut self, party: Party) {
        let mut applied = false;
        self.carry_out(party, |ensemble| {
            applied = matches!(ensemble.apply_stray(party), Answer::Committed(_));
        });
        self.note(Witness::StrayApplied, applied);
    }

    /// The node of a guard that was lost goes, as its session ends or its holder forfeits it.
    fn vanish(&mut self, party: Party) {
        self.note(Witness::LeftByTheDead, self.world.claimers[party].caller == Caller::Dead);
        self.world.leave(party);
    }

    fn end_run(&mut self, party: Party, end: RunEnd) {
        let claimer = self.claimer(party);
        let Caller::Running { version, .. } = claimer.caller else { return };
        let ending = Ending::new(end, claimer.token(), version);
        (claimer.caller, claimer.fate) = (Caller::Ending, Fate::Open);
        claimer.machine = Some(Machine::Ending(ending));
        self.feed(party, Heard::Begin);
    }

    /// The server has too much to do for a write.
    fn refuse(&mut self, party: Party) {
        self.world.ensemble.refuse(party);
    }

    /// An operator writes to the record: the same again, or that the run has succeeded.
    fn meddle(&mut self, _: Party, end: Option<RunEnd>) {
        self.world.meddle(end);
    }

    fn break_connection(&mut self, party: Party) {
        self.cut(party);
        self.feed(party, Heard::Unanswered);
    }

    fn evict(&mut self, party: Party) {
        self.world.leave(party);
        self.excuse(party);
        if let Caller::Running { valid, .. } = &mut self.claimer(party).caller {
            // It is told within a round trip, and the next holder may be quicker.
            *valid = false;
        }
    }

    fn crash(&mut self, party: Party) {
        self.cut(party);
        self.excuse(party);
        let claimer = self.claimer(party);
        (claimer.caller, claimer.machine, claimer.pending) = (Caller::Dead, None, Pending::Nothing);
    }

    /// It has the lock, and its machine begins.
    fn begin(&mut self, party: Party) {
        let retry = self.setup.retries[party] || self.is(Mutant::RetriesUnasked);
        let claimer = &mut self.world.claimers[party];
        claimer.caller = Caller::Claiming;
        claimer.tokens.push(claimer.token());
        // What an earlier guard has left can be taken back under this one.
        let left = self.world.record().map(|record| record.token);
        let claimer = &mut self.world.claimers[party];
        let left = left.filter(|token| claimer.tokens.contains(token));
        self.world.excused.retain(|token| Some(*token) != left);
        if self.setup.mutant == Some(Mutant::ForgetsItsTokens) {
            claimer.begins = Default::default();
        }
        claimer.machine = Some(Machine::Claim(Claim::new(claimer.token(), retry)));
        self.feed(party, Heard::Begin);
    }

    fn lose(&mut self, party: Party) {
        self.excuse(party);
        let claimer = self.claimer(party);
        claimer.lost = true;
        match &mut claimer.caller {
            Caller::Running { valid, .. } => *valid = false,
            caller => {
                let ends = *caller == Caller::Ending;
                let unanswered = ends && claimer.pending == Pending::Write;
                // What it has sent may still be carried out while the node is there.
                self.cut(party);
                self.feed(party, if unanswered { Heard::Unanswered } else { Heard::Lost });
            }
        }
    }

    /// What the claim has begun may stay.
    fn excuse(&mut self, party: Party) {
        let tokens = self.world.claimers[party].tokens.clone();
        self.world.excused.extend(tokens);
        self.world.excused.sort_unstable();
        self.world.excused.dedup();
    }

    /// Tells a process what it hears of its request.
    fn feed(&mut self, party: Party, heard: Heard) {
        if let Heard::Lost | Heard::Replied(Reply::Lost) = heard {
            self.excuse(party);
        }
        match self.hear(party, heard) {
            Some(Told::Claim(outcome)) => self.tell(party, outcome),
            Some(Told::End(outcome)) => self.tell_end(party, outcome),
            None if self.claimer(party).pending == Pending::Release => self.see_done(party),
            None => {}
        }
    }

    fn tell(&mut self, party: Party, outcome: Outcome<(), ()>) {
        if self.claimer(party).caller != Caller::Claiming {
            return;
        }
        match outcome {
            Outcome::Runs(attempt, version) => self.runs(party, attempt as u8, version),
            Outcome::Done(_) => {
                (self.witness)(Witness::ToldDone);
                self.done(party);
            }
            Outcome::Displaced => {
                (self.witness)(Witness::Displaced);
                // The same claim queues again, once the node is gone.
                self.claimer(party).caller = Caller::Idle;
            }
            Outcome::Unconfirmed => {
                (self.witness)(Witness::Unconfirmed);
                self.claimer(party).caller = Caller::Gone;
            }
            // Only a mutant says so.
            Outcome::Failed(()) => self.done(party),
            Outcome::Forgotten(()) => unreachable!("nothing is forgotten"),
        }
    }

    fn tell_end(&mut self, party: Party, outcome: ending::Outcome<()>) {
        use ending::Outcome::{Changed, Failed, Unconfirmed, Written};
        let claimer = self.claimer(party);
        let (fate, unheard, token) = (claimer.fate, claimer.unheard, claimer.token());
        if matches!(outcome, Changed | Failed(())) {
            claimer.fate = Fate::Denied;
        }
        let found = self.world.record().map(|record| (record.token, record.version));
        let breach = match outcome {
            Written => (fate != Fate::Written).then_some(TRUE),
            Changed | Failed(()) if fate == Fate::Written => Some(UNDENIED),
            Changed => (found == Some((token, 0))).then_some(CAUSED),
            Unconfirmed => (!unheard).then_some(CAUSED),
            Failed(()) => None,
        };
        breach.into_iter().for_each(|breach| self.breach(breach));
        (self.witness)(match outcome {
            Written if unheard => Witness::EndSeen,
            Written => Witness::EndTold,
            Changed => Witness::EndChanged,
            Unconfirmed if found.is_none_or(|(present, _)| present != token) => Witness::EndReplaced,
            Unconfirmed => Witness::EndUnconfirmed,
            Failed(()) => Witness::EndUnwritten,
        });
        self.done(party);
    }

    /// The process is about to be told that the run is done.
    fn see_done(&mut self, party: Party) {
        let begun = self.world.record().filter(|record| record.progress == Progress::Begun);
        self.forbid(
            HONEST,
            self.world.holds(party) && begun.is_some_and(|record| !self.world.knows(record.token)),
        );
    }

    fn runs(&mut self, party: Party, attempt: u8, version: i32) {
        let token = self.world.claimers[party].token();
        let earlier = !self.world.ran.is_empty();
        (self.witness)(if earlier { Witness::RanAgain } else { Witness::Ran });
        // One that is told too late has a guard that is not valid, and others may have gone on by its record.
        let recorded = self.world.record().map(|record| (record.token, record.progress));
        let valid = self.world.holds(party);
        self.forbid(ONCE, valid && earlier && !self.setup.retries[party]);
        self.forbid(ONCE, valid && self.world.succeeded);
        self.forbid(RECORDED, valid && recorded != Some((token, Progress::Begun)));
        self.world.ran.push(token);
        let claimer = self.claimer(party);
        (claimer.caller, claimer.attempt) = (Caller::Running { version, valid }, attempt);
    }

    /// The claim is over. The lock is released.
    fn done(&mut self, party: Party) {
        if !self.claimer(party).lost {
            self.world.leave(party);
        }
        let claimer = self.claimer(party);
        claimer.claims = claimer.claims.saturating_sub(1);
        (claimer.begins, claimer.tokens) = Default::default();
        (claimer.unheard, claimer.attempt, claimer.caller) = (false, 0, Caller::Idle);
        if self.world.ensemble.links[party].strays.is_empty() {
            self.claimer(party).fate = Fate::Open;
        }
    }

    /// The caller goes.
    fn depart(&mut self, party: Party) {
        let leaves = self.is(Mutant::LeavesItsBegin);
        let claimer = self.claimer(party);
        if claimer.caller == Caller::Queued {
            if !claimer.tokens.is_empty() {
                self.excuse(party);
            }
            return self.done(party);
        }
        claimer.caller = Caller::Gone;
        if leaves {
            // It is on its way, and nobody hears of it.
            while self.world.ensemble.can_serve(party) {
                self.carry_out(party, |ensemble| ensemble.serve(party, false));
            }
            self.world.ensemble.links[party].down.clear();
            let claimer = self.claimer(party);
            (claimer.machine, claimer.pending) = (None, Pending::Nothing);
            return self.done(party);
        }
        self.cut(party);
        self.feed(party, Heard::GiveUp);
    }

    /// Nobody waits any more for the answer to what is on its way.
    fn cut(&mut self, party: Party) {
        self.world.ensemble.cut(party);
        self.world.ensemble.connect(party);
    }

    /// All answers to the last request are there, and they are reads.
    fn listen(&mut self, party: Party) {
        let claimer = &self.world.claimers[party];
        let link = &mut self.world.ensemble.links[party];
        let heard = match (&claimer.pending, link.down.as_slice()) {
            (Pending::Look, [Word::Answer(Answer::Got(found))]) => {
                Heard::Looked(found.as_ref().and_then(record))
            }
            (Pending::Verify, [_, Word::Answer(Answer::Got(found))]) => {
                match found.as_ref().is_some_and(|node| node.czxid == claimer.token()) {
                    true => Heard::Verified,
                    false => Heard::Lost,
                }
            }
            _ => return,
        };
        if let Heard::Looked(Some(found)) = &heard
            && claimer.caller != Caller::Ending
            && (found.token, found.progress) == (claimer.token(), Progress::Begun)
        {
            (self.witness)(Witness::Adopted);
        }
        link.down.clear();
        self.feed(party, heard);
    }

    /// Carries something out, which may be a transaction of this process.
    fn carry_out(&mut self, party: Party, step: impl FnOnce(&mut Ensemble<Data>)) {
        let before = self.world.record();
        let token = self.world.claimers[party].token();
        step(&mut self.world.ensemble);
        let after = self.world.record();
        if before == after {
            return;
        }
        match after {
            Some(record) if record.version == 0 => {
                let runs = |claimer: &Claimer| matches!(claimer.caller, Caller::Running { valid: true, .. });
                self.forbid(ALONE, self.world.claimers.iter().any(runs));
            }
            Some(record) if record.token == token => {
                self.world.succeeded |= record.progress == Progress::Ended(RunEnd::Succeeded);
                match self.claimer(party).fate {
                    Fate::Denied => self.breach(UNDENIED),
                    Fate::Open | Fate::Written => self.claimer(party).fate = Fate::Written,
                }
            }
            Some(_) => (self.witness)(Witness::PutBack),
            None => (self.witness)(Witness::TakenBack),
        }
    }
}

fn reply(answer: &Answer<Data>) -> Reply {
    match answer {
        Answer::Committed(_) => Reply::Written,
        Answer::Failed(0, _) => Reply::Lost,
        Answer::Failed(..) => Reply::Contested,
        _ => Reply::Busy,
    }
}
