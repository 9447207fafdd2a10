//! A process that claims the slot: the shipped machines, and how what they ask for is performed.

use std::convert::Infallible;

use zklock_recipe::Own;
use zklock_recipe::claim::{self, Begins, Claim, Page, Progress, Record, RunEnd};
use zklock_recipe::ending::{self, Ending};
use zklock_recipe::transaction::Operation;

use super::setup::{Mutant, Token, Witness};
use super::slot::{Data, LOCK, RECORD, guarded};
use crate::world::ensemble::Ask;
use crate::world::tree::Path;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Machine {
    Claim(Claim<()>),
    Ending(Ending),
}

/// What the machine has asked for last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pending {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// It is about to claim, if it has claims left.
    Idle,
    Queued,
    /// It holds the lock, and its machine works.
    Claiming,
    /// It runs the slot. Its record has this version.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    Open,
    Written,
    /// The caller was told that it is not written.
    Denied,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    pub(crate) fn new(claims: u8) -> Self {
        Self {
            caller: Caller::Idle,
            claims,
            machine: None,
            begins: Begins::default(),
            pending: Pending::Nothing,
            own: None,
            attempt: 0,
            lost: false,
            tokens: Vec::new(),
            fate: Fate::Open,
            unheard: false,
        }
    }

    /// The token of its guard.
    pub(crate) fn token(&self) -> Token {
        self.own.map_or(0, |own| own.czxid)
    }

    /// Gives the machine what was heard, and performs what follows.
    pub(crate) fn hear(&mut self, heard: Heard, desk: &mut Desk<'_, impl Fn(Witness)>) -> Option<Told> {
        // What was asked for is answered, or no longer awaited.
        let asked = match heard {
            Heard::GiveUp => self.pending.clone(),
            _ => std::mem::replace(&mut self.pending, Pending::Nothing),
        };
        let writes = asked == Pending::Write;
        match self.machine {
            Some(Machine::Claim(_)) => self.claim(heard, writes, desk),
            Some(Machine::Ending(_)) => self.end(heard, writes, desk),
            None => None,
        }
    }

    fn claim(&mut self, heard: Heard, writes: bool, desk: &mut Desk<'_, impl Fn(Witness)>) -> Option<Told> {
        use claim::{Command, Event, Outcome};
        let event = match (desk.mutant, heard) {
            (Some(Mutant::StopsAtSilence), Heard::Unanswered) => return None,
            (Some(Mutant::TakesUnknownForBegun), Heard::Unanswered) if writes => Event::Written,
            (Some(Mutant::TakesUnknownForFailed), Heard::Unanswered) if writes => {
                self.machine = None;
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
        let mut commands = self.handle(event);
        // Nobody drops records here.
        if let [Command::Prepare(())] = commands[..] {
            commands = self.handle(Event::Prepared(()));
        }
        let mut told = None;
        for command in commands {
            self.pending = match command {
                Command::Look => self.look(desk),
                Command::Write(attempt, record, ()) => {
                    if record.as_ref().is_some_and(|record| self.tokens.contains(&record.token)) {
                        (desk.witness)(Witness::BeganAgain);
                    }
                    let begin = claim::begin(0, [], record.map(|record| record.version));
                    let (progress, token) = (Progress::Begun, self.token());
                    self.write(begin, Data::Record { progress, token, attempt: attempt as u8 }, desk)
                }
                Command::Verify if desk.mutant == Some(Mutant::LooksTooEarly) => {
                    return told.or(self.hear(Heard::Verified, desk));
                }
                Command::Verify => self.verify(desk),
                Command::Release => Pending::Release,
                Command::Restore(record, before) => {
                    let before = before.filter(|_| desk.mutant != Some(Mutant::ForgetsWhatItReplaced));
                    let data = before.as_deref().map(Data::decode).unwrap_or_default();
                    self.write([of_record(claim::restore(record.version, before.is_some()))], data, desk)
                }
                Command::Tell(outcome) => {
                    told = Some(Told::Claim(outcome));
                    continue;
                }
                Command::Prepare(()) | Command::Create => unreachable!("the records have a directory"),
            };
        }
        told
    }

    fn handle(&mut self, event: claim::Event<(), ()>) -> Vec<claim::Command<(), ()>> {
        let Some(Machine::Claim(claim)) = &mut self.machine else { return Vec::new() };
        let commands = claim.handle(&mut self.begins, event);
        if claim.is_ended() {
            (self.machine, self.pending) = (None, Pending::Nothing);
        }
        commands
    }

    fn end(&mut self, heard: Heard, writes: bool, desk: &mut Desk<'_, impl Fn(Witness)>) -> Option<Told> {
        use ending::{Command, Event, Outcome};
        self.unheard |= writes && matches!(heard, Heard::Unanswered);
        let told = |outcome| Some(Told::End(outcome));
        let event = match (desk.mutant, heard) {
            (Some(Mutant::StopsAtSilenceInTheEnd), Heard::Unanswered) => return None,
            (Some(Mutant::TakesUnknownForEnded), Heard::Unanswered) if writes => Event::Written,
            (Some(Mutant::BlamesOthersAtOnce), Heard::Replied(Reply::Contested | Reply::Busy)) => {
                self.machine = None;
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
                self.machine = None;
                return told(Outcome::Written);
            }
            (Some(Mutant::TakesAnothersRecord), Heard::Looked(Some(record))) => {
                Event::Looked(Some(Record { token: self.token(), ..record }))
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
        let Some(Machine::Ending(ending)) = &mut self.machine else { return None };
        self.pending = match ending.handle(event)? {
            // Nothing is sent under a guard that is lost.
            Command::Write(..) if self.lost => return self.hear(Heard::Lost, desk),
            Command::Write(end, version) => {
                if looked {
                    (desk.witness)(Witness::EndWrittenAgain);
                }
                self.unheard = false;
                let mut write = ending::write(version);
                if desk.mutant == Some(Mutant::OverwritesAnothersRecord) {
                    write = Operation::Set((), None);
                }
                let (progress, token) = (Progress::Ended(end), self.token());
                self.write([of_record(write)], Data::Record { progress, token, attempt: self.attempt }, desk)
            }
            Command::Verify if desk.mutant == Some(Mutant::SettlesTooEarly) => {
                return self.hear(Heard::Verified, desk);
            }
            Command::Verify => self.verify(desk),
            Command::Look => self.look(desk),
            Command::Tell(outcome) => {
                self.machine = None;
                return told(match (desk.mutant, outcome) {
                    (Some(Mutant::DeniesTheUnknown), Outcome::Unconfirmed) if !looked => Outcome::Failed(()),
                    (Some(Mutant::DeniesTheReplaced), Outcome::Unconfirmed) if looked => Outcome::Changed,
                    (_, outcome) => outcome,
                });
            }
        };
        None
    }
}

/// Where requests are put, and what is broken on purpose.
pub(crate) struct Desk<'a, W> {
    pub(crate) mutant: Option<Mutant>,
    pub(crate) witness: &'a W,
    pub(crate) asks: Vec<Ask<Data>>,
}

impl Claimer {
    fn look<W>(&self, desk: &mut Desk<'_, W>) -> Pending {
        desk.asks = vec![Ask::Get(Path::Directory(RECORD), false)];
        Pending::Look
    }

    /// Asks a quorum, and looks at the node in the queue.
    fn verify<W>(&self, desk: &mut Desk<'_, W>) -> Pending {
        let own = self.own.map(|own| Ask::Get(Path::Child(LOCK, own.place), false));
        desk.asks = [Ask::Sync].into_iter().chain(own).collect();
        Pending::Verify
    }

    fn write<W>(
        &self,
        operations: impl IntoIterator<Item = Operation<claim::Target<Infallible>>>,
        data: Data,
        desk: &mut Desk<'_, W>,
    ) -> Pending {
        let mut transaction = self.own.map(|own| guarded(own, operations, data)).unwrap_or_default();
        let begins =
            matches!(data, Data::Record { progress: Progress::Begun, token, .. } if token == self.token());
        if begins && desk.mutant == Some(Mutant::BeginsWithoutTheLock) {
            transaction.remove(0);
        }
        desk.asks = vec![Ask::Commit(transaction)];
        Pending::Write
    }
}

fn of_record(operation: Operation<()>) -> Operation<claim::Target<Infallible>> {
    operation.map(|()| claim::Target::Record)
}

fn page(record: Option<Record>) -> Page<()> {
    Page { record, may_be_forgotten: false, rest: () }
}
