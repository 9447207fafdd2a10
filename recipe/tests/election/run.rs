//! The steps: which are possible, and what each does.

use stateright::Property;

use zklock_recipe::candidacy::Event;
use zklock_recipe::transaction::Operation;

use super::candidate::{Candidate, Keeper, Request, Stage};
use super::contest::{Contest, OWN, SOUND, properties};
use super::office::{ANNOUNCEMENT, Announcement, Data, Told, World};
use super::setup::{Fault, Mutant, Party, Setup, Witness};
use crate::world::ensemble::{Answer, Ask, Ensemble, Word};
use crate::world::exploration::{self, State, possible};
use crate::world::tree::{Name, Named, Path};

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

/// One step under way.
pub(crate) type Run<'a> = exploration::Run<'a, Setup>;

impl exploration::Setup for Setup {
    type World = World;
    type Step = Step;
    type Fault = Fault;
    type Mutant = Mutant;
    type Witness = Witness;

    fn first(&self) -> State<Self> {
        State::<Self>::new(World::new(self), &self.faults)
    }

    fn steps(&self, world: &State<Self>, steps: &mut Vec<Step>) {
        for (party, candidate) in world.candidates.iter().enumerate().filter(|(_, it)| !it.expired) {
            let link = &world.ensemble.links[party];
            let (exists, comes) = (world.node(party).is_some(), candidate.stage != Stage::Idle);
            let unheeded = candidate.heeded < candidate.proclaimed;
            let stale = candidate.withheld || !world.ensemble.watches(party);
            let (settles, waits) =
                (candidate.keeper == Keeper::Settling, candidate.keeper == Keeper::Waiting);
            let serves = world.ensemble.can_serve(party);
            let refusable = || match candidate.asked[answered(candidate, &link.down)] {
                Request::Announce { .. } => true,
                Request::Look(_) => world.announcement().is_some(),
                _ => false,
            };
            steps.extend(match candidate.stage {
                Stage::Idle => Some(Step::Enqueue(party)),
                Stage::Queued | Stage::Holding | Stage::Lost => Some(Step::Leave(party)),
                Stage::Gone => None,
            });
            let first = world.is_first(party) && !candidate.lapsed && link.connected;
            let holds = candidate.stage == Stage::Holding;
            steps.extend(possible([
                (candidate.stage == Stage::Queued && first, Step::Grant(party)),
                (candidate.leads(), Step::Proclaim(party)),
                (holds && !world.is_held(party) && link.connected, Step::Told(party)),
                (settles, Step::Settled(party)),
                ((settles || waits) && unheeded, Step::Heed(party)),
                (candidate.keeper == Keeper::Pausing, Step::Paused(party)),
                (waits && candidate.dirty, Step::Changed(party)),
                (waits && stale && !candidate.deaf, Step::Doubt(party)),
                (candidate.dirty, Step::Withhold(party)),
                (serves, Step::Serve(party)),
                (serves && refusable(), Step::Refuse(party)),
                (!link.down.is_empty(), Step::Hear(party)),
                (link.connected && comes, Step::Break(party)),
                (!link.connected, Step::Reconnect(party)),
                (!link.strays.is_empty(), Step::ApplyStray(party)),
                (!candidate.lapsed && comes, Step::Lapse(party)),
                (candidate.lapsed, Step::Expire(party)),
                (exists, Step::Evict(party)),
                (exists && holds, Step::Touch(party)),
            ]));
        }
        if let Some(onlooker) = &world.onlooker {
            let link = &world.ensemble.links[onlooker.session];
            let event = link.down.iter().position(|word| matches!(word, Word::Event(..)));
            let behind = world.ensemble.can_rewind();
            steps.extend(possible([
                (world.ensemble.is_behind(), Step::Replicate),
                (world.ensemble.can_serve(onlooker.session), Step::Answer),
                (!link.down.is_empty(), Step::Listen(0)),
                (event.is_some_and(|place| place > 0), Step::Listen(event.unwrap_or(0))),
                (link.connected, Step::CutOnlooker),
                (!link.connected, Step::ReconnectOnlooker { behind: false }),
                (!link.connected && behind, Step::ReconnectOnlooker { behind: true }),
            ]));
        }
        let announced = world.announcement().is_some();
        steps.extend(possible([
            (announced, Step::DeleteAnnouncement),
            (announced, Step::WriteAnnouncement),
            (!announced, Step::ForgeAnnouncement),
        ]));
    }

