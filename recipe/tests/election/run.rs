//! The steps: which are possible, and what each does.

use stateright::Property;

use zklock_recipe::candidacy::CandidacyEvent;
use zklock_recipe::transaction::Operation;

use super::act::{Act, act, possible};
use super::candidate::{Candidate, Keeper, Request, Stage};
use super::contest::{Contest, OWN, SOUND, properties};
use super::office::{ANNOUNCEMENT, Announcement, Data, Told, World};
use super::setup::{Fault, Mutant, Party, Setup, Witness};
use crate::world::ensemble::{Answer, Ask, Ensemble, Word};
use crate::world::exploration::{self, State};
use crate::world::tree::{Name, Named, Path, Session};

/// One step under way.
pub(crate) type Run<'a> = exploration::Run<'a, Setup>;

impl exploration::Setup for Setup {
    type World = World;
    type Step = Act;
    type Fault = Fault;
    type Mutant = Mutant;
    type Witness = Witness;

    fn first(&self) -> State<Self> {
        State::<Self>::new(World::new(self), &self.faults)
    }

    fn steps(&self, world: &State<Self>, steps: &mut Vec<Act>) {
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
            let first = world.is_first(party) && !candidate.lapsed && link.connected;
            let holds = candidate.stage == Stage::Holding;
            let queued = candidate.stage == Stage::Queued;
            // A guard that is lost is dropped in the end.
            let may_stay = candidate.leads() || queued;
            let expiry = act!(expire).voluntary(link.connected);
            let acts = [
                (candidate.stage == Stage::Idle, act!(enqueue).voluntary(true)),
                (comes && candidate.stage != Stage::Gone, act!(leave).voluntary(may_stay)),
                (queued && first, act!(grant)),
                (candidate.leads(), act!(proclaim).due_to(Fault::Proclamation)),
                (holds && !world.is_held(party) && link.connected, act!(told)),
                (settles, act!(settled)),
                ((settles || waits) && unheeded, act!(heed)),
                (candidate.keeper == Keeper::Pausing, act!(paused)),
                (waits && candidate.dirty, act!(changed)),
                (waits && stale && !candidate.deaf, act!(doubt)),
                (candidate.dirty, act!(withhold).due_to(Fault::Silence)),
                (serves, act!(serve)),
                (serves && refusable(), act!(refuse).due_to(Fault::Refusal)),
                (!link.down.is_empty(), act!(hear)),
                (link.connected && comes, act!(break_connection).due_to(Fault::Break)),
                (!link.connected, act!(connect)),
                (!link.strays.is_empty(), act!(apply_stray).voluntary(true)),
                (!candidate.lapsed && comes, act!(lapse).due_to(Fault::Lapse)),
                (candidate.lapsed, expiry),
                (exists, act!(evict).due_to(Fault::Eviction)),
                (exists && holds, act!(touch).due_to(Fault::Touch)),
            ];
            steps.extend(possible(party, acts));
        }
        if let Some(onlooker) = &world.onlooker {
            let link = &world.ensemble.links[onlooker.session];
            let event = link.down.iter().position(|word| matches!(word, Word::Event(..)));
            let behind = world.ensemble.can_rewind();
            let acts = [
                (world.ensemble.is_behind(), act!(replicate)),
                (world.ensemble.can_serve(onlooker.session), act!(answer)),
                (link.connected, act!(cut).due_to(Fault::Outage)),
                (!link.connected, act!(reconnect(false))),
                (!link.connected && behind, act!(reconnect(true)).due_to(Fault::Rewind)),
            ];
            steps.extend(possible(onlooker.session, acts));
            // The first message, or the first event if that is behind answers.
            let places = (!link.down.is_empty()).then_some(0).into_iter().chain(event.filter(|it| *it > 0));
            steps.extend(places.map(|place| act!(listen).of(place)));
        }
        let announced = world.announcement().is_some();
        let acts = [
            (announced, act!(delete).due_to(Fault::Deletion)),
            (announced, act!(write).due_to(Fault::Write)),
            (!announced, act!(forge).due_to(Fault::Forgery)),
        ];
        steps.extend(possible(ANNOUNCEMENT, acts));
    }

    /// What makes no difference goes.
    fn settle(run: &mut Run<'_>) {
        let World { candidates, ensemble, .. } = &mut *run.world;
        for (party, candidate) in candidates.iter_mut().enumerate() {
            let down = &mut ensemble.links[party].down;
            // How often its watch has fired makes no difference.
            candidate.dirty |= down.iter().any(|word| matches!(word, Word::Event(..)));
            down.retain(|word| matches!(word, Word::Answer(_)));
        }
    }

    fn mutated(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    fn properties(&self) -> Vec<Property<Contest>> {
        properties()
    }
}

