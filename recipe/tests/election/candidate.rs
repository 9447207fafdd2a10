//! A candidate: the production machines of its contender, its announcement and its companion, and what performs their commands.
//! When it is granted is abstracted: it is, once its node is the first and its lease is valid.

use zklock_recipe::acquisition::{Acquisition, Command, Input, Joint, Single};
use zklock_recipe::candidacy::{self, Candidacy, Proclamation, Seen};
use zklock_recipe::companion::{self, Companion};
use zklock_recipe::{Arrival, End, Event, Input as Heard, Look, Own, Patience, Place, Sight, Takeover};

use crate::present::present;
use crate::run::Run;
use crate::server::{Announced, Left, Reply, Request};
use crate::world::{Announcement, Breach, Mutant, Party, Told, Witness};

/// The number of every connection.
const CONNECTION: u64 = 0;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Candidate {
    pub(crate) stage: Stage,
    /// The token of its node, once it has queued.
    pub(crate) token: i64,
    pub(crate) lapsed: bool,
    pub(crate) expired: bool,
    pub(crate) disconnected: bool,
    /// Its last proclamation: the number, which is the value, too.
    pub(crate) proclaimed: u8,
    pub(crate) contender: Option<Acquisition>,
    pub(crate) companion: Option<Companion>,
    pub(crate) candidacy: Option<Candidacy<Told>>,
    /// What its candidacy waits for.
    pub(crate) keeper: Keeper,
    /// It takes its announcement back.
    pub(crate) takes_back: bool,
    /// The transaction that made the announcement which it has just read.
    read: i64,
    /// Its watch on the announcement stands.
    pub(crate) watches: bool,
    /// That watch has fired, and the candidate has not heard of it yet.
    pub(crate) dirty: bool,
    /// The announcement may have changed, and the server withholds that.
    pub(crate) withheld: bool,
    /// Requests under way, in order. Without a connection they wait for one.
    pub(crate) up: Vec<Request>,
    /// Answers under way, in order.
    pub(crate) down: Vec<Reply>,
    /// Writes of a broken connection, which may still take effect.
    pub(crate) strays: Vec<Request>,
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

    /// Whether its watch may not tell it of a change.
    pub(crate) fn is_stale(&self) -> bool {
        self.keeper == Keeper::Waiting && (self.withheld || !self.watches)
    }
}