    fn fault(_: &State<Self>, step: Step) -> Option<Fault> {
        Some(match step {
            Step::Break(_) => Fault::Break,
            Step::CutOnlooker => Fault::Outage,
            Step::ReconnectOnlooker { behind: true } => Fault::Rewind,
            Step::Lapse(_) => Fault::Lapse,
            Step::Proclaim(_) => Fault::Proclamation,
            Step::Evict(_) => Fault::Eviction,
            Step::Touch(_) => Fault::Touch,
            Step::DeleteAnnouncement => Fault::Deletion,
            Step::WriteAnnouncement => Fault::Write,
            Step::ForgeAnnouncement => Fault::Forgery,
            Step::Refuse(_) => Fault::Refusal,
            Step::Withhold(_) => Fault::Silence,
            _ => return None,
        })
    }

    fn is_voluntary(world: &State<Self>, step: Step) -> bool {
        match step {
            // A guard that is lost is dropped in the end.
            Step::Leave(party) => {
                world.candidates[party].leads() || world.candidates[party].stage == Stage::Queued
            }
            Step::Expire(party) => world.ensemble.links[party].connected,
            Step::Enqueue(_) | Step::ApplyStray(_) => true,
            _ => false,
        }
    }

    fn take(run: &mut Run<'_>, step: Step) {
        run.take(step);
        run.world.settle();
    }

    fn mutated(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    fn properties(&self) -> Vec<Property<Contest>> {
        properties()
    }
}

impl World {
    /// What makes no difference goes.
    fn settle(&mut self) {
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

impl Run<'_> {
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
                self.world.candidates[party].lapsed = true;
                self.lose(party);
            }
            Step::Expire(party) => {
                (self.witness)(Witness::Expired);
                self.world.ensemble.expire(party);
                self.world.candidates[party] = Candidate::expired();
            }
            Step::Replicate => self.world.ensemble.replicate(),
            Step::Answer => self.answer(),
            Step::Listen(place) => self.listen(place),
            Step::CutOnlooker => self.cut(),
            Step::ReconnectOnlooker { behind } => self.reconnect(behind),
            Step::Evict(party) => {
                self.world.ensemble.delete(self.world.node(party));
                if self.world.candidates[party].stage == Stage::Queued {
                    self.displace(party);
                }
            }
            Step::Touch(party) => {
                (self.witness)(Witness::Touched);
                if let Some(node) = self.world.node(party) {
                    self.world.ensemble.write(node, Data::Nothing);
                }
            }
            Step::DeleteAnnouncement => {
                self.world.ensemble.delete([Path::Directory(ANNOUNCEMENT)]);
            }
            Step::WriteAnnouncement => {
                let token = self.world.announcement().map_or(0, |found| found.told.0);
                self.world.ensemble.write(Path::Directory(ANNOUNCEMENT), operators(token));
            }
            Step::ForgeAnnouncement => {
                let name = Name::At(Path::Directory(ANNOUNCEMENT));
                let create = Operation::Create(Named { name, data: operators(0) });
                self.world.ensemble.commit(Party::MAX, &[create]);
            }
        }
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
            self.forbid(OWN, !ours && taken.zxid == read);
        } else if node.is_some() && self.world.node(party).is_none() {
            let maker = taken.and_then(|taken| taken.maker);
            self.forbid(OWN, maker.is_some_and(|maker| maker != party && self.world.node(maker).is_some()));
            let together = taken.is_some();
            (self.witness)(if together { Witness::ResignedWithAnnouncement } else { Witness::ResignedBare });
        }
    }

    fn see_announcement(&mut self, party: Party, before: Option<Announcement>, told: Told) {
        self.note(Witness::LeftoverReplaced, before.is_some_and(|before| before.maker != Some(party)));
        self.forbid(SOUND, !self.world.is_first(party));
        let others = self.world.candidates.iter().enumerate().filter(|(other, _)| *other != party);
        let evicts = self.setup.faults.contains(&Fault::Eviction);
        self.forbid(SOUND, !evicts && others.into_iter().any(|(_, other)| other.leads()));
        (self.witness)(Witness::Announced);
        if self.world.announced.contains(&told) {
            (self.witness)(Witness::AnnouncedAgain);
        } else {
            self.world.announced.push(told);
        }
    }
}

/// What an operator writes in place of an announcement.
fn operators(token: i64) -> Data {
    Data::Announced((token, u8::MAX))
}
