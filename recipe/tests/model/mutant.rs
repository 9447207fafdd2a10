//! The acquisition with a fault: it breaks one rule of the recipe. A model that does not notice is not worth much.
//!
//! A fault is seeded where the acquisition meets the world, in what it hears or in what it asks for, so the production code
//! is the same with and without it.

use zklock_recipe::acquisition::{Certainty, Effect, Ground, Input, Search};
use zklock_recipe::{
    Alone, Breach, Event, Kind, Outcome, Own, Present, QueuePlace, Refusal, Report, Sequence, Sight, Together,
};

use super::contender::Contender;
use super::nodes::ASK;
use super::requests::Shown;
use super::session::TERM;

/// Which rule a machine, a group or an acquisition breaks. The compiler tells of one that no test seeds.
#[derive(Clone, Copy, Debug)]
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
    /// It takes every release for that of the holder, and does not look at the queue.
    TrustsReleases,
    /// It takes any write to its predecessor's node for a release.
    TrustsWrites,
    /// It takes a write and a later deletion for a release.
    TrustsWritesBeforeDeletions,
    /// It passes contenders of other clients over.
    PassesForeignContendersOver,
    /// It takes an ask for a contender, the one right before it.
    CountsAsks,
    /// The guard lasts until its limit, also if the lease ends before.
    PutsItsLossOff,
    /// At its limit it gives its node up, and only then the guard.
    GivesItsNodeUpFirst,
    /// It forgets its limit.
    ForgetsItsLimit,
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
    /// It takes the connection on which it has seen its nodes for the present one.
    TakesAnOldConnectionForThePresentOne,
    /// It is granted though it has not seen its nodes on the present connection.
    ConfirmsUnseenNodes,
    /// It is granted when a quorum has answered, though the lease is over.
    ConfirmsALapsedLease,
    /// With a takeover delay, it trusts its last look at its node when its predecessor releases the lock.
    RemembersThroughARelease,
    /// It trusts its last look at its node when the takeover delay is over.
    RemembersThroughADelay,
    /// It trusts its last look at its nodes when its guard is lost.
    RemembersThroughALoss,
    /// It trusts its last look at its nodes when one of them is found gone.
    RemembersThroughAnEnd,
    /// It looks for the node of a create that the server did not answer clearly in what was found before.
    SharesAnOldSearch,
    /// It forgets a create whose node it has not found.
    ForgetsALateCreate,
    /// It ends when nobody can tell which node is its own.
    LeavesAnUnclearNode,
}

impl Mutant {
    /// What an acquisition with this fault does about an input. [`AdoptsAnothersNode`](Self::AdoptsAnothersNode) and
    /// [`PassesForeignContendersOver`](Self::PassesForeignContendersOver) are in what is found for it,
    /// [`EnqueuesOneByOne`](Self::EnqueuesOneByOne) is in how it creates, and
    /// [`NamesNodesBlindly`](Self::NamesNodesBlindly) in how it removes; what a watch shows is
    /// [`takes_for_a_release`](Self::takes_for_a_release)'s.
    pub(crate) fn handle(self, contender: &mut Contender, input: Input, present: Present) -> Vec<Effect> {
        let cause = input.clone();
        if let Input::Heard(Report::One(seat, Event::PredecessorReleased | Event::PredecessorDeleted))
        | Input::Reply(Report::One(seat, Event::PredecessorWatched(false)), _) = input
            && let Some(writer) = contender.seats[seat].detour.take()
            && let Some(own) = contender.acquisition.own(seat)
        {
            return vec![watch(seat, writer, own)];
        }
        let present = self.sees_present(contender, &input, present);
        let input = self.hears(contender, input, present);
        let (seen, known) = (contender.acquisition.seen(), contender.known());
        let mut commands = contender.acquisition.handle(input, present);
        if matches!(self, Self::RemembersThroughALoss) {
            if commands.contains(&Effect::Tell(Outcome::Lost(Breach::Touched))) {
                contender.remembered = seen;
            }
            commands.iter_mut().for_each(|command| trust(command, contender.remembered));
        }
        if matches!(self, Self::RemembersThroughAnEnd) && contender.known() < known {
            commands.iter_mut().for_each(|command| trust(command, seen));
        }
        if commands.is_empty() {
            return self.on_nothing(contender, &cause, present);
        }
        let each = commands.into_iter().map(|command| self.on_command(contender, &cause, command, present));
        each.collect::<Vec<_>>().concat()
    }

