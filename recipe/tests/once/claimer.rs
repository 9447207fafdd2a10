//! A process that claims the run: the shipped machines, and how what they ask for is performed.

use std::convert::Infallible;

use zklock_recipe::Own;
use zklock_recipe::claim::{self, Begins, Claim, Page, Progress, Record, RunEnd};
use zklock_recipe::ending::{self, Ending};
use zklock_recipe::transaction::Operation;

use super::record::{Data, LOCK, RECORD, guarded};
use super::run::Run;
use super::setup::{Mutant, Party, Token, Witness};
use crate::world::ensemble::Ask;
use crate::world::tree::Path;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Machine {
    Claim(Claim<()>),
    Ending(Ending),
}

/// What the machine has asked for last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Pending {
    #[default]
    Nothing,
    Look,
    Verify,
    Write,
    Release,
}

/// What came of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Written,
    Contested,
    Lost,
    /// The server had too much to do.
    Busy,
}

/// What came of that.
#[derive(Clone, Debug)]
pub(crate) enum Heard {
    Begin,
    Looked(Option<Record>),
    Verified,
    Replied(Reply),
    Released,
    Unanswered,
    /// The guard is lost.
    Lost,
    /// The caller has gone.
    GiveUp,
}

/// What the caller is told.
#[derive(Debug)]
pub(crate) enum Told {
    Claim(claim::Outcome<(), ()>),
    End(ending::Outcome<()>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// It is about to claim, if it has claims left.
    #[default]
    Idle,
    Queued,
    /// It holds the lock, and its machine works.
    Claiming,
    /// It does the run. Its record has this version.
    Running {
        version: i32,
        valid: bool,
    },
    /// The run is over, and its end is being written. The background sees to that, so nobody can go.
    Ending,
    /// It has gone. Its machine goes on in the background.
    Gone,
    /// Its process is dead. Its session may not be over yet.
    Dead,
}

/// What has become of the end of the last run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    #[default]
    Open,
    Written,
    /// The caller was told that it is not written.
    Denied,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Claimer {
    pub(crate) caller: Caller,
    pub(crate) claims: u8,
    pub(crate) machine: Option<Machine>,
    pub(crate) begins: Begins,
    pub(crate) pending: Pending,
    /// Its node in the lock's queue.
    pub(crate) own: Option<Own>,
    /// The guard is lost, and its node is there for a while.
    pub(crate) lost: bool,
    /// The attempt that runs.
    pub(crate) attempt: u8,
    /// The tokens that this claim has had.
    pub(crate) tokens: Vec<Token>,
    pub(crate) fate: Fate,
    /// The last write of an end was not answered.
    pub(crate) unheard: bool,
}

impl Claimer {
    /// The token of its guard.
    pub(crate) fn token(&self) -> Token {
        self.own.map_or(0, |own| own.czxid)
    }
}

impl Run<'_> {
    /// Gives the machine what was heard, and performs what follows.
    pub(crate) fn hear(&mut self, party: Party, heard: Heard) -> Option<Told> {
        let claimer = self.claimer(party);
        // What was asked for is answered, or no longer awaited.
        let asked = match heard {
            Heard::GiveUp => claimer.pending.clone(),
            _ => std::mem::replace(&mut claimer.pending, Pending::Nothing),
        };
        let writes = asked == Pending::Write;
        match claimer.machine {
            Some(Machine::Claim(_)) => self.claim(party, heard, writes),
            Some(Machine::Ending(_)) => self.end(party, heard, writes),
            None => None,
        }
    }

