//! The group with a fault: it breaks one rule of the recipe. A model that does not notice is not worth much.
//!
//! A fault is seeded where the group meets the world, in what it hears or in what it asks for, so the production code
//! is the same with and without it.

use zklock_recipe::{Command, Event, Group, Input, Kind, Output, Own, Place, Refusal, Sight};

use crate::contender::Contender;
use crate::requests::Change;

/// Which rule a machine or a group breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// It takes the lock when its predecessor's node is gone, however that went, without another look.
    TrustsDeletions,
    /// It takes the lock when its predecessor is gone before it can be watched, without another look.
    TrustsAbsence,
    /// It takes the second place for the first.
    Miscounts,
    /// It watches the first in the queue instead of its predecessor.
    WatchesTheFirst,
    /// It takes the lock though its lease may be over.
    ForgetsTheLease,
    /// It gives up its place as a holder does, so that its successor takes that for a release.
    LeavesLikeAHolder,
    /// It creates another node when the reply to the first create was lost.
    CreatesAgain,
    /// It takes another acquisition's node of its session for its own when the reply to its create was lost.
    AdoptsAnothersNode,
    /// It removes its node again, without a look, when the reply to the removal was lost.
    RemovesAgain,
    /// It takes a removal for done when the reply was lost.
    TrustsItsRemoval,
    /// It ends when its caller goes, though its create is under way.
    ForgetsItsCreate,
    /// It goes on holding the lock when somebody else has touched its node.
    IgnoresItsLoss,
    /// It takes any write to its predecessor's node for a release.
    TrustsWrites,
    /// It takes a write and a later deletion for a release.
    TrustsWritesBeforeDeletions,
    /// It passes contenders of other clients over.
    PassesForeignContendersOver,
    /// A writer takes a reader's release for its grant.
    TakesReadersForHolders,
    /// A reader takes the release, or any other end, of a writer that never held the lock for its grant.
    ReaderTrustsDeletions,
    /// A reader passes over the writers that it has listed.
    ReaderPassesWritersOver,
    /// A reader waits for the nearest contender, and only then for the nearest writer.
    ReaderWaitsForReaders,
    /// A reader that hears of its writer's release goes on to the next writer.
    ReaderLooksOn,
    /// A reader that comes does not wait for the takeover delay that older readers wait for.
    ReaderJoinsAtOnce,
    /// A writer that waits for a reader remembers only the readers behind the nearest writer.
    ForgetsEarlyReaders,
    /// It enters one queue after the other.
    EnqueuesOneByOne,
    /// It takes all locks when the first queue's turn is its own.
    TakesAllWithTheFirst,
    /// When a release of all finds one node gone, it takes the others for gone as well.
    LeavesOthersBehind,
    /// Once somebody has touched one of its nodes, it names the others without a look at them.
    NamesNodesBlindly,
    /// When one member does not find its node after a lost reply, it enters again for all.
    TrustsOneMembersSearch,
    /// When one member does not find its node, and another one does, it takes that for a deletion without another search.
    SearchesOnce,
    /// When one member finds that somebody has deleted its node, the others go on waiting.
    IgnoresItsDeletedNode,
}

impl Mutant {
    /// All of them.
    pub(crate) const ALL: [Self; 29] = [
        Self::TrustsDeletions,
        Self::TrustsAbsence,
        Self::Miscounts,
        Self::WatchesTheFirst,
        Self::ForgetsTheLease,
        Self::LeavesLikeAHolder,
        Self::CreatesAgain,
        Self::AdoptsAnothersNode,
        Self::RemovesAgain,
        Self::TrustsItsRemoval,
        Self::ForgetsItsCreate,
        Self::IgnoresItsLoss,
        Self::TrustsWrites,
        Self::TrustsWritesBeforeDeletions,
        Self::PassesForeignContendersOver,
        Self::TakesReadersForHolders,
        Self::ReaderTrustsDeletions,
        Self::ReaderPassesWritersOver,
        Self::ReaderWaitsForReaders,
        Self::ReaderLooksOn,
        Self::ReaderJoinsAtOnce,
        Self::ForgetsEarlyReaders,
        Self::EnqueuesOneByOne,
        Self::TakesAllWithTheFirst,
        Self::LeavesOthersBehind,
        Self::NamesNodesBlindly,
        Self::TrustsOneMembersSearch,
        Self::SearchesOnce,
        Self::IgnoresItsDeletedNode,
    ];

