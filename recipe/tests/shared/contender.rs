//! A contender of zklock's: the shipped machine with [`Takeover::Mixed`], and what performs its commands as zklock does.

use std::hash::{Hash, Hasher};

use zklock_recipe::acquisition::{Acquisition, Certainty, Command, Input, Joint, Single};
use zklock_recipe::companion::removal;
use zklock_recipe::nodes::{Entered, release_shared};
use zklock_recipe::transaction::{Operation, UNTOUCHED};
use zklock_recipe::{
    Arrival, Directory, End, Event, Input as Heard, Kind, Look, Own, Patience, Place, SessionEnd, Sight,
    Takeover,
};

use super::contest::{MADE, TOUCHED};
use super::queue::QUEUE;
use super::run::Run;
use super::setup::{Fault, Mutant, Party, Setup, Witness};
use crate::world::ensemble;
use crate::world::present::present;
use crate::world::tree::{Name, Named, Path, Transaction};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    acquisition: Acquisition,
    pub(crate) caller: Caller,
    pub(crate) pending: Pending,
    /// How its predecessor's node went, while it has not heard of that.
    pub(crate) shown: Option<Event>,
    /// Whether it has a guard that is valid.
    pub(crate) is_valid: bool,
    connection: u64,
}

/// A transaction on our own node and on the directory.
type Removal = Vec<Operation<Entered<()>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    Idle,
    /// It waits for the lock.
    Waiting,
    Holding,
    /// It waits for nothing any more. Its contender may still have to leave.
    Gone,
}

/// The request that is under way, or what the contender waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    Nothing,
    /// The first of the three requests of a contender that enters: it looks at the directory.
    Before,
    /// The second one. The first one has shown this.
    Create(Option<Directory>),
    /// The third one lists. Whether the queue was free, by the other two.
    Behind(Own, bool),
    CreateDirectory,
    Confirm(Own),
    Find,
    Recover(Own),
    List,
    Watch(Place, Own),
    /// For its predecessor's end.
    Watching(Trust),
    /// For its delay, and so for these contenders of the other client's to learn that they do not hold the lock.
    Delay(Vec<usize>),
    Release(Own, bool),
    Delete(Own, bool),
}

/// Which end of its predecessor's node a contender takes for a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Trust {
    /// None: the node is not ours.
    Nothing,
    /// A write and a deletion in one transaction.
    Release,
    /// Any, because it is broken.
    AnyEnd,
}

/// As for the world. The world adds what the first request has shown.
impl Hash for Contender {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { acquisition, caller, pending, shown, is_valid, connection } = self;
        (acquisition, caller, shown, is_valid, acquisition.seen() == Some(*connection)).hash(state);
        std::mem::discriminant(pending).hash(state);
        match pending {
            Pending::Behind(own, flag) | Pending::Release(own, flag) | Pending::Delete(own, flag) => {
                (own, flag).hash(state)
            }
            Pending::Confirm(own) | Pending::Recover(own) => own.hash(state),
            Pending::Watch(place, own) => (place, own).hash(state),
            Pending::Watching(trust) => trust.hash(state),
            Pending::Delay(awaited) => awaited.hash(state),
            _ => {}
        }
    }
}

impl Contender {
    pub(crate) fn new(setup: &Setup, patience: Patience) -> Self {
        let takeover = match setup.mutant {
            Some(Mutant::DelaysAsInItsOwnQueue) => Takeover::Delayed,
            Some(Mutant::TakesOverAtOnce) => Takeover::AtOnce,
            _ => Takeover::Mixed,
        };
        Self {
            acquisition: Acquisition::new(patience, Arrival::New, [takeover]),
            caller: Caller::Idle,
            pending: Pending::Nothing,
            shown: None,
            is_valid: false,
            connection: 0,
        }
    }

    pub(crate) fn own(&self) -> Option<Own> {
        self.acquisition.own(0)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.acquisition.is_ended()
    }

    /// Whether a server has a request of it to carry out.
    pub(crate) fn asks(&self) -> bool {
        !matches!(self.pending, Pending::Nothing | Pending::Watching(_) | Pending::Delay(_))
    }

    /// Its predecessor's node is gone. One transaction wrote to it and deleted it, or not.
    pub(crate) fn see(&mut self, together: bool) {
        let is_release = match &self.pending {
            Pending::Watching(Trust::AnyEnd) => true,
            Pending::Watching(Trust::Release) => together,
            _ => false,
        };
        self.shown = Some(if is_release { Event::PredecessorReleased } else { Event::PredecessorDeleted });
    }
}

