//! The steps: which are possible, and what each does.

use zklock_recipe::claim::{Claim, Outcome, Progress, RunEnd};
use zklock_recipe::ending::{self, Ending};

use crate::claimer::{Caller, Claimer, Fate, Heard, Machine, Pending, Told};
use crate::setup::{Breach, Mutant, Setup, Witness};
use crate::world::{Node, Party, Reply, Token, World, Write};

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
    End(Party, RunEnd),
    /// The turn is dropped.
    Drop(Party),
    Break(Party),
    /// The server has too much to do for a write.
    Refuse(Party),
    /// An operator writes to the record: the same again, or that the slot has succeeded.
    Meddle(Party, Option<RunEnd>),
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
            | Self::Refuse(_)
            | Self::Meddle(..)
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
                steps.extend([RunEnd::Succeeded, RunEnd::Failed].map(|end| Step::End(party, end)));
                steps.push(Step::Drop(party));
            }
            Caller::Idle
            | Caller::Queued
            | Caller::Claiming
            | Caller::Ending
            | Caller::Gone
            | Caller::Dead => {}
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
        let writes = matches!(claimer.pending, Pending::Write(_));
        steps.extend((writes && faults.refusals > 0).then_some(Step::Refuse(party)));
        let runs = matches!(claimer.caller, Caller::Running { .. } | Caller::Ending);
        if faults.meddling > 0 && runs && self.node.is_some_and(|node| node.token == claimer.token) {
            steps.extend([None, Some(RunEnd::Succeeded)].map(|end| Step::Meddle(party, end)));
        }
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
                let begun = |node: Node| (node.token, node.progress) == (token, Progress::Begun);
                if self.claimer(party).caller != Caller::Ending && self.world.node.is_some_and(begun) {
                    (self.witness)(Witness::Adopted);
                }
                self.feed(party, Heard::Looked(self.world.node.map(Node::record)));
            }
            // Nobody asks under a guard that is known to be lost.
            Step::Verify(party) if self.claimer(party).lost => self.feed(party, Heard::Lost),
            Step::Verify(party) => {
                self.claimer(party).strays.clear();
                let heard = if self.world.holds(party) { Heard::Verified } else { Heard::Lost };
                self.feed(party, heard);
            }
            Step::Serve(party) => {
                let Pending::Write(write) = self.claimer(party).pending.clone() else { return };
                let reply = self.apply(party, self.world.claimers[party].token, &write);
                self.claimer(party).pending = Pending::Answered(reply);
            }
            Step::Hear(party) => {
                let Pending::Answered(reply) = self.claimer(party).pending else { return };
                self.feed(party, Heard::Replied(reply));
            }
            Step::Release(party) => {
                self.world.leave(party);
                self.feed(party, Heard::Released);
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
            Step::End(party, end) => {
                let claimer = self.claimer(party);
                let Caller::Running { version, .. } = claimer.caller else { return };
                let ending = Ending::new(end, claimer.token, version.into());
                (claimer.caller, claimer.fate) = (Caller::Ending, Fate::Open);
                claimer.machine = Some(Machine::Ending(ending));
                self.feed(party, Heard::Begin);
            }
            Step::Refuse(party) => {
                self.world.faults.refusals -= 1;
                self.claimer(party).pending = Pending::Answered(Reply::Busy);
            }
            Step::Meddle(_, end) => {
                self.world.faults.meddling -= 1;
                self.world.meddle(end);
            }
            Step::Leave(party) | Step::Drop(party) => self.done(party),
            Step::Break(party) => {
                self.world.faults.breaks -= 1;
                self.claimer(party).stray();
                self.feed(party, Heard::Unanswered);
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
        claimer.machine = Some(Machine::Claim(Claim::new(claimer.token, retry)));
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
                let unanswered = ends && matches!(claimer.pending, Pending::Write(_) | Pending::Answered(_));
                // What it has sent may still be carried out while the node is there.
                claimer.stray();
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
        let told = self.world.claimers[party].hear(heard, self.setup.mutant, self.witness);
        match told {
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
            // Only a mutant says so.
            Outcome::Failed(()) => self.done(party),
            Outcome::Forgotten(()) => unreachable!("nothing is forgotten"),
        }
    }

    fn tell_end(&mut self, party: Party, outcome: ending::Outcome<()>) {
        use ending::Outcome::{Changed, Failed, Unconfirmed, Written};
        let claimer = self.claimer(party);
        let (fate, unheard, token) = (claimer.fate, claimer.unheard, claimer.token);
        if matches!(outcome, Changed | Failed(())) {
            claimer.fate = Fate::Denied;
        }
        let found = self.world.node.map(|node| (node.token, node.version));
        let breach = match outcome {
            Written => (fate != Fate::Written).then_some(Breach::FalseEnd),
            Changed | Failed(()) if fate == Fate::Written => Some(Breach::DeniedEnd),
            Changed => (found == Some((token, 0))).then_some(Breach::NoCause),
            Unconfirmed => (!unheard).then_some(Breach::NoCause),
            Failed(()) => None,
        };
        breach.into_iter().for_each(|breach| self.world.breach(breach));
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
        claimer.unheard = false;
        if claimer.strays.is_empty() {
            claimer.fate = Fate::Open;
        }
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
        self.feed(party, Heard::GiveUp);
    }

    fn apply(&mut self, party: Party, token: Token, write: &Write) -> Reply {
        self.world.apply(party, token, write, self.setup.mutant, self.witness)
    }
}