/// The number of requests whose answers are under way: the next request to be served has this index.
fn answered(candidate: &Candidate, down: &[Word<Data>]) -> usize {
    let answers = down.iter().filter(|word| **word != Word::Answer(Answer::Watched)).count();
    answers.min(candidate.asked.len() - 1)
}

impl Run<'_> {
    fn serve(&mut self, party: Party) {
        self.serve_watch(party);
        self.carry_out(party, |ensemble| ensemble.serve(party));
        self.hear_at_once(party);
    }

    /// A server refuses its next request.
    fn refuse(&mut self, party: Party) {
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

    /// A leader has led for a while.
    fn settled(&mut self, party: Party) {
        self.keep_up(party, CandidacyEvent::Settled);
    }

    fn paused(&mut self, party: Party) {
        self.keep_up(party, CandidacyEvent::Paused);
    }

    /// A candidate hears that its announcement has changed.
    fn changed(&mut self, party: Party) {
        self.world.candidates[party].dirty = false;
        self.keep_up(party, CandidacyEvent::Changed);
    }

    /// The server withholds that.
    fn withhold(&mut self, party: Party) {
        (self.witness)(Witness::Withheld);
        let candidate = &mut self.world.candidates[party];
        (candidate.dirty, candidate.withheld) = (false, true);
    }

    /// Nothing was heard for long.
    fn doubt(&mut self, party: Party) {
        if self.is(Mutant::TrustsALongSilence) || self.is(Mutant::ForgetsThatItsOwnWatchIsLost) {
            // It takes the watch for one that stands.
            self.world.candidates[party].deaf = true;
            return;
        }
        self.keep_up(party, CandidacyEvent::Doubted);
    }

    fn apply_stray(&mut self, party: Party) {
        (self.witness)(Witness::StrayApplied);
        self.carry_out(party, |ensemble| {
            ensemble.apply_stray(party);
        });
    }

    fn lapse(&mut self, party: Party) {
        self.world.candidates[party].lapsed = true;
        self.lose(party);
    }

    fn expire(&mut self, party: Party) {
        (self.witness)(Witness::Expired);
        self.world.ensemble.expire(party);
        self.world.candidates[party] = Candidate::expired();
    }

    fn replicate(&mut self, _: Session) {
        self.world.ensemble.replicate();
    }

    fn evict(&mut self, party: Party) {
        self.world.ensemble.delete(self.world.node(party));
        if self.world.candidates[party].stage == Stage::Queued {
            self.displace(party);
        }
    }

    fn touch(&mut self, party: Party) {
        (self.witness)(Witness::Touched);
        if let Some(node) = self.world.node(party) {
            self.world.ensemble.write(node, Data::Nothing);
        }
    }

    fn delete(&mut self, announcement: usize) {
        self.world.ensemble.delete([Path::Directory(announcement)]);
    }

    fn write(&mut self, announcement: usize) {
        let token = self.world.announcement().map_or(0, |found| found.told.0);
        self.world.ensemble.write(Path::Directory(announcement), operators(token));
    }

    fn forge(&mut self, announcement: usize) {
        let name = Name::At(Path::Directory(announcement));
        let create = Operation::Create(Named { name, data: operators(0) });
        self.world.ensemble.commit(Party::MAX, &[create]);
    }

    /// A candidate looks right behind its watch: what comes between the two fires the watch, and comes as well behind both.
    fn serve_watch(&mut self, party: Party) {
        if matches!(self.world.ensemble.links[party].up[0], Ask::Watch(_)) {
            self.world.ensemble.serve(party);
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
            if let Some(after) = after.filter(|_| before != after) {
                self.see_announcement(party, before, after.told);
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