    /// What a group with this fault does about an input. [`AdoptsAnothersNode`](Self::AdoptsAnothersNode) and
    /// [`PassesForeignContendersOver`](Self::PassesForeignContendersOver) are in what is found for it,
    /// [`EnqueuesOneByOne`](Self::EnqueuesOneByOne) is in how it creates, and
    /// [`NamesNodesBlindly`](Self::NamesNodesBlindly) in how it removes; what a watch shows is
    /// [`takes_for_a_release`](Self::takes_for_a_release)'s.
    pub(crate) fn handle(self, contender: &mut Contender, input: Input) -> Vec<Output> {
        let cause = input.clone();
        if let Input::One(
            seat,
            Event::PredecessorReleased | Event::PredecessorDeleted | Event::PredecessorWatched(false),
        ) = input
            && let Some(writer) = contender.seats[seat].detour.take()
        {
            return vec![Output::One(seat, Command::WatchPredecessor(writer))];
        }
        let input = self.hears(contender, input);
        let outputs = contender.group.handle(input);
        let group = &mut contender.group;
        if outputs.is_empty() {
            return self.on_nothing(group, &cause);
        }
        let each = outputs.into_iter().map(|output| self.on_output(contender, &cause, output));
        each.collect::<Vec<_>>().concat()
    }

    fn on_nothing(self, group: &mut Group, cause: &Input) -> Vec<Output> {
        match (self, cause) {
            // The reply to a deletion that was none.
            (Self::LeavesLikeAHolder, Input::One(seat, Event::Released(_))) => {
                group.handle(Input::One(*seat, Event::Deleted))
            }
            // A refused create leaves nothing to remove.
            (Self::ForgetsItsCreate, Input::All(Event::GiveUp)) => {
                group.handle(Input::All(Event::Refused(Refusal::NotAuthorized)))
            }
            _ => Vec::new(),
        }
    }

    fn on_output(self, contender: &mut Contender, cause: &Input, output: Output) -> Vec<Output> {
        let group = &mut contender.group;
        match (self, output) {
            (Self::WatchesTheFirst, Output::One(seat, Command::WatchPredecessor(_))) => {
                vec![Output::One(seat, Command::WatchPredecessor(Place::exclusive(0)))]
            }
            (Self::ReaderWaitsForReaders, Output::One(seat, Command::WatchPredecessor(writer)))
                if contender.seats[seat].seat.kind == Kind::Shared =>
            {
                let own = group.own(seat).map(|own| own.place);
                let lower = |place: &Place| own.is_some_and(|own| place.sequence < own.sequence);
                let nearest =
                    listed(cause, seat).iter().filter_map(|name| Place::parse(name)).filter(lower).max();
                let reader = nearest.filter(|place| *place > writer);
                contender.seats[seat].detour = reader.map(|_| writer);
                vec![Output::One(seat, Command::WatchPredecessor(reader.unwrap_or(writer)))]
            }
            (Self::LeavesLikeAHolder, Output::One(seat, Command::Delete(place))) => {
                vec![Output::One(seat, Command::Release(place))]
            }
            (Self::ForgetsTheLease, Output::All(Command::Confirm)) => {
                group.handle(Input::All(Event::Confirmed))
            }
            (Self::CreatesAgain, Output::One(seat, Command::Recover)) if group.own(seat).is_none() => {
                group.handle(Input::One(seat, Event::Recovered(None)))
            }
            (Self::SearchesOnce, Output::One(seat, Command::Recover))
                if matches!(cause, Input::One(_, Event::Recovered(_))) && group.own(seat).is_none() =>
            {
                group.handle(Input::One(seat, Event::Recovered(None)))
            }
            (Self::RemovesAgain, Output::One(seat, Command::Recover)) if group.own(seat).is_some() => {
                let own = group.own(seat);
                group.handle(Input::One(seat, Event::Recovered(own)))
            }
            (Self::TrustsItsRemoval, Output::One(seat, Command::Recover)) if group.own(seat).is_some() => {
                group.handle(Input::One(seat, Event::Recovered(None)))
            }
            (Self::TakesReadersForHolders, Output::One(seat, Command::List))
                if matches!(cause, Input::One(_, Event::PredecessorReleased)) =>
            {
                let own = group.own(seat).map(|own| own.place.name());
                group.handle(Input::One(seat, Event::Listed(own.into_iter().collect())))
            }
            (Self::ReaderJoinsAtOnce, Output::One(seat, Command::Delay))
                if contender.seats[seat].seat.kind == Kind::Shared
                    && matches!(cause, Input::Entered(_) | Input::One(_, Event::Listed(_))) =>
            {
                group.handle(Input::One(seat, Event::Delayed))
            }
            (Self::TakesAllWithTheFirst, Output::One(_, Command::WatchOwn(_))) => {
                group.handle(Input::All(Event::Confirmed))
            }
            (_, output) => vec![output],
        }
    }