    /// How it takes its session to stand.
    fn sees_present(self, contender: &Contender, input: &Input, present: Present) -> Present {
        match (self, input) {
            (Self::ForgetsTheLease, _) | (Self::ConfirmsALapsedLease, Input::NodesConfirmed(_)) => {
                Present { term: Ok(*TERM), is_ample: true, ..present }
            }
            (Self::TakesAnOldConnectionForThePresentOne, _) => {
                Present { connection: contender.acquisition.seen().or(present.connection), ..present }
            }
            _ => present,
        }
    }

    fn on_nothing(self, contender: &mut Contender, cause: &Input, present: Present) -> Vec<Effect> {
        let mut hears = |input| contender.acquisition.handle(input, present);
        match (self, cause) {
            // The reply to a deletion that was none.
            (Self::LeavesLikeAHolder, Input::Reply(Report::One(seat, Event::Released(_)), connection)) => {
                hears(Input::Reply(Report::One(*seat, Event::Deleted), *connection))
            }
            // A refused create leaves nothing to remove.
            (Self::ForgetsItsCreate, Input::Heard(Report::All(Event::GiveUp))) => {
                hears(Input::Reply(Report::All(Event::Refused(Refusal::NotAuthorized)), 0))
            }
            _ => Vec::new(),
        }
    }

    fn on_command(
        self,
        contender: &mut Contender,
        cause: &Input,
        command: Effect,
        present: Present,
    ) -> Vec<Effect> {
        let connection = present.connection.unwrap_or_default();
        let acquisition = &mut contender.acquisition;
        let own = |seat| acquisition.own(seat);
        let answer = |seat, event| vec![Input::Reply(Report::One(seat, event), connection)];
        let inputs = match (self, &command) {
            (Self::WatchesTheFirst, Effect::One(seat, Alone::WatchPredecessor(_, own), ..)) => {
                return vec![watch(*seat, QueuePlace::exclusive(0), *own)];
            }
            (Self::ReaderWaitsForReaders, Effect::One(seat, Alone::WatchPredecessor(writer, own), ..))
                if own.place.kind == Kind::Shared =>
            {
                let lower = |place: &QueuePlace| place.sequence < own.place.sequence;
                let nearest = listed(cause, *seat)
                    .iter()
                    .filter_map(|name| QueuePlace::parse(name))
                    .filter(lower)
                    .max();
                let reader = nearest.filter(|place| place > writer);
                contender.seats[*seat].detour = reader.map(|_| *writer);
                return vec![watch(*seat, reader.unwrap_or(*writer), *own)];
            }
            (Self::LeavesLikeAHolder, Effect::One(seat, Alone::Delete(own), ground, tries)) => {
                return vec![Effect::One(*seat, Alone::Release(*own), *ground, *tries)];
            }
            (Self::SharesAnOldSearch, Effect::One(seat, Alone::Find, ground, tries)) => {
                let ground = Ground { search: Search::Present, ..*ground };
                return vec![Effect::One(*seat, Alone::Find, ground, *tries)];
            }
            (Self::ForgetsALateCreate, Effect::ExpectLate(_))
            | (Self::LeavesAnUnclearNode, Effect::EndSession(..)) => Vec::new(),
            (Self::CreatesAgain, Effect::One(seat, Alone::Find, ..))
            | (Self::TrustsItsRemoval, Effect::One(seat, Alone::Recover(_), ..)) => {
                answer(*seat, Event::Recovered(None))
            }
            (Self::SearchesOnce, Effect::One(seat, Alone::Find, ..))
                if matches!(cause, Input::Reply(Report::One(_, Event::Recovered(_)), _)) =>
            {
                answer(*seat, Event::Recovered(None))
            }
            (Self::RemovesAgain, Effect::One(seat, Alone::Recover(own), ..)) => {
                answer(*seat, Event::Recovered(Some(*own)))
            }
            (Self::TrustsReleases, Effect::One(seat, Alone::Review, ..)) => {
                answer(*seat, Event::Refused(Refusal::NotAuthorized))
            }
            (Self::TakesReadersForHolders | Self::TrustsReleases, Effect::One(seat, Alone::List, ..))
                if matches!(cause, Input::Heard(Report::One(_, Event::PredecessorReleased))) =>
            {
                answer(*seat, Event::Listed(own(*seat).map(|own| own.place.name()).into_iter().collect()))
            }
            (Self::ReaderJoinsAtOnce, Effect::One(seat, Alone::Delay, ..))
                if own(*seat).is_some_and(|own| own.place.kind == Kind::Shared)
                    && matches!(
                        cause,
                        Input::Reply(Report::Entered(_) | Report::One(_, Event::Listed(_)), _)
                    ) =>
            {
                vec![Input::Heard(Report::One(*seat, Event::Delayed))]
            }
            (Self::TakesAllWithTheFirst, Effect::One(_, Alone::WatchOwn(_), ..)) => {
                vec![Input::NodesConfirmed(connection)]
            }
            (mutant, Effect::All(Together::Confirm, Certainty::Unsure, _))
                if mutant.trusts_its_sight(cause) =>
            {
                vec![Input::NodesConfirmed(connection)]
            }
            _ => return vec![command],
        };
        inputs.into_iter().flat_map(|input| acquisition.handle(input, present)).collect()
    }

