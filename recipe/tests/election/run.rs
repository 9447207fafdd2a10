//! The steps: which are possible, and what each does.

use zklock_recipe::candidacy::Event;

use crate::candidate::{Keeper, Stage};
use crate::onlooker::Word;
use crate::server::{Reply, Request};
use crate::world::{Announcement, Mutant, Party, Setup, Witness, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Enqueue(Party),
    Grant(Party),
    Proclaim(Party),
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
            Self::Expire(party) => !world.candidates[party].disconnected,
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
            match candidate.stage {
                Stage::Idle => steps.push(Step::Enqueue(party)),
                Stage::Queued => {
                    let first = self.queue.first().is_some_and(|(first, _)| *first == party);
                    if first && !candidate.lapsed && !candidate.disconnected {
                        steps.push(Step::Grant(party));
                    }
                    steps.push(Step::Leave(party));
                }
                Stage::Holding => {
                    steps.push(Step::Leave(party));
                    if candidate.leads() && faults.proclamations > 0 {
                        steps.push(Step::Proclaim(party));
                    }
                    if !self.is_held(party) && !candidate.disconnected {
                        steps.push(Step::Told(party));
                    }
                }
                Stage::Lost => steps.push(Step::Leave(party)),
                Stage::Gone => {}
            }
            match candidate.keeper {
                Keeper::Settling => steps.push(Step::Settled(party)),
                Keeper::Pausing => steps.push(Step::Paused(party)),
                Keeper::Waiting => {
                    steps.extend(candidate.dirty.then_some(Step::Changed(party)));
                    steps.extend(candidate.is_stale().then_some(Step::Doubt(party)));
                }
                Keeper::Off | Keeper::Announcing | Keeper::Looking => {}
            }
            if candidate.dirty && faults.silences > 0 {
                steps.push(Step::Withhold(party));
            }
            if let Some(first) = candidate.up.first()
                && !candidate.disconnected
            {
                steps.push(Step::Serve(party));
                let may_be_refused = match first {
                    Request::Announce { .. } => true,
                    Request::Look(_) => self.announcement.is_some(),
                    _ => false,
                };
                steps.extend((may_be_refused && faults.refusals > 0).then_some(Step::Refuse(party)));
            }
            if !candidate.down.is_empty() {
                steps.push(Step::Hear(party));
            }
            if faults.breaks > 0 && !candidate.disconnected && candidate.stage != Stage::Idle {
                steps.push(Step::Break(party));
            }
            if candidate.disconnected {
                steps.push(Step::Reconnect(party));
            }
            if !candidate.strays.is_empty() {
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
        let onlooker = &self.onlooker;
        if !onlooker.pending.is_empty() {
            steps.push(Step::Replicate);
        }
        if !onlooker.up.is_empty() && !onlooker.disconnected {
            steps.push(Step::Answer);
        }
        if let Some(first) = onlooker.down.first() {
            steps.push(Step::Listen(0));
            let event = onlooker.down.iter().position(|word| matches!(word, Word::Changed(_)));
            if let (Word::Read(_), Some(place)) = (first, event) {
                steps.push(Step::Listen(place));
            }
        }
        if faults.outages > 0 && !onlooker.disconnected {
            steps.push(Step::CutOnlooker);
        }
        if onlooker.disconnected {
            steps.push(Step::ReconnectOnlooker { behind: false });
            if faults.rewinds > 0 && !onlooker.last.is_empty() {
                steps.push(Step::ReconnectOnlooker { behind: true });
            }
        }
        if self.announcement.is_some() && faults.deletions > 0 {
            steps.push(Step::DeleteAnnouncement);
        }
        if self.announcement.is_some() && faults.writes > 0 {
            steps.push(Step::WriteAnnouncement);
        }
        if self.announcement.is_none() && faults.forgeries > 0 {
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
    }
}

/// One step under way.
pub(crate) struct Run<'a, W> {
    pub(crate) world: &'a mut World,
    pub(crate) setup: &'a Setup,
    pub(crate) witness: &'a W,
}

impl<W: Fn(Witness)> Run<'_, W> {
    fn reply(&mut self, party: Party, reply: Reply) {
        if self.setup.prompt {
            self.hear(party, reply);
        } else {
            self.world.candidates[party].down.push(reply);
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Enqueue(party) => self.enqueue(party),
            Step::Grant(party) => self.grant(party),
            Step::Proclaim(party) => self.proclaim(party),
            Step::Leave(party) => self.leave(party),
            Step::Told(party) => self.told(party),
            Step::Serve(party) => {
                let request = self.world.candidates[party].up.remove(0);
                let reply = self.serve(party, request);
                self.reply(party, reply);
            }
            Step::Refuse(party) => {
                let request = self.world.candidates[party].up.remove(0);
                let reply = self.refuse(party, request);
                self.reply(party, reply);
            }
            Step::Hear(party) => {
                let reply: Reply = self.world.candidates[party].down.remove(0);
                self.hear(party, reply);
            }
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
                let candidate = &mut self.world.candidates[party];
                (candidate.watches, candidate.withheld) = (true, false);
            }
            Step::Doubt(party) => self.keep_up(party, Event::Doubted),
            Step::Break(party) => self.break_connection(party),
            Step::Reconnect(party) => {
                // A quorum write opens the connection: what was sent before has taken effect, or never will.
                let candidate = &mut self.world.candidates[party];
                candidate.disconnected = false;
                candidate.strays.clear();
            }
            Step::ApplyStray(party) => {
                (self.witness)(Witness::StrayApplied);
                let request = self.world.candidates[party].strays.remove(0);
                let _nobody_hears = self.serve(party, request);
            }
            Step::Lapse(party) => {
                self.world.faults.lapses -= 1;
                self.world.candidates[party].lapsed = true;
                self.lose(party);
            }
            Step::Expire(party) => self.expire(party),
            Step::Replicate => self.replicate(),
            Step::Answer => self.answer(),
            Step::Listen(place) => self.listen(place),
            Step::CutOnlooker => self.cut(),
            Step::ReconnectOnlooker { behind } => self.reconnect(behind),
            Step::Evict(party) => {
                self.world.faults.evictions -= 1;
                self.world.zxid += 1;
                self.world.queue.retain(|(owner, _)| *owner != party);
                if self.world.candidates[party].stage == Stage::Queued {
                    self.displace(party);
                }
            }
            Step::Touch(party) => {
                (self.witness)(Witness::Touched);
                self.world.faults.touches -= 1;
                self.world.zxid += 1;
                self.world.touched = Some(party);
            }
            Step::DeleteAnnouncement => {
                self.world.faults.deletions -= 1;
                self.world.zxid += 1;
                self.world.change(None, 1);
            }
            Step::WriteAnnouncement => {
                self.world.faults.writes -= 1;
                self.world.zxid += 1;
                let written = |found| Announcement { value: u8::MAX, version: 1, ..found };
                self.world.change(self.world.announcement.map(written), 1);
            }
            Step::ForgeAnnouncement => {
                self.world.faults.forgeries -= 1;
                self.world.zxid += 1;
                let zxid = self.world.zxid;
                let forged = Announcement { token: 0, value: u8::MAX, zxid, version: 0, maker: None };
                self.world.change(Some(forged), 1);
            }
        }
    }
}