impl<W: Fn(Witness)> Run<'_, W> {
    fn candidate(&mut self, party: Party) -> &mut Candidate {
        &mut self.world.candidates[party]
    }

    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.setup.mutant == Some(mutant)
    }

    pub(crate) fn enqueue(&mut self, party: Party) {
        self.world.zxid += 1;
        let token = self.world.zxid;
        self.world.queue.push((party, token));
        let takes_anothers = self.is(Mutant::TakesAnothersAnnouncement);
        let candidate = self.candidate(party);
        (candidate.stage, candidate.token) = (Stage::Queued, token);
        candidate.companion = takes_anothers.then(|| Companion::new(session(party), token));
        let takeovers = [Takeover::AtOnce];
        candidate.contender = Some(Acquisition::new(Patience::Wait, Arrival::New, takeovers));
        self.contend(party, Input::Begin(Look::List));
        // It asks who is before it, and is answered once that is nobody.
        let own = Own { place: Place::exclusive(token as i32), czxid: token };
        self.contend(party, Input::Reply(Heard::Entered(vec![(own, Sight::Nothing)]), CONNECTION));
    }

    pub(crate) fn grant(&mut self, party: Party) {
        let own = Place::exclusive(self.candidate(party).token as i32);
        self.inform(party, Event::Listed(vec![own.name()]));
    }

    /// An operator has deleted the node of a candidate that waits.
    pub(crate) fn displace(&mut self, party: Party) {
        self.candidate(party).stage = Stage::Gone;
        self.inform(party, Event::Listed(vec![]));
    }

    /// Tells the contender of a reply.
    fn inform(&mut self, party: Party, event: Event) {
        self.contend(party, Input::Reply(Heard::One(0, event), CONNECTION));
    }

    /// Tells the contender something, and performs what follows. Its own node is another model's subject, so it is always sure
    /// of that here.
    fn contend(&mut self, party: Party, input: Input) {
        let Some(acquisition) = &mut self.candidate(party).contender else { return };
        for command in acquisition.handle(input, present(Some(CONNECTION), true)) {
            match command {
                Command::Grant(owns, _) => self.lead(party, owns[0].czxid),
                Command::All(Joint::Release(..), _) => self.remove(party, true),
                Command::One(_, Single::Delete(..), _) => self.remove(party, false),
                Command::One(_, Single::Recover(_), _) => self.candidate(party).up.push(Request::Recover),
                Command::End(_, end) => {
                    self.candidate(party).contender = None;
                    let trusts = self.is(Mutant::TakesAMissingNodeForAResignation) && end == End::Released;
                    if !trusts {
                        self.accompany(party, companion::Event::Left);
                    }
                }
                Command::All(Joint::Enter(_), _) | Command::One(_, Single::List, _) => {}
                command => unreachable!("{command:?}"),
            }
        }
    }

    fn lead(&mut self, party: Party, token: i64) {
        let makes_none = self.is(Mutant::LeavesItsAnnouncement);
        let candidate = self.candidate(party);
        (candidate.stage, candidate.proclaimed) = (Stage::Holding, 1);
        candidate.companion = (!makes_none).then(|| Companion::new(session(party), token));
        candidate.candidacy = Some(Candidacy::new(session(party), (token, 1)));
        self.keep_up(party, candidacy::Event::Begin);
    }

    /// Removes its node, and the announcement with it.
    fn remove(&mut self, party: Party, release: bool) {
        let candidate = self.candidate(party);
        let carry = candidate.companion.is_some_and(|companion| companion.goes_along());
        candidate.up.push(Request::Leave { carry, release });
    }

    pub(crate) fn proclaim(&mut self, party: Party) {
        self.world.faults.proclamations -= 1;
        (self.witness)(Witness::Proclaimed);
        let candidate = self.candidate(party);
        candidate.proclaimed += 1;
        // Otherwise the performer takes it in with the next reply.
        if matches!(candidate.keeper, Keeper::Settling | Keeper::Waiting) {
            let newest = candidacy::Event::Proclaimed(candidate.newest());
            self.announce(party, newest);
        }
    }

    /// Begins to leave: it resigns, or drops its lost guard, or waits no longer.
    pub(crate) fn leave(&mut self, party: Party) {
        let candidate = self.candidate(party);
        let input = match candidate.stage {
            Stage::Queued => Input::GiveUp,
            Stage::Holding if !candidate.lapsed => Input::Release,
            _ => Input::Forfeit,
        };
        candidate.stage = Stage::Gone;
        self.lose(party);
        self.contend(party, input);
    }

    /// The holder hears that its node is gone, or that somebody has written to it.
    pub(crate) fn told(&mut self, party: Party) {
        self.candidate(party).stage = Stage::Lost;
        self.lose(party);
        self.accompany(party, companion::Event::Left);
    }

    /// The hold is lost, and the upkeep ends. It has handed what it asked for to the connection, or sends it no more.
    pub(crate) fn lose(&mut self, party: Party) {
        let candidate = self.candidate(party);
        if candidate.disconnected {
            candidate.up.retain(|request| !matches!(request, Request::Announce { .. } | Request::Look(_)));
        }
        self.keep_up(party, candidacy::Event::Over);
    }

    /// Gives the candidacy what was proclaimed meanwhile, and then an event, as its performer does.
    pub(crate) fn keep_up(&mut self, party: Party, event: candidacy::Event<Told, ()>) {
        use candidacy::Event as E;
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
        if !self.is(Mutant::ForgetsAProclamation) {
            let newest = E::Proclaimed(self.candidate(party).newest());
            self.announce(party, newest);
        }
        self.announce(party, event);
    }

    /// Gives the candidacy one event, and performs what follows.
    fn announce(&mut self, party: Party, event: candidacy::Event<Told, ()>) {
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

    fn perform(&mut self, party: Party, command: candidacy::Command<Told, ()>) {
        let gives_up = self.is(Mutant::GivesUpAfterTheFirstDisturbance) && self.world.faults.deletions == 0;
        let tells_the_newest = self.is(Mutant::TakesTheReplyToAnOlderProclamation);
        let candidate = &mut self.world.candidates[party];
        candidate.keeper = match command {
            candidacy::Command::Announce { value: (_, value), replace } => {
                candidate.up.push(Request::Announce { value, replace });
                Keeper::Announcing
            }
            candidacy::Command::Look(footing) => {
                candidate.up.push(Request::Look(footing));
                Keeper::Looking
            }
            candidacy::Command::Settle => Keeper::Settling,
            candidacy::Command::Wait => Keeper::Waiting,
            candidacy::Command::Pause if gives_up => return self.announce(party, candidacy::Event::Over),
            candidacy::Command::Pause => Keeper::Pausing,
            candidacy::Command::Tell(number, outcome) => {
                let value = if tells_the_newest { candidate.proclaimed } else { number as u8 };
                let told = (candidate.token, value);
                if outcome.is_ok() && !self.world.announced.contains(&told) {
                    self.world.breach(Breach::ToldTooEarly);
                }
                return;
            }
        };
    }

    /// Gives the companion an event, and performs what follows.
    fn accompany(&mut self, party: Party, event: companion::Event) {
        use companion::Event as E;
        let forgets = self.is(Mutant::ForgetsItsAnnouncement);
        let (mutant, candidate) = (self.setup.mutant, self.candidate(party));
        let event = match (mutant, event) {
            (_, E::Left) if forgets => return,
            (Some(Mutant::TakesBackWhatIsNotIts), E::Seen(Some(seen))) => {
                let (session, token) = (session(party), Some(candidate.token));
                E::Seen(Some(companion::Seen { session, token, ..seen }))
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
        candidate.up.extend(command.map(|command| match command {
            companion::Command::Read => Request::Read,
            companion::Command::Delete(version) => Request::Delete { version: version as u8, read },
        }));
    }

    /// The candidate takes in an answer.
    pub(crate) fn hear(&mut self, party: Party, reply: Reply) {
        let stays = self.is(Mutant::StaysWithItsAnnouncement);
        match reply {
            Reply::Announced(Announced::Done) => self.keep_up(party, candidacy::Event::Announced),
            Reply::Announced(Announced::Refused) => self.keep_up(party, candidacy::Event::Refused(())),
            // The transaction says that the lock is not held.
            Reply::Announced(Announced::NotHeld) => self.keep_up(party, candidacy::Event::Over),
            Reply::Announced(Announced::Contested) => self.keep_up(party, candidacy::Event::Contested),
            Reply::Looked(found) => {
                let genuine = found.and_then(Announcement::read);
                let seen = genuine.zip(found.and_then(|found| found.maker));
                let seen = seen.map(|((_, value), maker)| Seen { session: session(maker), value });
                self.keep_up(party, candidacy::Event::Looked(seen));
            }
            Reply::Hidden => self.keep_up(party, candidacy::Event::Hidden),
            // Its node goes without it.
            Reply::Left(release, Left::InTheWay) if !stays => {
                self.candidate(party).up.push(Request::Leave { carry: false, release });
            }
            Reply::Left(_, Left::InTheWay) => {}
            Reply::Left(release, left) => {
                if left == Left::Together {
                    self.accompany(party, companion::Event::WentAlong);
                }
                let removed = left != Left::Missing;
                match release {
                    true => {
                        self.contend(party, Input::Reply(Heard::All(Event::Released(removed)), CONNECTION))
                    }
                    false => self.inform(party, Event::Deleted),
                }
            }
            Reply::Recovered(found) => {
                let token = self.candidate(party).token;
                let own = Own { place: Place::exclusive(token as i32), czxid: token };
                self.inform(party, Event::Recovered(found.then_some(own)));
            }
            Reply::Read(found) => {
                self.candidate(party).read = found.map_or(0, |found| found.zxid);
                let seen = found.map(|found| companion::Seen {
                    session: found.maker.map_or(-1, session),
                    token: Some(found.token),
                    version: found.version.into(),
                });
                self.accompany(party, companion::Event::Seen(seen));
            }
            Reply::Deleted => self.accompany(party, companion::Event::Deleted),
            Reply::Written => self.accompany(party, companion::Event::Changed),
        }
    }

    pub(crate) fn break_connection(&mut self, party: Party) {
        self.world.faults.breaks -= 1;
        let candidate = self.candidate(party);
        candidate.disconnected = true;
        (candidate.watches, candidate.dirty, candidate.withheld) = (false, false, false);
        candidate.strays = std::mem::take(&mut candidate.up);
        candidate.strays.retain(|request| request.is_write());
        candidate.down.clear();
        let (leaves, takes_back) =
            (candidate.stage == Stage::Gone && candidate.contender.is_some(), candidate.takes_back);
        match candidate.keeper {
            Keeper::Announcing | Keeper::Looking => self.keep_up(party, candidacy::Event::Unanswered),
            Keeper::Waiting => self.keep_up(party, candidacy::Event::Doubted),
            Keeper::Off | Keeper::Settling | Keeper::Pausing => {}
        }
        if leaves {
            (self.witness)(Witness::ReleaseUnanswered);
            self.contend(party, Input::Reply(Heard::All(Event::Unanswered), CONNECTION));
        }
        if takes_back {
            self.accompany(party, companion::Event::Unanswered);
        }
    }
}

impl Candidate {
    fn newest(&self) -> Proclamation<Told> {
        Proclamation { number: self.proclaimed.into(), value: (self.token, self.proclaimed) }
    }
}

fn session(party: Party) -> i64 {
    party as i64
}
