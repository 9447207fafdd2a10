//! The steps: which are possible, and what each does.

use zklock_recipe::candidacy::Event;

use zklock_recipe::transaction::Operation;

use super::candidate::{Candidate, Keeper, Request, Stage};
use super::office::{ANNOUNCEMENT, Announcement, Data, Told, World};
use super::setup::{Breach, Mutant, Party, Setup, Witness};
use crate::world::ensemble::{Answer, Ask, Ensemble, Word};
use crate::world::tree::{Name, Named, Path, Transaction};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Enqueue(Party),
    Grant(Party),
    Proclaim(Party),
    /// Its keeper hears of that while it waits.
    Heed(Party),
    Leave(Party),
    /// A candidate hears that its node is gone, or that somebody has written to it.
    Told(Party),
    Serve(Party),
    /// As that, and the server refuses it.
    Refuse(Party),
    Hear(Party),
    /// A leader has led for a while.
    Settled(Party),
    Paused(Party),
    /// A candidate hears that its announcement has changed.
    Changed(Party),
    /// The server withholds that.
    Withhold(Party),
    /// Nothing was heard for long.
    Doubt(Party),
    Break(Party),
    Reconnect(Party),
    ApplyStray(Party),
    Lapse(Party),
    Expire(Party),
    Replicate,
    Answer,
    Listen(usize),
    CutOnlooker,
    ReconnectOnlooker {
        behind: bool,
    },
    Evict(Party),
    Touch(Party),
    DeleteAnnouncement,
    WriteAnnouncement,
    ForgeAnnouncement,
}

impl Step {
    /// Whether the world goes on by itself without it.
    pub(crate) fn is_voluntary(self, world: &World) -> bool {
        match self {
            // A guard that is lost is dropped in the end.
            Self::Leave(party) => {
                world.candidates[party].leads() || world.candidates[party].stage == Stage::Queued
            }
            Self::Expire(party) => world.ensemble.links[party].connected,
            Self::ReconnectOnlooker { behind } => behind,
            Self::Enqueue(_)
            | Self::Proclaim(_)
            | Self::Refuse(_)
            | Self::Withhold(_)
            | Self::Break(_)
            | Self::ApplyStray(_)
            | Self::Lapse(_)
            | Self::CutOnlooker
            | Self::Evict(_)
            | Self::Touch(_)
            | Self::DeleteAnnouncement
            | Self::WriteAnnouncement
            | Self::ForgeAnnouncement => true,
            _ => false,
        }
    }
}

