//! An observer with the production machine, at a server that lags behind the leader.

use zklock_recipe::{Footing, Instruction, Observation, ObserverMachine};

use super::contest::{FORWARD, GENUINE};
use super::office::{ANNOUNCEMENT, Announcement, Data, Told};
use super::run::Run;
use super::setup::{Mutant, Witness};
use crate::world::ensemble::{Answer, Ask, Ensemble, Link, Word};
use crate::world::tree::{Path, Session};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Onlooker {
    machine: ObserverMachine<Told>,
    pub(crate) session: Session,
    /// What it was told last; `None` if nothing yet.
    pub(crate) told: Option<Option<Told>>,
    highest: i64,
}

impl Onlooker {
    pub(crate) fn new(session: Session, mutant: Option<Mutant>, ensemble: &mut Ensemble<Data>) -> Self {
        let mut machine = ObserverMachine::default();
        machine.handle(Observation::Connected);
        ensemble.send(session, looks(Footing::Unwatched, mutant));
        Self { machine, session, told: None, highest: 0 }
    }
}

fn looks(footing: Footing, mutant: Option<Mutant>) -> Vec<Ask<Data>> {
    let path = Path::Directory(ANNOUNCEMENT);
    let (watch, read) = (Ask::Watch(path), Ask::Get(path));
    match (footing, mutant) {
        (Footing::Unwatched, Some(Mutant::ReadsBeforeItWatches)) => vec![read, watch],
        (Footing::Unwatched, Some(Mutant::ForgetsThatItsWatchIsLost)) => vec![read],
        (Footing::Unwatched, _) => vec![watch, read],
        (Footing::Watched, _) => vec![read],
    }
}

impl Run<'_> {
    fn link(&mut self) -> &mut Link<Data> {
        let session = self.onlooker().session;
        &mut self.world.ensemble.links[session]
    }

    fn onlooker(&mut self) -> &mut Onlooker {
        self.world.onlooker.as_mut().expect("the model has an observer")
    }

    /// Its server answers its next request.
    pub(crate) fn answer(&mut self, session: Session) {
        let behind = self.world.ensemble.is_behind();
        if behind && matches!(self.link().up[0], Ask::Get(_)) {
            (self.witness)(Witness::ReadFromThePast);
        }
        self.world.ensemble.serve(session);
        self.link().down.retain(|word| *word != Word::Answer(Answer::Watched));
    }

    /// It hears the message at this place: the first one, or the first event if that is behind answers.
    pub(crate) fn listen(&mut self, place: usize) {
        self.note(Witness::EventOvertookTheAnswer, place > 0);
        let takes_anything = self.setup.mutant == Some(Mutant::TakesAnythingForAnAnnouncement);
        let named = self.setup.named;
        let event = match self.link().down.remove(place) {
            Word::Event(_, _, zxid) => {
                let looking = !self.onlooker().machine.is_watching();
                if looking && self.setup.mutant == Some(Mutant::IgnoresChangesDuringALook) {
                    return;
                }
                Observation::Changed(zxid.filter(|_| named))
            }
            Word::Answer(Answer::Got(found)) => {
                let found = found.as_ref().and_then(Announcement::of);
                Observation::Seen(match takes_anything {
                    true => found.map(Announcement::taken),
                    false => found.and_then(Announcement::read),
                })
            }
            Word::Answer(_) => return,
        };
        self.observe(event);
    }

    fn observe(&mut self, event: Observation<Told>) {
        let (changed, looking) =
            (matches!(event, Observation::Changed(_)), !self.onlooker().machine.is_watching());
        if self.setup.mutant == Some(Mutant::TakesALowerToken) && matches!(event, Observation::Seen(_)) {
            self.forget_the_highest();
        }
        let answered = matches!(event, Observation::Seen(_));
        let instructions = self.onlooker().machine.handle(event);
        self.note(Witness::Coalesced, changed && looking && instructions.is_empty());
        for instruction in instructions {
            match instruction {
                Instruction::Look(footing) => {
                    self.note(Witness::LookedAgain, answered);
                    self.look(footing);
                }
                Instruction::SyncAndLook => {
                    (self.witness)(Witness::LookedBehindASync);
                    self.sync();
                    self.look(Footing::Watched);
                }
                // No server of the model loses its data.
                Instruction::TellWentBack { .. } => self.forbid(FORWARD, true),
                Instruction::Tell(told) => self.tell(told),
            }
        }
    }

    fn look(&mut self, footing: Footing) {
        let session = self.onlooker().session;
        self.world.ensemble.send(session, looks(footing, self.setup.mutant));
    }

    fn sync(&mut self) {
        let session = self.onlooker().session;
        let syncs = self.setup.mutant != Some(Mutant::BelievesAServerThatIsBehind);
        self.world.ensemble.send(session, syncs.then_some(Ask::Sync));
    }

    fn tell(&mut self, told: Option<Told>) {
        let onlooker = self.onlooker();
        let before = onlooker.told.replace(told);
        match (before, told) {
            (_, None) => (self.witness)(Witness::ToldNobody),
            (Some(Some(before)), Some(told)) if before.0 != told.0 => (self.witness)(Witness::ToldTheNext),
            (_, Some(_)) => (self.witness)(Witness::ToldSomebody),
        }
        let Some((token, value)) = told else { return };
        let onlooker = self.onlooker();
        let highest = onlooker.highest;
        onlooker.highest = highest.max(token);
        self.forbid(FORWARD, token < highest);
        self.forbid(GENUINE, !self.world.announced.contains(&(token, value)));
    }

    /// As if the machine had been told nothing yet.
    fn forget_the_highest(&mut self) {
        let mut machine = ObserverMachine::default();
        machine.handle(Observation::Connected);
        self.onlooker().machine = machine;
    }

    /// Its connection or its session ends. Its requests and its watch go with it.
    pub(crate) fn cut(&mut self, session: Session) {
        self.world.ensemble.cut(session);
        self.observe(Observation::Disconnected);
    }

    /// It has a connection again. A quorum write opens each connection, so its server has caught up, unless it has not.
    pub(crate) fn reconnect(&mut self, session: Session, behind: bool) {
        if behind {
            (self.witness)(Witness::ServerBehindWasAsked);
            self.world.ensemble.rewind();
        } else {
            while self.world.ensemble.is_behind() {
                self.world.ensemble.replicate();
            }
        }
        self.world.ensemble.connect(session);
        self.observe(Observation::Connected);
    }
}
