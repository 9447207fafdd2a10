//! The steps: which are possible, and what each does.

use zklock_recipe::Ruling;

use crate::world::{Admission, Breach, Mutant, Party, Pool, Reply, Seen, Setup, Stage, Witness, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Enqueue(Party),
    /// Looks: reads the data with its version.
    Read(Party, Age),
    /// Looks on: lists the permits.
    List(Party, Age),
    Watch(Party),
    LookAgain(Party),
    /// The takeover delay has passed.
    Delayed(Party),
    Serve(Party),
    Hear(Party),
    ApplyStray(Party),
    /// Reads the turnstile, to learn what became of its transaction.
    ReadTurnstile(Party),
    /// Asks a quorum, and lists its own permits. Requests of earlier connections are carried out before
    /// that, or never; unless they are late.
    Settle(Party, Lateness),
    Release(Party),
    Told(Party),
    Break(Party),
    Lapse(Party),
    Expire(Party),
    Depart(Party),
    Evict(Party),
    Displace(Party),
    Change(u32),
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
            | Self::Change(_)
            | Self::Release(_)
            | Self::Read(_, Age::Past)
            | Self::List(_, Age::Past)
            | Self::Settle(_, Lateness::Late)
            | Self::ApplyStray(_) => true,
            // A session lives for as long as it likes.
            Self::Expire(party) => world.contenders[party].stage != Stage::Lapsed,
            Self::Enqueue(_)
            | Self::Read(..)
            | Self::List(..)
            | Self::Watch(_)
            | Self::LookAgain(_)
            | Self::Delayed(_)
            | Self::Serve(_)
            | Self::Hear(_)
            | Self::ReadTurnstile(_)
            | Self::Settle(..)
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
            steps.extend(
                [self.pool.capacity - 1, self.pool.capacity + 1]
                    .iter()
                    .filter(|it| **it > 0)
                    .map(|it| Step::Change(*it)),
            );
        }
    }

    fn steps_of(&self, party: Party, setup: &Setup, steps: &mut Vec<Step>) {
        let (contender, faults) = (&self.contenders[party], &self.faults);
        let stale = faults.stale > 0 && self.past.is_some();
        let begun = !matches!(contender.stage, Stage::Idle | Stage::Done);
        match &contender.stage {
            Stage::Idle => steps.push(Step::Enqueue(party)),
            Stage::Queued => {
                let impatient = setup.mutant == Some(Mutant::PassesTheLarge);
                if self.is_first(party) || !self.has_ticket(party) || impatient {
                    steps.push(Step::Read(party, Age::Present));
                    steps.extend(stale.then_some(Step::Read(party, Age::Past)));
                }
            }
            Stage::Looking(_, from_the_past) => {
                steps.push(Step::List(party, Age::Present));
                // A server does not go back.
                steps.extend((stale && *from_the_past).then_some(Step::List(party, Age::Past)));
            }
            Stage::Full(_) => steps.push(Step::Watch(party)),
            Stage::Waiting { changed } => {
                steps.extend((*changed || !self.has_ticket(party)).then_some(Step::LookAgain(party)));
            }
            Stage::Delaying(_) => steps.push(Step::Delayed(party)),
            Stage::Sent(_) => steps.push(Step::Serve(party)),
            Stage::Answered(_) => steps.push(Step::Hear(party)),
            Stage::Unknown | Stage::Doubtful => steps.push(Step::ReadTurnstile(party)),
            Stage::Settling(_) | Stage::Parting => {
                steps.push(Step::Settle(party, Lateness::Settled));
                let late = faults.late > 0 && !contender.strays.is_empty();
                steps.extend(late.then_some(Step::Settle(party, Lateness::Late)));
            }
            Stage::Held => {
                steps.push(Step::Release(party));
                steps.extend((!self.pool.permit(party, contender.ticket)).then_some(Step::Told(party)));
                steps.extend((faults.expiries > 0).then_some(Step::Lapse(party)));
            }
            Stage::Lapsed => steps.extend([Step::Release(party), Step::Expire(party)]),
            Stage::Deaf | Stage::Done => {}
        }
        if !contender.strays.is_empty() {
            steps.push(Step::ApplyStray(party));
        }
        let waits = matches!(
            contender.stage,
            Stage::Sent(_) | Stage::Answered(_) | Stage::Waiting { .. } | Stage::Delaying(_)
        );
        if waits && faults.breaks > 0 {
            steps.push(Step::Break(party));
        }
        // The lease of a holder ends first.
        let outlives = setup.mutant == Some(Mutant::OutlivesItsSession) && contender.stage == Stage::Held;
        if begun
            && faults.expiries > 0
            && (outlives || !matches!(contender.stage, Stage::Held | Stage::Lapsed))
        {
            steps.push(Step::Expire(party));
        }
        let contends = begun
            && !contender.unwanted
            && !matches!(contender.stage, Stage::Held | Stage::Lapsed | Stage::Doubtful | Stage::Parting);
        if contends && faults.departures > 0 {
            steps.push(Step::Depart(party));
        }
        if faults.evictions > 0 && self.pool.permits.iter().any(|permit| permit.0 == party) {
            steps.push(Step::Evict(party));
        }
        if faults.displacements > 0 && self.queue.iter().any(|(owner, _)| *owner == party) {
            steps.push(Step::Displace(party));
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
        let hollow = |(party, contender): (Party, &crate::world::Contender)| {
            contender.stage == Stage::Held && !contender.evicted && !self.pool.permit(party, contender.ticket)
        };
        if self.contenders.iter().enumerate().any(hollow) {
            self.breach(Breach::Hollow);
        }
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

    fn stage(&mut self, party: Party, stage: Stage) {
        self.world.contenders[party].stage = stage;
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
            Step::Enqueue(party) => {
                let ticket = self.world.next;
                self.world.next += 1;
                let behind = self.setup.delayed && !self.world.queue.is_empty();
                let forgets = self.is(Mutant::ForgetsTheTurnstile);
                self.world.queue.push((party, ticket));
                let contender = &mut self.world.contenders[party];
                (contender.ticket, contender.in_doubt, contender.evicted) = (ticket, false, false);
                contender.stage = Stage::Queued;
                contender.waited |= behind;
                contender.delays |= behind && !forgets;
            }
            Step::Read(party, age) => self.read(party, age),
            Step::List(party, age) => self.list(party, age),
            Step::Watch(party) => self.watch(party),
            Step::LookAgain(party) => self.stage(party, Stage::Queued),
            Step::Delayed(party) => self.delayed(party),
            Step::Serve(party) => {
                let Stage::Sent(admission) = self.world.contenders[party].stage else { return };
                let reply = self.apply(party, admission);
                self.stage(party, Stage::Answered(reply));
            }
            Step::Hear(party) => self.hear(party),
            Step::ApplyStray(party) => {
                let contender = &mut self.world.contenders[party];
                let late = !matches!(contender.stage, Stage::Unknown | Stage::Settling(_));
                let admission = contender.strays.remove(0);
                let applied = self.apply(party, admission) == Reply::Admitted;
                (self.witness)(if applied { Witness::StrayApplied } else { Witness::StrayRefused });
                if applied && late {
                    (self.witness)(Witness::LateApplied);
                }
            }
            Step::ReadTurnstile(party) => {
                let there = self.world.has_ticket(party);
                let permit = self.world.pool.permit(party, self.world.contenders[party].ticket);
                let wrong = self.is(Mutant::SettlesInTheWrongOrder);
                let contender = &mut self.world.contenders[party];
                contender.stage = match contender.stage {
                    // The node is being deleted in the background, and was there a moment ago.
                    Stage::Doubtful => Stage::Parting,
                    _ => Stage::Settling(if wrong { permit } else { there }),
                };
            }
            Step::Settle(party, lateness) => self.settle(party, lateness),
            Step::Release(party) => {
                let ticket = self.world.contenders[party].ticket;
                if self.world.pool.permit(party, ticket) {
                    self.world.change(self.setup, false, |pool| pool.remove(party, ticket));
                }
                self.stage(party, Stage::Done);
            }
            Step::Told(party) => {
                (self.witness)(Witness::Told);
                self.stage(party, Stage::Done);
            }
            Step::Break(party) => self.break_connection(party),
            Step::Lapse(party) => {
                self.world.faults.expiries -= 1;
                self.stage(party, Stage::Lapsed);
            }
            Step::Expire(party) => self.expire(party),
            Step::Depart(party) => {
                self.world.faults.departures -= 1;
                self.depart(party);
            }
            Step::Evict(party) => {
                self.world.faults.evictions -= 1;
                self.world.contenders[party].evicted = true;
                self.world.change(self.setup, false, |pool| pool.permits.retain(|permit| permit.0 != party));
                self.world.vanish(self.setup);
            }
            Step::Displace(party) => {
                self.world.faults.displacements -= 1;
                self.world.leave_turnstile(party);
            }
            Step::Change(capacity) => {
                self.world.faults.changes -= 1;
                self.world.change(self.setup, true, |pool| {
                    (pool.capacity, pool.version) = (capacity, pool.version + 1);
                });
            }
        }
    }

    fn read(&mut self, party: Party, age: Age) {
        if !self.world.has_ticket(party) && !self.is(Mutant::TriesAgain) {
            // An earlier transaction may have taken effect.
            return self.stage(party, Stage::Unknown);
        }
        if age == Age::Past {
            self.world.faults.stale -= 1;
        }
        let Pool { version, capacity, permits } = self.pool(age);
        // Broken, it lists first, and reads the version after that.
        let weights = permits.iter().map(|permit| permit.2).collect();
        let seen = Seen { version, capacity, weights };
        self.stage(party, Stage::Looking(seen, age == Age::Past));
    }

    fn list(&mut self, party: Party, age: Age) {
        let Stage::Looking(first, _) = self.world.contenders[party].stage.clone() else { return };
        let pool = self.pool(age);
        let second = pool.permits.iter().map(|permit| permit.2).collect();
        let seen = match self.is(Mutant::ListsBeforeItReads) {
            true => Seen { version: pool.version, capacity: pool.capacity, weights: first.weights },
            false => Seen { weights: second, ..first },
        };
        self.decide(party, seen);
    }

    fn decide(&mut self, party: Party, seen: Seen) {
        let (delayed, forgets) = (self.setup.delayed, self.is(Mutant::ForgetsThatItWaited));
        let contender = &mut self.world.contenders[party];
        contender.owes_since_its_look = false;
        let ruling = seen.ruling(contender.weight, self.setup.mutant);
        contender.waited |= delayed && !matches!(ruling, Ruling::Refuse(_));
        match ruling {
            Ruling::Admit(_) => {
                let (ticket, weight, owes) = (contender.ticket, contender.weight, contender.owes);
                let admission = Admission { ticket, version: seen.version, weight, owes };
                let delays = contender.delays;
                self.stage(party, if delays { Stage::Delaying(admission) } else { Stage::Sent(admission) });
            }
            Ruling::Wait => {
                contender.delays |= delayed && !forgets;
                self.stage(party, Stage::Full(seen));
            }
            Ruling::Refuse(_) => {
                (self.witness)(Witness::Refused);
                self.depart(party);
            }
        }
    }

    /// Sets both watches, and sees the pool as it is then.
    fn watch(&mut self, party: Party) {
        (self.witness)(Witness::Waited);
        let Stage::Full(before) = self.world.contenders[party].stage.clone() else { return };
        let Pool { version, capacity, permits } = self.pool(Age::Present);
        let seen = Seen { version, capacity, weights: permits.iter().map(|permit| permit.2).collect() };
        let seen = if self.is(Mutant::TrustsItsFirstLook) { before } else { seen };
        match seen.ruling(self.world.contenders[party].weight, self.setup.mutant) {
            Ruling::Wait => self.stage(party, Stage::Waiting { changed: false }),
            _ => {
                (self.witness)(Witness::FoundRoomAtTheWatch);
                self.decide(party, seen);
            }
        }
    }

    /// What was free at the look has been free for the delay.
    fn delayed(&mut self, party: Party) {
        let looks_again = self.is(Mutant::LooksAfterItsDelay);
        let contender = &mut self.world.contenders[party];
        let Stage::Delaying(admission) = contender.stage else { return };
        (self.witness)(Witness::Delayed);
        if contender.owes_since_its_look {
            (self.witness)(Witness::VanishedInTheDelay);
        }
        contender.owes = contender.owes_since_its_look;
        if looks_again {
            (contender.stage, contender.delays) = (Stage::Queued, false);
        } else {
            contender.stage = Stage::Sent(Admission { owes: false, ..admission });
        }
    }

    /// The contender has to look again after an attempt in vain.
    fn again(&mut self, party: Party, stage: Stage) {
        let remembers = self.setup.delayed && !self.is(Mutant::ForgetsItsAttempt);
        self.world.contenders[party].delays |= remembers;
        self.stage(party, stage);
    }

    /// The transaction, as a server carries it out.
    fn apply(&mut self, party: Party, admission: Admission) -> Reply {
        let ticket = (party, admission.ticket);
        let place = self.world.queue.iter().position(|other| *other == ticket);
        if place.is_none() && !self.is(Mutant::IgnoresTheTurnstile) && !self.is(Mutant::TriesAgain) {
            return Reply::NotHeld;
        }
        if admission.version != self.world.pool.version && !self.is(Mutant::IgnoresTheVersion) {
            (self.witness)(Witness::SentInVain);
            return Reply::Changed;
        }
        if self.world.pool.permit(party, admission.ticket) {
            self.world.breach(Breach::Twice);
        }
        if admission.owes {
            self.world.breach(Breach::Undelayed);
        }
        if self.setup.delayed && !self.world.contenders[party].delays {
            (self.witness)(Witness::AdmittedAtOnce);
        }
        if place != Some(0) {
            self.world.breach(Breach::Overtaken);
        }
        let beside = !self.world.pool.permits.is_empty();
        self.world.change(self.setup, false, |pool| {
            pool.permits.push((party, admission.ticket, admission.weight));
            pool.version += 1;
        });
        self.world.queue.retain(|other| *other != ticket);
        if self.world.pool.taken() > self.world.pool.capacity {
            self.world.breach(Breach::Exceeded);
        }
        if beside {
            (self.witness)(Witness::HeldTogether);
        }
        if admission.weight > 1 {
            (self.witness)(Witness::LargeHeld);
        }
        Reply::Admitted
    }

    fn hear(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        let Stage::Answered(reply) = contender.stage else { return };
        match reply {
            Reply::Admitted => self.admitted(party),
            Reply::Changed if contender.unwanted => self.depart(party),
            Reply::Changed => self.again(party, Stage::Queued),
            Reply::NotHeld => (contender.stage, contender.in_doubt) = (Stage::Unknown, true),
        }
    }

    /// The contender knows its permit.
    fn admitted(&mut self, party: Party) {
        let contender = &self.world.contenders[party];
        if contender.unwanted {
            (self.witness)(Witness::GivenBack);
            return self.take(Step::Release(party));
        }
        // The driver asks a quorum for its node before the grant if it was not seen on this connection; and a deletion
        // after that is reported.
        self.stage(party, Stage::Held);
    }

    fn settle(&mut self, party: Party, lateness: Lateness) {
        let late = lateness == Lateness::Late;
        let contender = &mut self.world.contenders[party];
        if late {
            self.world.faults.late -= 1;
        } else {
            contender.strays.clear();
        }
        let contender = &self.world.contenders[party];
        let mut permit = self.world.pool.permit(party, contender.ticket);
        let mut there = self.world.has_ticket(party);
        match contender.stage {
            Stage::Settling(permit_then) if self.is(Mutant::SettlesInTheWrongOrder) => permit = permit_then,
            Stage::Settling(there_then) => there = there_then,
            _ => there = false,
        }
        let unwanted = contender.unwanted;
        match (permit, there) {
            (true, _) => {
                (self.witness)(Witness::Adopted);
                self.admitted(party);
            }
            (false, true) if unwanted => self.depart(party),
            (false, true) => {
                (self.witness)(Witness::NotCommitted);
                self.again(party, Stage::Queued);
            }
            (false, false) if unwanted => self.stage(party, Stage::Done),
            (false, false) => {
                (self.witness)(Witness::QueuedAgain);
                self.again(party, Stage::Idle);
            }
        }
    }

    fn break_connection(&mut self, party: Party) {
        self.world.faults.breaks -= 1;
        let forgets = self.is(Mutant::ForgetsThatItsWatchIsLost);
        let unknown = match self.setup.mutant {
            Some(Mutant::TakesUnknownForFailed) => Stage::Idle,
            Some(Mutant::TriesAgain) => Stage::Queued,
            _ => Stage::Unknown,
        };
        let contender = &mut self.world.contenders[party];
        match contender.stage {
            Stage::Sent(admission) => {
                contender.strays.push(admission);
                (contender.stage, contender.in_doubt) = (unknown, true);
            }
            Stage::Answered(_) => (contender.stage, contender.in_doubt) = (unknown, true),
            // The watch is lost. Broken, the contender waits for it all the same.
            Stage::Waiting { .. } if forgets => contender.stage = Stage::Deaf,
            Stage::Waiting { .. } | Stage::Delaying(_) => contender.stage = Stage::Queued,
            _ => {}
        }
        if contender.stage == Stage::Idle {
            // Its old node goes, as that of any failed acquisition.
            self.world.leave_turnstile(party);
        }
    }

    /// The session ends, and its nodes go with it. The leader refuses what it has sent before.
    fn expire(&mut self, party: Party) {
        (self.witness)(Witness::Expired);
        let lapsed = self.world.contenders[party].stage == Stage::Lapsed;
        if !lapsed {
            self.world.faults.expiries -= 1;
        }
        self.world.leave_turnstile(party);
        if self.world.pool.permits.iter().any(|permit| permit.0 == party) {
            self.world.change(self.setup, false, |pool| pool.permits.retain(|permit| permit.0 != party));
            self.world.vanish(self.setup);
        }
        let outlives = self.is(Mutant::OutlivesItsSession);
        let contender = &mut self.world.contenders[party];
        contender.strays.clear();
        if outlives && contender.stage == Stage::Held {
            return;
        }
        let over = lapsed || contender.unwanted;
        self.again(party, if over { Stage::Done } else { Stage::Idle });
    }

    /// The caller goes, or the acquisition fails.
    fn depart(&mut self, party: Party) {
        let (drops, forgets) = (self.is(Mutant::DropsItsAttempt), self.is(Mutant::ForgetsItsDoubt));
        let stage = self.world.contenders[party].stage.clone();
        if let (Stage::Sent(admission), true) = (&stage, drops) {
            // It is on its way, in front of the deletion of the node in the turnstile.
            let _nobody_hears = self.apply(party, *admission);
        }
        let contender = &mut self.world.contenders[party];
        contender.unwanted = true;
        match stage {
            // It goes on in the background until the outcome is known.
            Stage::Sent(_) | Stage::Answered(_) | Stage::Unknown if !drops => return,
            Stage::Settling(false) if !drops => return,
            _ if contender.in_doubt && !drops && !forgets => contender.stage = Stage::Doubtful,
            _ => contender.stage = Stage::Done,
        }
        self.world.leave_turnstile(party);
    }
}