impl World {
    pub(crate) fn steps(&self, steps: &mut Vec<Step>) {
        let faults = self.faults;
        for (party, candidate) in self.candidates.iter().enumerate().filter(|(_, it)| !it.expired) {
            let exists = self.node(party).is_some();
            let link = &self.ensemble.links[party];
            match candidate.stage {
                Stage::Idle => steps.push(Step::Enqueue(party)),
                Stage::Queued => {
                    if self.is_first(party) && !candidate.lapsed && link.connected {
                        steps.push(Step::Grant(party));
                    }
                    steps.push(Step::Leave(party));
                }
                Stage::Holding => {
                    steps.push(Step::Leave(party));
                    if candidate.leads() && faults.proclamations > 0 {
                        steps.push(Step::Proclaim(party));
                    }
                    if !self.is_held(party) && link.connected {
                        steps.push(Step::Told(party));
                    }
                }
                Stage::Lost => steps.push(Step::Leave(party)),
                Stage::Gone => {}
            }
            let unheeded = candidate.heeded < candidate.proclaimed;
            match candidate.keeper {
                Keeper::Settling => {
                    steps.push(Step::Settled(party));
                    steps.extend(unheeded.then_some(Step::Heed(party)));
                }
                Keeper::Pausing => steps.push(Step::Paused(party)),
                Keeper::Waiting => {
                    steps.extend(unheeded.then_some(Step::Heed(party)));
                    steps.extend(candidate.dirty.then_some(Step::Changed(party)));
                    let stale = candidate.withheld || !self.ensemble.watches(party);
                    steps.extend((stale && !candidate.deaf).then_some(Step::Doubt(party)));
                }
                Keeper::Off | Keeper::Announcing | Keeper::Looking => {}
            }
            if candidate.dirty && faults.silences > 0 {
                steps.push(Step::Withhold(party));
            }
            if self.ensemble.can_serve(party) {
                steps.push(Step::Serve(party));
                let may_be_refused = match candidate.asked[answered(candidate, &link.down)] {
                    Request::Announce { .. } => true,
                    Request::Look(_) => self.announcement().is_some(),
                    _ => false,
                };
                steps.extend((may_be_refused && faults.refusals > 0).then_some(Step::Refuse(party)));
            }
            if !link.down.is_empty() {
                steps.push(Step::Hear(party));
            }
            if faults.breaks > 0 && link.connected && candidate.stage != Stage::Idle {
                steps.push(Step::Break(party));
            }
            if !link.connected {
                steps.push(Step::Reconnect(party));
            }
            if !link.strays.is_empty() {
                steps.push(Step::ApplyStray(party));
            }
            if faults.lapses > 0 && !candidate.lapsed && candidate.stage != Stage::Idle {
                steps.push(Step::Lapse(party));
            }
            if candidate.lapsed {
                steps.push(Step::Expire(party));
            }
            if faults.evictions > 0 && exists {
                steps.push(Step::Evict(party));
            }
            if faults.touches > 0 && exists && candidate.stage == Stage::Holding {
                steps.push(Step::Touch(party));
            }
        }
        if let Some(onlooker) = &self.onlooker {
            let link = &self.ensemble.links[onlooker.session];
            steps.extend(self.ensemble.is_behind().then_some(Step::Replicate));
            steps.extend(self.ensemble.can_serve(onlooker.session).then_some(Step::Answer));
            if let Some(first) = link.down.first() {
                steps.push(Step::Listen(0));
                let event = link.down.iter().position(|word| matches!(word, Word::Event(..)));
                if let (Word::Answer(_), Some(place)) = (first, event) {
                    steps.push(Step::Listen(place));
                }
            }
            if faults.outages > 0 && link.connected {
                steps.push(Step::CutOnlooker);
            }
            if !link.connected {
                steps.push(Step::ReconnectOnlooker { behind: false });
                if faults.rewinds > 0 && self.ensemble.can_rewind() {
                    steps.push(Step::ReconnectOnlooker { behind: true });
                }
            }
        }
        let announced = self.announcement().is_some();
        if announced && faults.deletions > 0 {
            steps.push(Step::DeleteAnnouncement);
        }
        if announced && faults.writes > 0 {
            steps.push(Step::WriteAnnouncement);
        }
        if !announced && faults.forgeries > 0 {
            steps.push(Step::ForgeAnnouncement);
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut steps = Vec::new();
        self.steps(&mut steps);
        steps.iter().all(|step| step.is_voluntary(self))
    }

    pub(crate) fn take(&mut self, step: Step, setup: &Setup, witness: &impl Fn(Witness)) {
        Run { world: self, setup, witness }.take(step);
        for (party, candidate) in self.candidates.iter_mut().enumerate() {
            let down = &mut self.ensemble.links[party].down;
            // How often its watch has fired makes no difference.
            candidate.dirty |= down.iter().any(|word| matches!(word, Word::Event(..)));
            down.retain(|word| matches!(word, Word::Answer(_)));
        }
    }
}

/// The number of requests whose answers are under way: the next request to be served has this index.
fn answered(candidate: &Candidate, down: &[Word<Data>]) -> usize {
    let answers = down.iter().filter(|word| **word != Word::Answer(Answer::Watched)).count();
    answers.min(candidate.asked.len() - 1)
}

/// One step under way.
pub(crate) struct Run<'a, W> {
    pub(crate) world: &'a mut World,
    pub(crate) setup: &'a Setup,
    pub(crate) witness: &'a W,
}

