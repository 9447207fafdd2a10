//! The steps: which are possible, and what each does.

use zklock_recipe::claim::{Claim, Command, Event, Outcome, Page, Progress};

use crate::world::{
    Breach, Caller, Claimer, Mutant, Node, Party, Pending, Reply, Setup, Token, Witness, World, Write,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Enqueue(Party),
    /// It has the lock, and its machine begins.
    Begin(Party),
    Look(Party),
    /// A quorum answers. Requests of earlier connections are carried out before that, or never.
    Verify(Party),
    Serve(Party),
    Hear(Party),
    Release(Party),
    ApplyStray(Party),
    /// The node of a guard that was lost goes, as its session ends or its holder forfeits it.
    Vanish(Party),
    /// The lock is released in the background, once the machine of a caller that has gone has ended.
    Leave(Party),
    /// The run ends like this.
    End(Party, Progress),
    /// As that, and the answer is lost with the connection.
    EndUnheard(Party, Progress),
    /// The turn is dropped.
    Drop(Party),
    Break(Party),
    Depart(Party),
    Lose(Party),
    Evict(Party),
    Crash(Party),
}

impl Step {
    /// Whether nobody has to take it.
    fn is_voluntary(self) -> bool {
        match self {
            Self::Break(_)
            | Self::Depart(_)
            | Self::Lose(_)
            | Self::Evict(_)
            | Self::Crash(_)
            | Self::EndUnheard(..)
            | Self::ApplyStray(_) => true,
            Self::Enqueue(_)
            | Self::Begin(_)
            | Self::Look(_)
            | Self::Verify(_)
            | Self::Serve(_)
            | Self::Hear(_)
            | Self::Release(_)
            | Self::Vanish(_)
            | Self::Leave(_)
            | Self::End(..)
            | Self::Drop(_) => false,
        }
    }
}

impl World {
    pub(crate) fn steps(&self, steps: &mut Vec<Step>) {
        (0..self.claimers.len()).for_each(|party| self.steps_of(party, steps));
    }

    fn steps_of(&self, party: Party, steps: &mut Vec<Step>) {
        let (claimer, faults) = (&self.claimers[party], &self.faults);
        let in_queue = self.queue.iter().any(|(owner, _)| *owner == party);
        match claimer.caller {
            Caller::Idle if claimer.claims > 0 && claimer.machine.is_none() && !in_queue => {
                steps.push(Step::Enqueue(party));
            }
            Caller::Gone if claimer.machine.is_none() => steps.push(Step::Leave(party)),
            Caller::Queued if self.holds(party) => steps.push(Step::Begin(party)),
            Caller::Running { .. } => {
                for progress in [Progress::Succeeded, Progress::Failed] {
                    steps.push(Step::End(party, progress));
                    steps.extend((faults.breaks > 0).then_some(Step::EndUnheard(party, progress)));
                }
                steps.push(Step::Drop(party));
            }
            Caller::Idle | Caller::Queued | Caller::Claiming | Caller::Gone | Caller::Dead => {}
        }
        match claimer.pending {
            Pending::Look => steps.push(Step::Look(party)),
            Pending::Verify => steps.push(Step::Verify(party)),
            Pending::Write(_) => steps.push(Step::Serve(party)),
            Pending::Answered(_) => steps.push(Step::Hear(party)),
            Pending::Release => steps.push(Step::Release(party)),
            Pending::Nothing => {}
        }
        let asks = matches!(claimer.pending, Pending::Look | Pending::Write(_) | Pending::Answered(_));
        steps.extend((asks && faults.breaks > 0).then_some(Step::Break(party)));
        steps.extend((!claimer.strays.is_empty()).then_some(Step::ApplyStray(party)));
        let left = claimer.lost || claimer.caller == Caller::Dead;
        steps.extend((left && in_queue).then_some(Step::Vanish(party)));
        let waits = matches!(claimer.caller, Caller::Queued | Caller::Claiming);
        steps.extend((waits && faults.departures > 0).then_some(Step::Depart(party)));
        let has_guard = claimer.machine.is_some() || matches!(claimer.caller, Caller::Running { .. });
        if has_guard && !claimer.lost && self.holds(party) {
            steps.extend((faults.losses > 0).then_some(Step::Lose(party)));
            steps.extend((faults.evictions > 0).then_some(Step::Evict(party)));
        }
        let alive = !matches!(claimer.caller, Caller::Dead);
        steps.extend((alive && in_queue && faults.crashes > 0).then_some(Step::Crash(party)));
    }