    fn claim(&mut self, party: Party, heard: Heard, writes: bool) -> Option<Told> {
        use claim::{Command, Event, Outcome};
        let event = match (self.setup.mutant, heard) {
            (Some(Mutant::StopsAtSilence), Heard::Unanswered) => return None,
            (Some(Mutant::TakesUnknownForBegun), Heard::Unanswered) if writes => Event::Written,
            (Some(Mutant::TakesUnknownForFailed), Heard::Unanswered) if writes => {
                self.claimer(party).machine = None;
                return Some(Told::Claim(Outcome::Failed(())));
            }
            (Some(Mutant::RetriesASuccess), Heard::Looked(Some(mut record))) => {
                record.progress = Progress::Ended(RunEnd::Failed);
                Event::Looked(Some(page(Some(record))))
            }
            (_, Heard::Begin) => Event::Begin,
            (_, Heard::Looked(record)) => Event::Looked(Some(page(record))),
            (_, Heard::Verified) => Event::Verified,
            (_, Heard::Replied(Reply::Written)) => Event::Written,
            (_, Heard::Replied(Reply::Contested)) => Event::Contested,
            (_, Heard::Replied(Reply::Lost) | Heard::Lost) => Event::Lost,
            (_, Heard::Replied(Reply::Busy) | Heard::Unanswered) => Event::Unanswered,
            (_, Heard::Released) => Event::Released,
            (_, Heard::GiveUp) => Event::GiveUp,
        };
        let mut commands = self.handle(party, event);
        // Nobody drops records here.
        if let [Command::Prepare(())] = commands[..] {
            commands = self.handle(party, Event::Prepared(()));
        }
        let mut told = None;
        for command in commands {
            let pending = match command {
                Command::Look => self.look(party),
                Command::Write(attempt, record, ()) => {
                    let claimer = self.claimer(party);
                    let (progress, token) = (Progress::Begun, claimer.token());
                    if record.as_ref().is_some_and(|record| claimer.tokens.contains(&record.token)) {
                        (self.witness)(Witness::BeganAgain);
                    }
                    let begin = claim::begin(0, [], record.map(|record| record.version));
                    self.write(party, begin, Data::Record { progress, token, attempt: attempt as u8 })
                }
                Command::Verify if self.is(Mutant::LooksTooEarly) => {
                    return told.or(self.hear(party, Heard::Verified));
                }
                Command::Verify => self.verify(party),
                Command::Release => Pending::Release,
                Command::Restore(record, before) => {
                    let before = before.filter(|_| !self.is(Mutant::ForgetsWhatItReplaced));
                    let data = before.as_deref().map(Data::decode).unwrap_or_default();
                    self.write(party, [of_record(claim::restore(record.version, before.is_some()))], data)
                }
                Command::Tell(outcome) => {
                    told = Some(Told::Claim(outcome));
                    continue;
                }
                Command::Prepare(()) | Command::Create => unreachable!("the records have a directory"),
            };
            self.claimer(party).pending = pending;
        }
        told
    }

    fn handle(&mut self, party: Party, event: claim::Event<(), ()>) -> Vec<claim::Command<(), ()>> {
        let claimer = self.claimer(party);
        let Some(Machine::Claim(claim)) = &mut claimer.machine else { return Vec::new() };
        let commands = claim.handle(&mut claimer.begins, event);
        if claim.is_ended() {
            (claimer.machine, claimer.pending) = (None, Pending::Nothing);
        }
        commands
    }