impl<W: Fn(Witness)> Run<'_, W> {
    fn take(&mut self, step: Step) {
        match step {
            Step::Enqueue(party) => self.enqueue(party),
            Step::Grant(party) => self.grant(party),
            Step::Proclaim(party) => self.proclaim(party),
            Step::Heed(party) => self.heed(party),
            Step::Leave(party) => self.leave(party),
            Step::Told(party) => self.told(party),
            Step::Serve(party) => {
                self.serve_watch(party);
                self.carry_out(party, |ensemble| ensemble.serve(party, false));
                self.hear_at_once(party);
            }
            Step::Refuse(party) => {
                self.world.faults.refusals -= 1;
                self.serve_watch(party);
                if matches!(self.world.ensemble.links[party].up[0], Ask::Commit(_)) {
                    (self.witness)(Witness::Refused);
                } else {
                    (self.witness)(Witness::Hidden);
                    // The watch is set, and reports nothing that the session may not read.
                    self.world.candidates[party].withheld = true;
                }
                self.world.ensemble.refuse(party);
                self.hear_at_once(party);
            }
            Step::Hear(party) => self.hear(party),
            Step::Settled(party) => self.keep_up(party, Event::Settled),
            Step::Paused(party) => self.keep_up(party, Event::Paused),
            Step::Changed(party) => {
                self.world.candidates[party].dirty = false;
                self.keep_up(party, Event::Changed);
            }
            Step::Withhold(party) => {
                self.world.faults.silences -= 1;
                (self.witness)(Witness::Withheld);
                let candidate = &mut self.world.candidates[party];
                (candidate.dirty, candidate.withheld) = (false, true);
            }
            // It takes the watch for one that stands.
            Step::Doubt(party)
                if self.is(Mutant::TrustsALongSilence) || self.is(Mutant::ForgetsThatItsOwnWatchIsLost) =>
            {
                self.world.candidates[party].deaf = true;
            }
            Step::Doubt(party) => self.keep_up(party, Event::Doubted),
            Step::Break(party) => self.break_connection(party),
            Step::Reconnect(party) => self.connect(party),
            Step::ApplyStray(party) => {
                (self.witness)(Witness::StrayApplied);
                self.carry_out(party, |ensemble| {
                    ensemble.apply_stray(party);
                });
            }
            Step::Lapse(party) => {
                self.world.faults.lapses -= 1;
                self.world.candidates[party].lapsed = true;
                self.lose(party);
            }
            Step::Expire(party) => {
                (self.witness)(Witness::Expired);
                self.world.ensemble.expire(party);
                self.world.ensemble.links[party].number = 0;
                self.world.candidates[party] = Candidate::expired();
            }
            Step::Replicate => self.world.ensemble.replicate(),
            Step::Answer => self.answer(),
            Step::Listen(place) => self.listen(place),
            Step::CutOnlooker => self.cut(),
            Step::ReconnectOnlooker { behind } => self.reconnect(behind),
            Step::Evict(party) => {
                self.world.faults.evictions -= 1;
                self.world.ensemble.delete(self.world.node(party));
                if self.world.candidates[party].stage == Stage::Queued {
                    self.displace(party);
                }
            }
            Step::Touch(party) => {
                (self.witness)(Witness::Touched);
                self.world.faults.touches -= 1;
                let node = self.world.node(party).into_iter();
                self.operate(node.map(|node| Operation::Set(Named::of(node), None)).collect());
            }
            Step::DeleteAnnouncement => {
                self.world.faults.deletions -= 1;
                self.world.ensemble.delete([Path::Directory(ANNOUNCEMENT)]);
            }
            Step::WriteAnnouncement => {
                self.world.faults.writes -= 1;
                let token = self.world.announcement().map_or(0, |found| found.told.0);
                self.operate(vec![Operation::Set(announced(token), None)]);
            }
            Step::ForgeAnnouncement => {
                self.world.faults.forgeries -= 1;
                self.operate(vec![Operation::Create(announced(0))]);
            }
        }
    }

    /// An operator does this.
    fn operate(&mut self, transaction: Transaction<Data>) {
        self.world.ensemble.commit(Party::MAX, &transaction);
    }

    /// A candidate looks right behind its watch: what comes between the two fires the watch, and comes as well behind both.
    fn serve_watch(&mut self, party: Party) {
        if matches!(self.world.ensemble.links[party].up[0], Ask::Watch(_)) {
            self.world.ensemble.serve(party, false);
            self.world.ensemble.links[party].down.retain(|word| *word != Word::Answer(Answer::Watched));
            let candidate = &mut self.world.candidates[party];
            (candidate.dirty, candidate.withheld, candidate.deaf) = (false, false, false);
        }
    }

    fn hear_at_once(&mut self, party: Party) {
        while self.setup.prompt
            && matches!(self.world.ensemble.links[party].down.first(), Some(Word::Answer(_)))
        {
            self.hear(party);
        }
    }

    /// Carries something out, which may be a transaction of this candidate.
    fn carry_out(&mut self, party: Party, step: impl FnOnce(&mut Ensemble<Data>)) {
        let link = &self.world.ensemble.links[party];
        let transaction = match link.up.first() {
            Some(Ask::Commit(transaction)) if link.connected => Some(transaction.clone()),
            Some(_) if link.connected => None,
            _ => link.strays.first().cloned(),
        };
        let (before, node) = (self.world.announcement(), self.world.node(party));
        step(&mut self.world.ensemble);
        let Some(transaction) = transaction else { return };
        let after = self.world.announcement();
        let taken = before.filter(|_| after.is_none());
        let read = transaction.iter().find_map(|operation| match operation.node().data {
            Data::Read(zxid) => Some(zxid),
            _ => None,
        });
        if transaction.iter().any(|operation| matches!(operation, Operation::Create(_))) {
            match after.filter(|_| before != after) {
                Some(after) => self.see_announcement(party, before, after.told),
                None if !self.world.is_held(party) => (self.witness)(Witness::AnnouncementRefusedByTheCheck),
                None => {}
            }
        } else if let Some(read) = read {
            let Some(taken) = taken else { return };
            let ours = taken.maker == Some(party);
            (self.witness)(if ours { Witness::Retracted } else { Witness::RetractedAnothers });
            if !ours && taken.zxid == read {
                self.world.breach(Breach::TookAnothersAnnouncement);
            }
        } else if node.is_some() && self.world.node(party).is_none() {
            let maker = taken.and_then(|taken| taken.maker);
            if maker.is_some_and(|maker| maker != party && self.world.node(maker).is_some()) {
                self.world.breach(Breach::TookAnothersAnnouncement);
            }
            let together = taken.is_some();
            (self.witness)(if together { Witness::ResignedWithAnnouncement } else { Witness::ResignedBare });
        }
    }

    fn see_announcement(&mut self, party: Party, before: Option<Announcement>, told: Told) {
        if before.is_some_and(|before| before.maker != Some(party)) {
            (self.witness)(Witness::LeftoverReplaced);
        }
        if !self.world.is_first(party) {
            self.world.breach(Breach::AnnouncedWithoutLeading);
        }
        let others = self.world.candidates.iter().enumerate().filter(|(other, _)| *other != party);
        if self.setup.faults.evictions == 0 && others.into_iter().any(|(_, other)| other.leads()) {
            self.world.breach(Breach::TwoLeaders);
        }
        (self.witness)(Witness::Announced);
        if self.world.announced.contains(&told) {
            (self.witness)(Witness::AnnouncedAgain);
        } else {
            self.world.announced.push(told);
        }
    }
}

/// What an operator writes in place of an announcement.
fn announced(token: i64) -> Named<Data> {
    Named { name: Name::At(Path::Directory(ANNOUNCEMENT)), data: Data::Announced((token, u8::MAX)) }
}