    /// Whether nothing is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut steps = Vec::new();
        self.steps(&mut steps);
        steps.iter().all(|step| step.is_voluntary())
    }

    pub(crate) fn take(&mut self, step: Step, setup: &Setup, witness: &impl Fn(Witness)) {
        Run { world: self, setup, witness }.take(step);
    }
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

    fn claimer(&mut self, party: Party) -> &mut Claimer {
        &mut self.world.claimers[party]
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Enqueue(party) => {
                let token = self.world.next;
                self.world.next += 1;
                self.world.queue.push((party, token));
                let claimer = self.claimer(party);
                (claimer.caller, claimer.token, claimer.lost) = (Caller::Queued, token, false);
            }
            Step::Begin(party) => self.begin(party),
            Step::Look(party) => {
                let token = self.claimer(party).token;
                if self.world.node.is_some_and(|node| (node.token, node.progress) == (token, Progress::Begun))
                {
                    (self.witness)(Witness::Adopted);
                }
                let record = self.world.node.map(Node::record);
                let page = Page { record, may_be_forgotten: false, rest: () };
                self.feed(party, Event::Looked(Some(page)));
            }
            Step::Verify(party) => {
                self.claimer(party).strays.clear();
                let event = if self.world.holds(party) { Event::Verified } else { self.lost(party) };
                self.feed(party, event);
            }
            Step::Serve(party) => {
                let Pending::Write(write) = self.claimer(party).pending.clone() else { return };
                let reply = self.apply(party, self.world.claimers[party].token, &write);
                self.claimer(party).pending = Pending::Answered(reply);
            }
            Step::Hear(party) => {
                let Pending::Answered(reply) = self.claimer(party).pending else { return };
                let event = match reply {
                    Reply::Written => Event::Written,
                    Reply::Contested => Event::Contested,
                    Reply::Lost => self.lost(party),
                };
                self.feed(party, event);
            }
            Step::Release(party) => {
                self.world.leave(party);
                self.feed(party, Event::Released);
            }
            Step::ApplyStray(party) => {
                let (token, write) = self.claimer(party).strays.remove(0);
                let written = self.apply(party, token, &write) == Reply::Written;
                (self.witness)(if written { Witness::StrayApplied } else { Witness::StrayRefused });
            }
            Step::Vanish(party) => {
                if self.claimer(party).caller == Caller::Dead {
                    (self.witness)(Witness::LeftByTheDead);
                }
                self.world.leave(party);
            }
            Step::End(party, progress) => {
                let Caller::Running { version, .. } = self.claimer(party).caller else { return };
                let _told =
                    self.apply(party, self.world.claimers[party].token, &Write::End(progress, version));
                self.done(party);
            }
            Step::EndUnheard(party, progress) => {
                self.world.faults.breaks -= 1;
                let Caller::Running { version, .. } = self.claimer(party).caller else { return };
                // The release is behind it, and is not heard either.
                let token = self.claimer(party).token;
                self.claimer(party).strays.push((token, Write::End(progress, version)));
                self.claimer(party).lost = true;
                self.done(party);
            }
            Step::Leave(party) | Step::Drop(party) => self.done(party),
            Step::Break(party) => {
                self.world.faults.breaks -= 1;
                self.claimer(party).stray();
                self.feed(party, Event::Unanswered);
            }
            Step::Depart(party) => self.depart(party),
            Step::Lose(party) => {
                self.world.faults.losses -= 1;
                self.lose(party);
            }
            Step::Evict(party) => {
                self.world.faults.evictions -= 1;
                self.world.leave(party);
                self.excuse(party);
                if let Caller::Running { valid, .. } = &mut self.claimer(party).caller {
                    // It is told within a round trip, and the next holder may be quicker.
                    *valid = false;
                }
            }
            Step::Crash(party) => {
                self.world.faults.crashes -= 1;
                self.claimer(party).stray();
                self.excuse(party);
                let claimer = self.claimer(party);
                (claimer.caller, claimer.machine, claimer.pending) = (Caller::Dead, None, Pending::Nothing);
            }
        }
    }

    fn begin(&mut self, party: Party) {
        let retry = self.setup.retries[party] || self.is(Mutant::RetriesUnasked);
        let claimer = &mut self.world.claimers[party];
        claimer.caller = Caller::Claiming;
        claimer.tokens.push(claimer.token);
        // What an earlier guard has left can be taken back under this one.
        let left = self.world.node.map(|node| node.token).filter(|token| claimer.tokens.contains(token));
        self.world.excused.retain(|token| Some(*token) != left);
        if self.setup.mutant == Some(Mutant::ForgetsItsTokens) {
            claimer.begins = Default::default();
        }
        claimer.machine = Some(Claim::new(claimer.token, retry));
        self.feed(party, Event::Begin);
    }

    /// The guard is lost for the machine.
    fn lost(&mut self, party: Party) -> Event<(), ()> {
        self.excuse(party);
        Event::Lost
    }

    fn lose(&mut self, party: Party) {
        self.excuse(party);
        let claimer = self.claimer(party);
        claimer.lost = true;
        match &mut claimer.caller {
            Caller::Running { valid, .. } => *valid = false,
            _ => {
                // What it has sent may still be carried out while the node is there.
                claimer.stray();
                self.feed(party, Event::Lost);
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

    /// Gives the machine an event, and performs what follows.
    fn feed(&mut self, party: Party, event: Event<(), ()>) {
        let claimer = &mut self.world.claimers[party];
        // What was asked for is answered, or no longer awaited.
        let asked = match event {
            Event::GiveUp => claimer.pending.clone(),
            _ => std::mem::replace(&mut claimer.pending, Pending::Nothing),
        };
        let begins = matches!(asked, Pending::Write(Write::Begin(..)) | Pending::Answered(_));
        let event = match (self.setup.mutant, event) {
            (Some(Mutant::StopsAtSilence), Event::Unanswered) => return,
            (Some(Mutant::TakesUnknownForBegun), Event::Unanswered) if begins => Event::Written,
            (Some(Mutant::TakesUnknownForFailed), Event::Unanswered) if begins => {
                claimer.machine = None;
                return self.done(party);
            }
            (Some(Mutant::RetriesASuccess), Event::Looked(Some(Page { record: Some(mut record), .. }))) => {
                record.progress = Progress::Failed;
                Event::Looked(Some(Page { record: Some(record), may_be_forgotten: false, rest: () }))
            }
            (_, event) => event,
        };
        let Some(machine) = &mut claimer.machine else { return };
        let commands = machine.handle(&mut claimer.begins, event);
        if machine.is_ended() {
            (claimer.machine, claimer.pending) = (None, Pending::Nothing);
        }
        for command in commands {
            self.perform(party, command);
        }
    }

    fn perform(&mut self, party: Party, command: Command<(), ()>) {
        let claimer = &mut self.world.claimers[party];
        claimer.pending = match command {
            Command::Look => Pending::Look,
            // Nobody drops records here.
            Command::Prepare(()) => return self.feed(party, Event::Prepared(())),
            Command::Write(attempt, record, ()) => {
                if record.as_ref().is_some_and(|record| claimer.tokens.contains(&record.token)) {
                    (self.witness)(Witness::BeganAgain);
                }
                let replaces = record.map(|record| record.version as u8);
                Pending::Write(Write::Begin(attempt as u8, replaces))
            }
            Command::Verify if self.setup.mutant == Some(Mutant::LooksTooEarly) => {
                return self.feed(party, Event::Verified);
            }
            Command::Verify => Pending::Verify,
            Command::Release => {
                claimer.pending = Pending::Release;
                return self.see_done(party);
            }
            Command::Restore(record, before) => {
                let before = before.filter(|_| self.setup.mutant != Some(Mutant::ForgetsWhatItReplaced));
                Pending::Write(Write::Restore(record.version as u8, before))
            }
            Command::Tell(outcome) => return self.tell(party, outcome),
            Command::Create => unreachable!("the records have a directory"),
        };
    }

    fn tell(&mut self, party: Party, outcome: Outcome<(), ()>) {
        if self.claimer(party).caller != Caller::Claiming {
            return;
        }
        match outcome {
            Outcome::Runs(_, version) => self.runs(party, version as u8),
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
            Outcome::Forgotten(()) | Outcome::Failed(()) => unreachable!("nothing is forgotten or refused"),
        }
    }

    /// The process is about to be told that the slot is done.
    fn see_done(&mut self, party: Party) {
        let known =
            |node: &Node| self.world.ran.contains(&node.token) || self.world.excused.contains(&node.token);
        let begun = self.world.node.filter(|node| node.progress == Progress::Begun);
        if self.world.holds(party) && begun.is_some_and(|node| !known(&node)) {
            self.world.breach(Breach::Invented);
        }
    }

    fn runs(&mut self, party: Party, version: u8) {
        let token = self.world.claimers[party].token;
        let earlier = !self.world.ran.is_empty();
        (self.witness)(if earlier { Witness::RanAgain } else { Witness::Ran });
        // One that is told too late has a guard that is not valid, and others may have gone on by its record.
        let recorded = |node: &Node| (node.token, node.progress) == (token, Progress::Begun);
        let valid = self.world.holds(party);
        if valid && earlier && !self.setup.retries[party] {
            self.world.breach(Breach::Twice);
        }
        if valid && self.world.succeeded {
            self.world.breach(Breach::AfterSuccess);
        }
        if valid && !self.world.node.as_ref().is_some_and(recorded) {
            self.world.breach(Breach::Unrecorded);
        }
        self.world.ran.push(token);
        self.claimer(party).caller = Caller::Running { version, valid };
    }

    /// The claim is over. The lock is released.
    fn done(&mut self, party: Party) {
        if !self.claimer(party).lost {
            self.world.leave(party);
        }
        let claimer = self.claimer(party);
        claimer.claims = claimer.claims.saturating_sub(1);
        (claimer.begins, claimer.tokens) = Default::default();
        claimer.caller = Caller::Idle;
    }

    /// The caller goes.
    fn depart(&mut self, party: Party) {
        self.world.faults.departures -= 1;
        let leaves = self.is(Mutant::LeavesItsBegin);
        let claimer = self.claimer(party);
        if claimer.caller == Caller::Queued {
            if !claimer.tokens.is_empty() {
                self.excuse(party);
            }
            return self.done(party);
        }
        claimer.caller = Caller::Gone;
        // It is on its way, and nobody hears of it.
        claimer.stray();
        if leaves {
            if let Some((token, write)) = self.claimer(party).strays.pop() {
                let _nobody_hears = self.apply(party, token, &write);
            }
            let claimer = self.claimer(party);
            (claimer.machine, claimer.pending) = (None, Pending::Nothing);
            return self.done(party);
        }
        self.feed(party, Event::GiveUp);
    }

    /// The transaction, as a server carries it out.
    fn apply(&mut self, party: Party, token: Token, write: &Write) -> Reply {
        let unlocked = self.is(Mutant::BeginsWithoutTheLock) && matches!(write, Write::Begin(..));
        if !unlocked && self.world.queue.first() != Some(&(party, token)) {
            return Reply::Lost;
        }
        let node = self.world.node;
        match write {
            Write::Begin(attempt, replaces) => {
                // A server compares no tokens.
                if node.map(|node| node.version) != *replaces {
                    return Reply::Contested;
                }
                let runs = |claimer: &Claimer| matches!(claimer.caller, Caller::Running { valid: true, .. });
                if self.world.claimers.iter().any(runs) {
                    self.world.breach(Breach::Beside);
                }
                let begun = Node { progress: Progress::Begun, token, attempt: *attempt, version: 0 };
                self.world.node = Some(begun);
            }
            Write::Restore(version, before) => {
                let Some(node) = node.filter(|node| node.version == *version) else {
                    return Reply::Contested;
                };
                (self.witness)(if before.is_some() { Witness::PutBack } else { Witness::TakenBack });
                self.world.node = before.as_ref().map(|data| Node::of(data, node.version + 1));
            }
            Write::End(progress, version) => {
                let Some(node) = node.filter(|node| node.version == *version) else {
                    return Reply::Contested;
                };
                self.world.node = Some(Node { progress: *progress, version: node.version + 1, ..node });
                self.world.succeeded |= *progress == Progress::Succeeded;
            }
        }
        Reply::Written
    }
}