impl Run<'_> {
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.setup.mutant == Some(mutant)
    }

    fn contender(&mut self, party: Party) -> &mut Contender {
        &mut self.world.contenders[party]
    }

    /// Tells the machine something, and performs what follows.
    pub(crate) fn feed(&mut self, party: Party, input: Input) {
        let contender = self.contender(party);
        let (connection, event) = (contender.connection, input.clone());
        // After a delay it has not seen its node for long.
        let lists = contender.acquisition.seen() == Some(connection)
            && matches!(event, Input::Reply(Heard::One(_, Event::ListedAfterRelease(_)), _));
        for command in contender.acquisition.handle(input, present(Some(connection), true)) {
            self.note(
                Witness::ListerAtOnce,
                lists && matches!(command, Command::All(Joint::ConfirmNodes(_), _)),
            );
            self.perform(party, command, &event);
        }
    }

    fn perform(&mut self, party: Party, command: Command, after: &Input) {
        let pending = match command {
            Command::All(Joint::Enter(_), _) => Pending::Before,
            Command::All(Joint::CreateDirectories, _) => Pending::CreateDirectory,
            Command::All(Joint::ConfirmNodes(nodes), _) => {
                self.note(
                    Witness::WaiterAtOnce,
                    matches!(after, Input::Watch(_, Event::PredecessorReleased)),
                );
                Pending::Confirm(nodes[0])
            }
            Command::All(Joint::Release(nodes, certainty), _) => {
                Pending::Release(nodes[0], is_sure(certainty))
            }
            Command::One(_, Single::Release(own, certainty), _) => Pending::Release(own, is_sure(certainty)),
            Command::One(_, Single::Delete(own, certainty), _) => Pending::Delete(own, is_sure(certainty)),
            Command::One(_, Single::Find(_), _) => Pending::Find,
            Command::One(_, Single::Recover(own), _) => Pending::Recover(own),
            Command::One(_, Single::List, _) => Pending::List,
            Command::One(_, Single::WatchPredecessor(place, own), _) => Pending::Watch(place, own),
            Command::One(_, Single::Delay, _) => match self.is(Mutant::DelaysTooShort) {
                true => Pending::Delay(Vec::new()),
                false => Pending::Delay(self.world.believers()),
            },
            Command::Grant(..) => {
                self.granted(party, after);
                Pending::Nothing
            }
            Command::End(_, end) => {
                self.note(Witness::FoundBusy, end == End::Busy);
                self.note(Witness::Displaced, end == End::Displaced);
                self.forbid(MADE, end == End::NodeDeleted && !self.setup.faults.contains(&Fault::Eviction));
                self.note(Witness::Evicted, end == End::NodeDeleted);
                self.contender(party).caller = Caller::Gone;
                Pending::Nothing
            }
            // A create that is not found never takes effect here.
            Command::ExpectLate(_) => return,
            Command::All(Joint::ConfirmLease, _)
            | Command::One(_, Single::WatchOwn(_), _)
            | Command::EndSession(..)
            | Command::Lose => {
                unreachable!("{command:?}: leases are ample, nobody settles, and servers refuse nothing")
            }
        };
        self.world.unwatch(party);
        let contender = self.contender(party);
        (contender.pending, contender.shown) = (pending, None);
    }

    fn granted(&mut self, party: Party, after: &Input) {
        let is_free = matches!(after, Input::Reply(Heard::Entered(nodes), _) if nodes[0].1 == Sight::Free);
        self.note(Witness::NewcomerAtOnce, is_free);
        self.note(Witness::OursAfterTheirs, self.world.last == Some(false));
        self.world.last = Some(true);
        let written = self.world.contenders[party].own().is_some_and(|own| self.is_written(own));
        self.forbid(TOUCHED, written);
        let contender = self.contender(party);
        (contender.caller, contender.is_valid) = (Caller::Holding, true);
    }

    /// A server carries the next request of a contender out. Returns what the contender hears.
    pub(crate) fn serve(&mut self, party: Party) -> Option<Input> {
        let contender = self.contender(party);
        let connection = contender.connection;
        let pending = std::mem::replace(&mut contender.pending, Pending::Nothing);
        let reply = |reply| Some(Input::Reply(reply, connection));
        let one = |event| reply(Heard::One(0, event));
        match pending {
            Pending::Before => {
                self.contender(party).pending = Pending::Create(self.world.directory());
                None
            }
            Pending::Create(before) => match self.create(party, before) {
                true => None,
                false => reply(Heard::All(Event::NoDirectory)),
            },
            Pending::Behind(own, was_free) => {
                let listed = self.listed();
                let is_free = was_free && listed.len() == 1;
                reply(Heard::Entered(vec![(
                    own,
                    if is_free { Sight::Free } else { Sight::Children(listed) },
                )]))
            }
            Pending::CreateDirectory => {
                self.make_directory(party);
                reply(Heard::All(Event::DirectoryReady))
            }
            Pending::Confirm(own) if self.is(Mutant::TrustsItsNode) || self.world.tree().has(QUEUE, own) => {
                match self.is_written(own) && !self.is(Mutant::KeepsAWrittenNode) {
                    true => reply(Heard::Failed(0, Event::OwnWritten)),
                    false => Some(Input::NodesConfirmed(connection)),
                }
            }
            Pending::Confirm(_) => reply(Heard::Failed(0, Event::OwnTouched)),
            Pending::Find => {
                let found = self.world.nodes(party).next();
                (self.witness)(if found.is_some() { Witness::NodeFound } else { Witness::NodeNotFound });
                one(Event::Recovered(found))
            }
            Pending::Recover(own) => {
                let found = self.world.tree().has(QUEUE, own);
                self.note(Witness::RemovalFoundDone, !found);
                one(Event::Recovered(found.then_some(own)))
            }
            Pending::List => one(self.list(party)),
            Pending::Watch(place, own) => one(self.watch(party, place, own)),
            Pending::Release(own, is_sure) => {
                let release = self.releasing();
                reply(Heard::All(Event::Released(self.remove(party, own, is_sure, release))))
            }
            Pending::Delete(own, is_sure) => {
                let removal = match self.is(Mutant::GivesUpByATracedRelease) {
                    true => self.releasing(),
                    false => {
                        removal(false, false).into_iter().map(|it| it.map(|_| Entered::Own(()))).collect()
                    }
                };
                if !self.is(Mutant::LeavesItsNode) {
                    self.remove(party, own, is_sure, removal);
                }
                one(Event::Deleted)
            }
            Pending::Nothing | Pending::Watching(_) | Pending::Delay(_) => {
                unreachable!("no server has to do with it")
            }
        }
    }

    /// Creates its node. Returns whether there is a directory.
    fn create(&mut self, party: Party, before: Option<Directory>) -> bool {
        let create = Named { name: Name::Next(QUEUE, Kind::Exclusive), data: () };
        let Some(created) = self.world.commit(party, &[Operation::Create(create)]) else { return false };
        let own = created[0];
        let number = own.place.sequence;
        let looks = before.zip(self.world.directory());
        let was_free = looks.is_some_and(|(mut before, after)| {
            let is_the_same = before.czxid == after.czxid || self.is(Mutant::TrustsAnotherDirectory);
            match self.setup.mutant {
                Some(Mutant::ForgetsTheNumber) => before.cversion = 2 * number.0,
                Some(Mutant::TrustsANewDirectory) if before.pzxid == before.czxid => before.czxid -= 1,
                Some(Mutant::TrustsWithoutATrace) => before.mzxid = before.pzxid,
                _ => {}
            }
            before.was_free(number, if is_the_same { before } else { after })
        });
        self.contender(party).pending = Pending::Behind(own, was_free);
        true
    }

    /// The children's names, as they would be in a queue of zklock's own.
    fn listed(&self) -> Vec<String> {
        self.world.places().into_iter().map(Place::name).collect()
    }

    /// Whether somebody has written to this node of ours.
    fn is_written(&self, own: Own) -> bool {
        let node = self.world.tree().get(Path::Child(QUEUE, own.place));
        node.is_some_and(|node| node.czxid == own.czxid && node.version != UNTOUCHED)
    }

    fn list(&mut self, party: Party) -> Event {
        let Some(mut directory) = self.world.directory() else { return Event::NoDirectory };
        let written = self.contender(party).own().is_some_and(|own| self.is_written(own));
        if written && !self.is(Mutant::KeepsAWrittenNode) {
            return Event::OwnWritten;
        }
        if self.is(Mutant::TrustsWithoutATrace) {
            directory.mzxid = directory.pzxid;
        }
        let shows = directory.shows_release() || self.is(Mutant::TakesEachListingForOneAfterARelease);
        let listed = if shows { Event::ListedAfterRelease } else { Event::Listed };
        listed(self.listed())
    }

    /// Watches the predecessor's node for its end, and for how it ends.
    fn watch(&mut self, party: Party, place: Place, own: Own) -> Event {
        let path = Path::Child(QUEUE, place);
        let Some(node) = self.world.tree().get(path) else { return Event::PredecessorWatched(false) };
        let (czxid, owner) = (node.czxid, node.owner);
        // Its directory was made again, and ours went with the old one.
        if czxid > own.czxid {
            return Event::OwnTouched;
        }
        self.world.server.watch(party, path, ensemble::Kind::Data);
        self.world.server.watch(party, path, ensemble::Kind::Children);
        self.contender(party).pending =
            Pending::Watching(match (self.setup.mutant, self.world.is_ours(owner)) {
                (Some(Mutant::TakesEachEndOfOursForARelease), true)
                | (Some(Mutant::TakesForeignEndsForReleases), false) => Trust::AnyEnd,
                (_, true) => Trust::Release,
                (_, false) => Trust::Nothing,
            });
        Event::PredecessorWatched(true)
    }

    /// The transaction that releases a node.
    fn releasing(&self) -> Removal {
        // The directory has no data here, and each holder has seen it since the last one released.
        let directory = self.world.tree().get(Path::Directory(QUEUE)).filter(|_| self.setup.traced);
        release_shared(directory.map(|directory| directory.version))
    }

    /// Removes our node by this transaction. Returns whether it was there.
    fn remove(&mut self, party: Party, own: Own, is_sure: bool, removal: Removal) -> bool {
        let path = Path::Child(QUEUE, own.place);
        let name = |target| match target {
            Entered::Own(()) => Named::of(path),
            Entered::Directory(()) => Named::of(Path::Directory(QUEUE)),
        };
        let transaction: Transaction<()> = removal.into_iter().map(|operation| operation.map(name)).collect();
        (is_sure || self.world.tree().has(QUEUE, own)) && self.world.commit(party, &transaction).is_some()
    }

    /// A contender hears how its predecessor's node went.
    pub(crate) fn notice(&mut self, party: Party) {
        if let Some(event) = self.contender(party).shown.take() {
            self.feed(party, Input::Watch(0, event));
        }
    }

    pub(crate) fn delayed(&mut self, party: Party) {
        (self.witness)(Witness::Delayed);
        self.feed(party, Input::Delayed(0));
    }

    /// The connection breaks. The contender hears no answer, whether or not its request was carried out.
    pub(crate) fn break_connection(&mut self, party: Party, served: bool) {
        let pending = self.contender(party).pending.clone();
        if served {
            self.serve(party);
        }
        self.world.unwatch(party);
        let deaf = self.is(Mutant::ForgetsThatItsWatchIsLost);
        let contender = self.contender(party);
        contender.connection += 1;
        contender.shown = None;
        self.feed(
            party,
            match pending {
                Pending::Watching(_) if deaf => return,
                Pending::Watching(_) => Input::Watch(0, Event::WatchLost),
                Pending::Before
                | Pending::Create(_)
                | Pending::Behind(..)
                | Pending::CreateDirectory
                | Pending::Confirm(_)
                | Pending::Release(..) => Input::Lost(None),
                _ => Input::Lost(Some(0)),
            },
        );
    }

    /// The session expires. The lease has ended before.
    pub(crate) fn expire(&mut self, party: Party) {
        (self.witness)(Witness::Expired);
        self.world.expire(party);
        let outlives = self.is(Mutant::OutlivesItsSession);
        let contender = self.contender(party);
        contender.is_valid &= outlives;
        self.feed(party, Input::SessionOver(SessionEnd::Expired));
    }

    pub(crate) fn give_up(&mut self, party: Party) {
        (self.witness)(Witness::GaveUp);
        self.contender(party).caller = Caller::Gone;
        self.feed(party, Input::GiveUp);
    }

    pub(crate) fn release(&mut self, party: Party) {
        let contender = self.contender(party);
        (contender.caller, contender.is_valid) = (Caller::Gone, false);
        self.feed(party, Input::Release);
    }

    pub(crate) fn begin(&mut self, party: Party) {
        self.contender(party).caller = Caller::Waiting;
        self.feed(party, Input::Begin(Look::List));
    }
}

/// Whether the node needs no look before it is deleted.
fn is_sure(certainty: Certainty) -> bool {
    certainty != Certainty::Unsure
}
