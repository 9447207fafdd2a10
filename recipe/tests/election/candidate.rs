//! A candidate: the production machines of its contender, its announcement and its companion, and what performs their commands.
//! When it is granted is abstracted: it is, once its node is the first and its lease is valid.

use zklock_recipe::acquisition::{Acquisition, Effect, Input};
use zklock_recipe::candidacy::{self, Candidacy, Proclamation, SeenAnnouncement};
use zklock_recipe::companion::{self, Companion};
use zklock_recipe::nodes::confirmation;
use zklock_recipe::transaction::{Operation, Problem, UNTOUCHED};
use zklock_recipe::{
    Alone, Arrival, End, Event, Footing, Outcome, Own, Patience, Report, Sight, Takeover, Together,
};

use super::contest::HONEST;
use super::office::{ANNOUNCEMENT, Announcement, Data, LOCK, Told};
use super::run::Run;
use super::setup::{Mutant, Party, Witness};
use crate::world::ensemble::{Answer, Ask, Word};
use crate::world::present::present;
use crate::world::tree::{Name, Named, Path, Transaction};

/// The number of every connection.
const CONNECTION: u64 = 0;

/// A request of a candidate. The servers answer them in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Announce {
        value: u8,
        replace: bool,
    },
    Look(Footing),
    /// Our node, and perhaps the announcement with it. It is a release, or a deletion.
    Leave {
        along: bool,
        release: bool,
    },
    /// Does our node exist?
    Recover,
    Read,
    /// The announcement, if it has this version. This one was read.
    TakeBack {
        version: i32,
        read: i64,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Candidate {
    pub(crate) stage: Stage,
    /// Its node, once it has queued.
    pub(crate) own: Option<Own>,
    pub(crate) lapsed: bool,
    pub(crate) expired: bool,
    /// Its last proclamation: the number, which is the value, too.
    pub(crate) proclaimed: u8,
    /// The last proclamation that its candidacy has heard.
    pub(crate) heeded: u8,
    pub(crate) contender: Option<Acquisition>,
    pub(crate) companion: Option<Companion>,
    pub(crate) candidacy: Option<Candidacy<Told>>,
    /// What its candidacy waits for.
    pub(crate) keeper: Keeper,
    /// It takes its announcement back.
    pub(crate) takes_back: bool,
    /// The transaction that made the announcement which it has just read.
    read: i64,
    /// Its watch has fired, and it has not heard of that yet.
    pub(crate) dirty: bool,
    /// The announcement may have changed, and the server withholds that.
    pub(crate) withheld: bool,
    /// It has made its announcement again. Only a mutant notes it.
    disturbed: bool,
    /// It takes its watch for one that stands, because it is broken.
    pub(crate) deaf: bool,
    /// What it has asked and has no answer to, in order.
    pub(crate) asked: Vec<Request>,
    /// What waits for a connection.
    waiting: Vec<Request>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    #[default]
    Idle,
    Queued,
    /// It holds the lock, as far as it knows.
    Holding,
    /// It was told that its node is gone, or that somebody has written to it.
    Lost,
    /// It leaves, or has left.
    Gone,
}

/// What a candidacy waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Keeper {
    #[default]
    Off,
    Announcing,
    Looking,
    Settling,
    Pausing,
    Waiting,
}

impl Candidate {
    /// One whose session is over.
    pub(crate) fn expired() -> Self {
        Self { stage: Stage::Gone, expired: true, lapsed: true, ..Self::default() }
    }

    /// Whether its guard says that the lock is held.
    pub(crate) fn leads(&self) -> bool {
        self.stage == Stage::Holding && !self.lapsed
    }

    /// Whether it waits for nothing that it has asked for.
    pub(crate) fn is_at_rest(&self) -> bool {
        let left = self.stage != Stage::Gone || self.contender.is_none();
        left && !self.takes_back && matches!(self.keeper, Keeper::Off | Keeper::Waiting)
    }

    pub(crate) fn token(&self) -> i64 {
        self.own.map_or(0, |own| own.czxid)
    }
}