    fn end(&mut self, party: Party, heard: Heard, writes: bool) -> Option<Told> {
        use ending::{Command, Event, Outcome};
        let (mutant, claimer) = (self.setup.mutant, &mut self.world.claimers[party]);
        claimer.unheard |= writes && matches!(heard, Heard::Unanswered);
        let told = |outcome| Some(Told::End(outcome));
        let event = match (mutant, heard) {
            (Some(Mutant::StopsAtSilenceInTheEnd), Heard::Unanswered) => return None,
            (Some(Mutant::TakesUnknownForEnded), Heard::Unanswered) if writes => Event::Written,
            (Some(Mutant::BlamesOthersAtOnce), Heard::Replied(Reply::Contested | Reply::Busy)) => {
                claimer.machine = None;
                return told(Outcome::Changed);
            }
            (Some(Mutant::TakesRefusedForUnknown), Heard::Replied(Reply::Busy)) => Event::Unanswered,
            (Some(Mutant::GivesUpTheUnwritten), Heard::Looked(Some(record)))
                if record.progress == Progress::Begun =>
            {
                Event::Looked(None)
            }
            (Some(Mutant::TakesBegunForEnded), Heard::Looked(Some(record)))
                if record.progress == Progress::Begun =>
            {
                claimer.machine = None;
                return told(Outcome::Written);
            }
            (Some(Mutant::TakesAnothersRecord), Heard::Looked(Some(record))) => {
                Event::Looked(Some(Record { token: claimer.token(), ..record }))
            }
            // A run begins with a new node.
            (Some(Mutant::TakesTouchedForBegun), Heard::Looked(Some(record))) => {
                Event::Looked(Some(Record { version: 0, ..record }))
            }
            (_, Heard::Begin) => Event::Begin,
            (_, Heard::Looked(record)) => Event::Looked(record),
            (_, Heard::Verified) => Event::Verified,
            (_, Heard::Replied(Reply::Written)) => Event::Written,
            (_, Heard::Replied(Reply::Contested | Reply::Busy)) => Event::Rejected,
            (_, Heard::Replied(Reply::Lost) | Heard::Lost) => Event::Failed(()),
            (_, Heard::Unanswered) => Event::Unanswered,
            (_, Heard::Released | Heard::GiveUp) => return None,
        };
        let looked = matches!(event, Event::Looked(_));
        let Some(Machine::Ending(ending)) = &mut claimer.machine else { return None };
        let pending = match ending.handle(event)? {
            // Nothing is sent under a guard that is lost.
            Command::Write(..) if claimer.lost => return self.hear(party, Heard::Lost),
            Command::Write(end, version) => {
                if looked {
                    (self.witness)(Witness::EndWrittenAgain);
                }
                claimer.unheard = false;
                let mut write = ending::write(version);
                if mutant == Some(Mutant::OverwritesAnothersRecord) {
                    write = Operation::Set((), None);
                }
                let (progress, token) = (Progress::Ended(end), claimer.token());
                let data = Data::Record { progress, token, attempt: claimer.attempt };
                self.write(party, [of_record(write)], data)
            }
            Command::Verify if mutant == Some(Mutant::SettlesTooEarly) => {
                return self.hear(party, Heard::Verified);
            }
            Command::Verify => self.verify(party),
            Command::Look => self.look(party),
            Command::Tell(outcome) => {
                claimer.machine = None;
                return told(match (mutant, outcome) {
                    (Some(Mutant::DeniesTheUnknown), Outcome::Unconfirmed) if !looked => Outcome::Failed(()),
                    (Some(Mutant::DeniesTheReplaced), Outcome::Unconfirmed) if looked => Outcome::Changed,
                    (_, outcome) => outcome,
                });
            }
        };
        self.claimer(party).pending = pending;
        None
    }

    fn look(&mut self, party: Party) -> Pending {
        self.world.ensemble.send(party, [Ask::Get(Path::Directory(RECORD), false)]);
        Pending::Look
    }

    /// Asks a quorum, and looks at the node in the queue.
    fn verify(&mut self, party: Party) -> Pending {
        let own = self.claimer(party).own.map(|own| Ask::Get(Path::Child(LOCK, own.place), false));
        self.world.ensemble.send(party, [Ask::Sync].into_iter().chain(own));
        Pending::Verify
    }

    fn write(
        &mut self,
        party: Party,
        operations: impl IntoIterator<Item = Operation<claim::Target<Infallible>>>,
        data: Data,
    ) -> Pending {
        let claimer = &self.world.claimers[party];
        let mut transaction = claimer.own.map(|own| guarded(own, operations, data)).unwrap_or_default();
        let begins =
            matches!(data, Data::Record { progress: Progress::Begun, token, .. } if token == claimer.token());
        if begins && self.is(Mutant::BeginsWithoutTheLock) {
            transaction.remove(0);
        }
        self.world.ensemble.send(party, [Ask::Commit(transaction)]);
        Pending::Write
    }
}

fn of_record(operation: Operation<()>) -> Operation<claim::Target<Infallible>> {
    operation.map(|()| claim::Target::Record)
}

fn page(record: Option<Record>) -> Page<()> {
    Page { record, may_be_forgotten: false, rest: () }
}