    /// Whether it takes this for a release of its predecessor, which it is not.
    pub(crate) fn takes_for_a_release(self, change: Change) -> bool {
        match self {
            Self::TrustsWrites => change == Change::Written,
            Self::TrustsWritesBeforeDeletions => change == Change::WrittenAndDeleted,
            _ => false,
        }
    }

    fn hears(self, contender: &mut Contender, input: Input) -> Input {
        let kind = |seat: usize| contender.seats[seat].seat.kind;
        match (self, input) {
            (Self::TrustsDeletions, Input::One(seat, Event::PredecessorDeleted)) => {
                Input::One(seat, Event::PredecessorReleased)
            }
            (Self::ReaderTrustsDeletions, Input::One(seat, Event::PredecessorDeleted))
                if kind(seat) == Kind::Shared =>
            {
                Input::One(seat, Event::PredecessorReleased)
            }
            (Self::ReaderLooksOn, Input::One(seat, Event::PredecessorReleased))
                if kind(seat) == Kind::Shared =>
            {
                Input::One(seat, Event::PredecessorDeleted)
            }
            (Self::TrustsAbsence, Input::One(seat, Event::PredecessorWatched(false))) => {
                contender.group.handle(Input::One(seat, Event::PredecessorWatched(true)));
                Input::One(seat, Event::PredecessorReleased)
            }
            (Self::Miscounts, Input::Entered(nodes)) => {
                let miscounted = |(own, sight): (Own, Sight)| match sight {
                    Sight::Count(2) => (own, Sight::Count(1)),
                    sight => (own, sight),
                };
                Input::Entered(nodes.into_iter().map(miscounted).collect())
            }
            (Self::IgnoresItsLoss, Input::One(seat, Event::OwnTouched | Event::OwnWatched(false))) => {
                Input::One(seat, Event::OwnWatched(true))
            }
            (Self::IgnoresItsDeletedNode, Input::One(seat, Event::OwnWatched(false))) => {
                Input::One(seat, Event::OwnWatched(true))
            }
            (Self::LeavesOthersBehind, Input::Failed(_, event @ Event::Released(false))) => Input::All(event),
            (Self::TrustsOneMembersSearch, Input::One(_, Event::Recovered(None))) => {
                Input::All(Event::Recovered(None))
            }
            (mutant, Input::One(seat, Event::Listed(children))) => {
                let own = contender.group.own(seat).map(|own| own.place);
                Input::One(seat, Event::Listed(mutant.sees(children, own)))
            }
            (mutant, Input::Entered(nodes)) => {
                let seen = |(own, sight): (Own, Sight)| match sight {
                    Sight::Children(children) => {
                        (own, Sight::Children(mutant.sees(children, Some(own.place))))
                    }
                    sight => (own, sight),
                };
                Input::Entered(nodes.into_iter().map(seen).collect())
            }
            (_, input) => input,
        }
    }

    /// What it takes a listing for.
    fn sees(self, children: Vec<String>, own: Option<Place>) -> Vec<String> {
        let Some(own) = own else { return children };
        let places = || children.iter().filter_map(|name| Place::parse(name));
        let lower = || places().filter(|place| place.sequence < own.sequence);
        let writer = lower().filter(|place| place.kind == Kind::Exclusive).max();
        let passes_over = |place: Place| match (self, own.kind) {
            (Self::ReaderPassesWritersOver, Kind::Shared) => place.kind == Kind::Exclusive,
            (Self::ForgetsEarlyReaders, Kind::Exclusive) => {
                place.kind == Kind::Shared && lower().max() > writer && Some(place) < writer
            }
            _ => false,
        };
        let seen = |name: &&String| !Place::parse(name).is_some_and(passes_over);
        children.iter().filter(seen).cloned().collect()
    }
}

/// The listing that a member has just seen.
fn listed(cause: &Input, seat: usize) -> &[String] {
    match cause {
        Input::One(_, Event::Listed(children)) => children,
        Input::Entered(nodes) => match nodes.get(seat) {
            Some((_, Sight::Children(children))) => children,
            _ => &[],
        },
        _ => &[],
    }
}