impl Run<'_> {
    fn candidate(&mut self, party: Party) -> &mut Candidate {
        &mut self.world.candidates[party]
    }

    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.setup.mutant == Some(mutant)
    }

    pub(crate) fn enqueue(&mut self, party: Party) {
        let own = self.world.ensemble.enqueue(party, LOCK).expect("the queue is there");
        let takes_anothers = self.is(Mutant::TakesAnothersAnnouncement);
        let candidate = self.candidate(party);
        (candidate.stage, candidate.own) = (Stage::Queued, Some(own));
        candidate.companion = takes_anothers.then(|| Companion::new(session(party), own.czxid));
        candidate.contender = Some(Acquisition::new(Patience::Wait, Arrival::New, [Takeover::AtOnce]));
        self.contend(party, Event::Begin.into());
        // It asks who is before it, and is answered once that is nobody.
        self.contend(party, Input::Reply(Report::Entered(vec![(own, Sight::Nothing)]), CONNECTION));
    }

    pub(crate) fn grant(&mut self, party: Party) {
        let own = self.candidate(party).own.into_iter();
        let own = own.map(|own| own.place.name()).collect();
        self.inform(party, Event::Listed(own));
    }

    /// An operator has deleted the node of a candidate that waits.
    pub(crate) fn displace(&mut self, party: Party) {
        self.candidate(party).stage = Stage::Gone;
        self.inform(party, Event::Listed(vec![]));
    }

    /// Tells the contender of a reply.
    fn inform(&mut self, party: Party, event: Event) {
        self.contend(party, Input::Reply(Report::One(0, event), CONNECTION));
    }

    /// Tells the contender something, and performs what follows. Its own node is another model's subject, so it is always sure of that
    /// here.
    fn contend(&mut self, party: Party, input: Input) {
        let Some(acquisition) = &mut self.candidate(party).contender else { return };
        for command in acquisition.handle(input, present(Some(CONNECTION), true)) {
            match command {
                Effect::Tell(Outcome::Granted(owns, _)) => self.lead(party, owns[0].czxid),
                Effect::All(Together::Release, ..) => self.remove(party, true),
                Effect::One(_, Alone::Delete(_), ..) => self.remove(party, false),
                Effect::One(_, Alone::Recover(_), ..) => self.post(party, Request::Recover),
                Effect::Tell(Outcome::Ended(_, end)) => {
                    self.candidate(party).contender = None;
                    let trusts = self.is(Mutant::TakesAMissingNodeForAResignation) && end == End::Released;
                    if !trusts {
                        self.accompany(party, companion::CompanionEvent::Left);
                    }
                }
                Effect::All(Together::Enter, ..) | Effect::One(_, Alone::List, ..) => {}
                command => unreachable!("{command:?}"),
            }
        }
    }

    fn lead(&mut self, party: Party, token: i64) {
        let makes_none = self.is(Mutant::LeavesItsAnnouncement);
        let candidate = self.candidate(party);
        (candidate.stage, candidate.proclaimed, candidate.heeded) = (Stage::Holding, 1, 1);
        candidate.companion = (!makes_none).then(|| Companion::new(session(party), token));
        candidate.candidacy = Some(Candidacy::new(session(party), (token, 1)));
        self.keep_up(party, candidacy::CandidacyEvent::Begin);
    }

    /// Removes its node, and the announcement with it.
    fn remove(&mut self, party: Party, release: bool) {
        let candidate = self.candidate(party);
        let along = candidate.companion.is_some_and(|companion| companion.goes_along());
        self.post(party, Request::Leave { along, release });
    }

    pub(crate) fn proclaim(&mut self, party: Party) {
        (self.witness)(Witness::Proclaimed);
        let candidate = self.candidate(party);
        // The performer takes it in by itself, if it waits, or with the next reply.
        candidate.proclaimed += 1;
    }

    /// The performer hears that the leader has proclaimed another value.
    pub(crate) fn heed(&mut self, party: Party) {
        let newest = candidacy::CandidacyEvent::Proclaimed(self.candidate(party).newest());
        self.announce(party, newest);
    }

    /// Begins to leave: it resigns, or drops its lost guard, or waits no longer.
    pub(crate) fn leave(&mut self, party: Party) {
        let candidate = self.candidate(party);
        let event = match candidate.stage {
            Stage::Queued => Event::GiveUp,
            Stage::Holding if !candidate.lapsed => Event::Release,
            _ => Event::Forfeit,
        };
        candidate.stage = Stage::Gone;
        self.lose(party);
        self.contend(party, event.into());
    }

    /// The holder hears that its node is gone, or that somebody has written to it.
    pub(crate) fn told(&mut self, party: Party) {
        self.candidate(party).stage = Stage::Lost;
        self.lose(party);
        self.accompany(party, companion::CompanionEvent::Left);
    }

    /// The hold is lost, and the upkeep ends. It has handed what it asked for to the connection, or sends it no more.
    pub(crate) fn lose(&mut self, party: Party) {
        let waiting = &mut self.candidate(party).waiting;
        waiting.retain(|request| !matches!(request, Request::Announce { .. } | Request::Look(_)));
        self.keep_up(party, candidacy::CandidacyEvent::Over);
    }

    /// Gives the candidacy what was proclaimed meanwhile, and then an event, as its performer does.
    pub(crate) fn keep_up(&mut self, party: Party, event: candidacy::CandidacyEvent<Told, ()>) {
        use candidacy::CandidacyEvent as E;
        let keeper = self.candidate(party).keeper;
        let event = match (self.setup.mutant, event) {
            (Some(Mutant::IsStoppedByALeftover), E::Contested)
            | (Some(Mutant::IgnoresItsAnnouncement), E::Settled)
            | (Some(Mutant::GivesUpWhenRefused), E::Refused(())) => E::Over,
            (Some(Mutant::StopsAtSilence), E::Unanswered) => return,
            (Some(Mutant::TakesUnknownForAnnounced), E::Unanswered) if keeper == Keeper::Announcing => {
                E::Announced
            }
            (Some(Mutant::ForgetsThatItsOwnWatchIsLost), E::Doubted) => E::Changed,
            (_, event) => event,
        };
        if self.is(Mutant::ForgetsAProclamation) {
            let candidate = self.candidate(party);
            candidate.heeded = candidate.proclaimed;
        } else {
            self.heed(party);
        }
        self.announce(party, event);
    }

    /// Gives the candidacy one event, and performs what follows.
    fn announce(&mut self, party: Party, event: candidacy::CandidacyEvent<Told, ()>) {
        if let candidacy::CandidacyEvent::Proclaimed(_) = event {
            let candidate = self.candidate(party);
            candidate.heeded = candidate.proclaimed;
        }
        let Some(machine) = &mut self.candidate(party).candidacy else { return };
        let commands = machine.handle(event);
        if machine.is_ended() {
            let candidate = self.candidate(party);
            (candidate.candidacy, candidate.keeper) = (None, Keeper::Off);
        }
        for command in commands {
            self.perform(party, command);
        }
    }

    fn perform(&mut self, party: Party, command: candidacy::CandidacyCommand<Told, ()>) {
        let gives_up = self.is(Mutant::GivesUpAfterTheFirstDisturbance);
        let pauses = command == candidacy::CandidacyCommand::Pause;
        let disturbed = pauses && gives_up && std::mem::replace(&mut self.candidate(party).disturbed, true);
        let tells_the_newest = self.is(Mutant::TakesTheReplyToAnOlderProclamation);
        let keeper = match command {
            candidacy::CandidacyCommand::Announce { value: (_, value), replace } => {
                self.post(party, Request::Announce { value, replace });
                Keeper::Announcing
            }
            candidacy::CandidacyCommand::Look(footing) => {
                self.post(party, Request::Look(footing));
                Keeper::Looking
            }
            candidacy::CandidacyCommand::Settle => Keeper::Settling,
            candidacy::CandidacyCommand::Wait => Keeper::Waiting,
            candidacy::CandidacyCommand::Pause if disturbed => {
                return self.announce(party, candidacy::CandidacyEvent::Over);
            }
            candidacy::CandidacyCommand::Pause => Keeper::Pausing,
            candidacy::CandidacyCommand::Tell(number, outcome) => {
                let candidate = self.candidate(party);
                let value = if tells_the_newest { candidate.proclaimed } else { number as u8 };
                let told = (candidate.token(), value);
                self.forbid(HONEST, outcome.is_ok() && !self.world.announced.contains(&told));
                return;
            }
        };
        self.candidate(party).keeper = keeper;
    }

    /// Gives the companion an event, and performs what follows.
    fn accompany(&mut self, party: Party, event: companion::CompanionEvent) {
        use companion::CompanionEvent as E;
        let forgets = self.is(Mutant::ForgetsItsAnnouncement);
        let (mutant, candidate) = (self.setup.mutant, self.candidate(party));
        let event = match (mutant, event) {
            (_, E::Left) if forgets => return,
            (Some(Mutant::TakesBackWhatIsNotIts), E::Seen(Some(seen))) => {
                let (session, token) = (session(party), Some(candidate.token()));
                E::Seen(Some(companion::SeenCompanion { session, token, ..seen }))
            }
            (Some(Mutant::LeavesWhatWasWrittenTo), E::Seen(Some(seen))) if seen.version > 0 => E::Seen(None),
            (Some(Mutant::TakesBackOnce), E::Changed | E::Unanswered) => E::Refused,
            (_, event) => event,
        };
        let Some(companion) = &mut candidate.companion else { return };
        let command = companion.handle(event);
        if event != E::Left {
            candidate.takes_back = false;
        }
        candidate.takes_back |= command.is_some();
        let read = std::mem::take(&mut candidate.read);
        match command {
            Some(companion::CompanionCommand::Read) => self.post(party, Request::Read),
            Some(companion::CompanionCommand::Delete(version)) => {
                self.post(party, Request::TakeBack { version, read });
            }
            None => {}
        }
    }

    /// Sends a request, once there is a connection.
    fn post(&mut self, party: Party, request: Request) {
        if !self.world.ensemble.links[party].connected {
            return self.candidate(party).waiting.push(request);
        }
        let announcement = Path::Directory(ANNOUNCEMENT);
        let read = Ask::Get(announcement);
        let own = self.candidate(party).own.map(|own| Path::Child(LOCK, own.place));
        let asks = match request {
            Request::Announce { value, replace } => {
                vec![Ask::Commit(self.announcement(party, value, replace))]
            }
            Request::Look(Footing::Unwatched) => vec![Ask::Watch(announcement), read],
            Request::Look(Footing::Watched) | Request::Read => vec![read],
            Request::Recover => own.map(Ask::Get).into_iter().collect(),
            Request::Leave { along, release } => {
                let name = |target| match target {
                    companion::CompanionTarget::Own => own.unwrap_or(announcement),
                    companion::CompanionTarget::Companion => announcement,
                };
                let removal = companion::removal(release, along).into_iter();
                vec![Ask::Commit(removal.map(|it| it.map(|target| Named::of(name(target)))).collect())]
            }
            Request::TakeBack { version, read } => {
                let read = Named { name: Name::At(announcement), data: Data::Read(read) };
                vec![Ask::Commit(vec![Operation::Delete(read, Some(version))])]
            }
        };
        self.candidate(party).asked.push(request);
        self.world.ensemble.send(party, asks);
    }

    fn announcement(&mut self, party: Party, value: u8, replace: bool) -> Transaction<Data> {
        let unchecked = self.is(Mutant::AnnouncesWithoutTheCheck);
        let candidate = self.candidate(party);
        let told = (candidate.token(), value);
        let own = candidate.own.filter(|_| !unchecked).map(|own| Named::of(Path::Child(LOCK, own.place)));
        let held = confirmation(own, Some(UNTOUCHED));
        let name =
            |()| Named { name: Name::Ephemeral(Path::Directory(ANNOUNCEMENT)), data: Data::Announced(told) };
        let announcement = candidacy::announcement(replace).into_iter().map(|operation| operation.map(name));
        held.chain(announcement).collect()
    }

    /// A quorum write opens the connection: what was sent before has taken effect, or never will.
    pub(crate) fn connect(&mut self, party: Party) {
        self.world.ensemble.connect(party);
        self.world.ensemble.links[party].strays.clear();
        for request in std::mem::take(&mut self.candidate(party).waiting) {
            self.post(party, request);
        }
    }

    /// The candidate takes in the next answer.
    pub(crate) fn hear(&mut self, party: Party) {
        let Word::Answer(answer) = self.world.ensemble.links[party].down.remove(0) else { return };
        // The one to the read is behind it.
        if answer == Answer::Watched {
            return;
        }
        let request = self.candidate(party).asked.remove(0);
        match (request, answer) {
            (Request::Announce { .. }, answer) => {
                let unchecked = self.is(Mutant::AnnouncesWithoutTheCheck);
                self.keep_up(
                    party,
                    match answer {
                        Answer::Committed(_) => candidacy::CandidacyEvent::Announced,
                        Answer::Refused => candidacy::CandidacyEvent::Refused(()),
                        // The transaction says that the lock is not held.
                        Answer::Failed(0, _) if !unchecked => candidacy::CandidacyEvent::Over,
                        _ => candidacy::CandidacyEvent::Contested,
                    },
                );
            }
            (Request::Look(_), Answer::Got(found)) => {
                let found = found.as_ref().and_then(Announcement::of);
                let genuine = found.and_then(Announcement::read);
                let seen = genuine.zip(found.and_then(|found| found.maker));
                let seen =
                    seen.map(|((_, value), maker)| SeenAnnouncement { session: session(maker), value });
                self.keep_up(party, candidacy::CandidacyEvent::Looked(seen));
            }
            (Request::Look(_), _) => self.keep_up(party, candidacy::CandidacyEvent::Hidden),
            (Request::Leave { along, release }, answer) => self.left(party, along, release, &answer),
            (Request::Recover, answer) => {
                let own = self.candidate(party).own;
                let is_there = |found: &Answer<Data>| matches!(found, Answer::Got(Some(node)) if Some(node.czxid) == own.map(|own| own.czxid));
                self.note(Witness::ReleaseFoundDone, !is_there(&answer));
                self.inform(party, Event::Recovered(own.filter(|_| is_there(&answer))));
            }
            (Request::Read, Answer::Got(found)) => {
                let found = found.as_ref().and_then(Announcement::of);
                self.candidate(party).read = found.map_or(0, |found| found.zxid);
                let seen = found.map(|found| companion::SeenCompanion {
                    session: found.maker.map_or(-1, session),
                    token: Some(found.told.0),
                    version: found.version,
                });
                self.accompany(party, companion::CompanionEvent::Seen(seen));
            }
            (Request::TakeBack { .. }, Answer::Failed(_, Problem::BadVersion)) => {
                self.accompany(party, companion::CompanionEvent::Changed);
            }
            (Request::TakeBack { .. }, _) => self.accompany(party, companion::CompanionEvent::Deleted),
            (Request::Read, answer) => unreachable!("{answer:?} to a read"),
        }
    }

    /// The reply to a release, or to a deletion.
    fn left(&mut self, party: Party, along: bool, release: bool, answer: &Answer<Data>) {
        let removed = matches!(answer, Answer::Committed(_));
        let last = companion::removal(release, along).len() - 1;
        if along && matches!(answer, Answer::Failed(index, _) if *index == last) {
            // Its node goes without it.
            if !self.is(Mutant::StaysWithItsAnnouncement) {
                self.post(party, Request::Leave { along: false, release });
            }
            return;
        }
        if removed && along {
            self.accompany(party, companion::CompanionEvent::WentAlong);
        }
        match release {
            true => self.contend(party, Input::Reply(Report::All(Event::Released(removed)), CONNECTION)),
            false => self.inform(party, Event::Deleted),
        }
    }

    pub(crate) fn break_connection(&mut self, party: Party) {
        self.world.ensemble.cut(party);
        let candidate = self.candidate(party);
        (candidate.dirty, candidate.withheld) = (false, false);
        candidate.asked.clear();
        let (leaves, takes_back) =
            (candidate.stage == Stage::Gone && candidate.contender.is_some(), candidate.takes_back);
        match candidate.keeper {
            Keeper::Announcing | Keeper::Looking => {
                self.keep_up(party, candidacy::CandidacyEvent::Unanswered)
            }
            Keeper::Waiting => self.keep_up(party, candidacy::CandidacyEvent::Doubted),
            Keeper::Off | Keeper::Settling | Keeper::Pausing => {}
        }
        if leaves {
            (self.witness)(Witness::ReleaseUnanswered);
            self.contend(party, Input::Reply(Report::All(Event::Unanswered), CONNECTION));
        }
        if takes_back {
            self.accompany(party, companion::CompanionEvent::Unanswered);
        }
    }
}

impl Candidate {
    fn newest(&self) -> Proclamation<Told> {
        Proclamation { number: self.proclaimed.into(), value: (self.token(), self.proclaimed) }
    }
}

fn session(party: Party) -> i64 {
    party as i64
}