    /// Whether it is granted after this without another look at its nodes.
    fn trusts_its_sight(self, cause: &Input) -> bool {
        match self {
            Self::ConfirmsUnseenNodes => true,
            Self::RemembersThroughARelease => {
                matches!(cause, Input::Heard(Report::One(_, Event::PredecessorReleased)))
            }
            Self::RemembersThroughADelay => matches!(cause, Input::Heard(Report::One(_, Event::Delayed))),
            _ => false,
        }
    }

    /// Whether it takes this for a release of its predecessor, which it is not.
    pub(crate) fn takes_for_a_release(self, shown: Shown) -> bool {
        match self {
            Self::TrustsWrites => shown == Shown::Touched,
            Self::TrustsWritesBeforeDeletions => shown == Shown::WrittenAndDeleted,
            _ => false,
        }
    }

    fn hears(self, contender: &mut Contender, input: Input, present: Present) -> Input {
        let kind = |seat: usize| contender.seats[seat].seat.kind;
        match (self, input) {
            (Self::TrustsDeletions, Input::Heard(Report::One(seat, Event::PredecessorDeleted))) => {
                Input::Heard(Report::One(seat, Event::PredecessorReleased))
            }
            (Self::ReaderTrustsDeletions, Input::Heard(Report::One(seat, Event::PredecessorDeleted)))
                if kind(seat) == Kind::Shared =>
            {
                Input::Heard(Report::One(seat, Event::PredecessorReleased))
            }
            (Self::ReaderLooksOn, Input::Heard(Report::One(seat, Event::PredecessorReleased)))
                if kind(seat) == Kind::Shared =>
            {
                Input::Heard(Report::One(seat, Event::PredecessorDeleted))
            }
            (Self::IgnoresItsLoss, Input::Heard(Report::One(seat, Event::OwnTouched))) => {
                Input::Reply(Report::One(seat, Event::OwnWatched(true)), 0)
            }
            (
                Self::TrustsAbsence,
                Input::Reply(Report::One(seat, Event::PredecessorWatched(false)), connection),
            ) => {
                let heard = Report::One(seat, Event::PredecessorWatched(true));
                contender.acquisition.handle(Input::Reply(heard, connection), present);
                Input::Heard(Report::One(seat, Event::PredecessorReleased))
            }
            (_, Input::Reply(heard, connection)) => Input::Reply(self.reads(contender, heard), connection),
            (_, input) => input,
        }
    }

    /// What it takes a reply for.
    fn reads(self, contender: &Contender, heard: Report) -> Report {
        match (self, heard) {
            (Self::Miscounts, Report::Entered(nodes)) => {
                let miscounted = |(own, sight): (Own, Sight)| match sight {
                    Sight::Count(2) => (own, Sight::Count(1)),
                    sight => (own, sight),
                };
                Report::Entered(nodes.into_iter().map(miscounted).collect())
            }
            (
                Self::IgnoresItsLoss | Self::IgnoresItsDeletedNode,
                Report::One(seat, Event::OwnWatched(false)),
            ) => Report::One(seat, Event::OwnWatched(true)),
            (Self::LeavesOthersBehind, Report::Failed(_, event @ Event::Released(false))) => {
                Report::All(event)
            }
            (Self::TrustsOneMembersSearch, Report::One(_, Event::Recovered(None))) => {
                Report::All(Event::Recovered(None))
            }
            (mutant, Report::One(seat, Event::Listed(children))) => {
                let own = contender.acquisition.own(seat).map(|own| own.place);
                Report::One(seat, Event::Listed(mutant.sees(children, own)))
            }
            (mutant, Report::Entered(nodes)) => {
                let seen = |(own, sight): (Own, Sight)| match sight {
                    Sight::Children(children) => {
                        (own, Sight::Children(mutant.sees(children, Some(own.place))))
                    }
                    sight => (own, sight),
                };
                Report::Entered(nodes.into_iter().map(seen).collect())
            }
            (_, heard) => heard,
        }
    }

    /// What it takes a listing for.
    fn sees(self, children: Vec<String>, own: Option<QueuePlace>) -> Vec<String> {
        let Some(own) = own else { return children };
        if matches!(self, Self::CountsAsks) {
            let before = QueuePlace { sequence: Sequence(own.sequence.0 - 1), ..own };
            let seen = |name: &String| if name == ASK { before.name() } else { name.clone() };
            return children.iter().map(seen).collect();
        }
        let places = || children.iter().filter_map(|name| QueuePlace::parse(name));
        let lower = || places().filter(|place| place.sequence < own.sequence);
        let writer = lower().filter(|place| place.kind == Kind::Exclusive).max();
        let passes_over = |place: QueuePlace| match (self, own.kind) {
            (Self::ReaderPassesWritersOver, Kind::Shared) => place.kind == Kind::Exclusive,
            (Self::ForgetsEarlyReaders, Kind::Exclusive) => {
                place.kind == Kind::Shared && lower().max() > writer && Some(place) < writer
            }
            _ => false,
        };
        let seen = |name: &&String| !QueuePlace::parse(name).is_some_and(passes_over);
        children.iter().filter(seen).cloned().collect()
    }
}

fn watch(seat: usize, predecessor: QueuePlace, own: Own) -> Effect {
    // A watch relies on nothing.
    let ground = Ground { certainty: Certainty::Unsure, search: Search::After };
    Effect::One(seat, Alone::WatchPredecessor(predecessor, own), ground, Default::default())
}

/// Makes a command name a node without a look, if the nodes were seen on this connection.
fn trust(command: &mut Effect, seen: Option<u64>) {
    if let Effect::One(_, Alone::Release(_) | Alone::Delete(_), ground, _) = command {
        ground.certainty = seen.map_or(ground.certainty, Certainty::Seen);
    }
}

/// The listing that a member has just seen.
fn listed(cause: &Input, seat: usize) -> &[String] {
    match cause {
        Input::Reply(Report::One(_, Event::Listed(children)), _) => children,
        Input::Reply(Report::Entered(nodes), _) => match nodes.get(seat) {
            Some((_, Sight::Children(children))) => children,
            _ => &[],
        },
        _ => &[],
    }
}
