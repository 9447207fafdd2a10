//! The machine with a fault: it breaks one rule of the recipe. A model that does not notice is not worth much.
//!
//! A fault is seeded where the machine meets the world, in what it hears or in what it asks for, so the production code
//! is the same with and without it.

use zklock_recipe::{Command, Event, Machine, Refusal, Sequence, Sight};

use crate::requests::Change;

/// Which rule a machine breaks.
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
}

impl Mutant {
    /// All of them.
    pub(crate) const ALL: [Self; 15] = [
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
    ];

    /// What a machine with this fault does about an event. [`AdoptsAnothersNode`](Self::AdoptsAnothersNode) and
    /// [`PassesForeignContendersOver`](Self::PassesForeignContendersOver) are in what is found for it; what a watch shows is
    /// [`takes_for_a_release`](Self::takes_for_a_release)'s.
    pub(crate) fn handle(self, machine: &mut Machine, event: Event) -> Option<Command> {
        let cause = event.clone();
        let event = self.hears(machine, event);
        let command = machine.handle(event);
        match (self, command) {
            (Self::WatchesTheFirst, Some(Command::WatchPredecessor(_))) => {
                Some(Command::WatchPredecessor(Sequence(0)))
            }
            (Self::LeavesLikeAHolder, Some(Command::Delete(sequence))) => Some(Command::Release(sequence)),
            // The reply to a deletion that was none.
            (Self::LeavesLikeAHolder, None) if matches!(cause, Event::Released(_)) => {
                machine.handle(Event::Deleted)
            }
            (Self::ForgetsTheLease, Some(Command::Confirm)) => machine.handle(Event::Confirmed),
            (Self::CreatesAgain, Some(Command::Recover)) if machine.own().is_none() => {
                machine.handle(Event::Recovered(None))
            }
            (Self::RemovesAgain, Some(Command::Recover)) if machine.own().is_some() => {
                machine.handle(Event::Recovered(machine.own()))
            }
            (Self::TrustsItsRemoval, Some(Command::Recover)) if machine.own().is_some() => {
                machine.handle(Event::Recovered(None))
            }
            // A refused create leaves nothing to remove.
            (Self::ForgetsItsCreate, None) if cause == Event::GiveUp => {
                machine.handle(Event::Refused(Refusal::NotAuthorized))
            }
            (_, command) => command,
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

    fn hears(self, machine: &mut Machine, event: Event) -> Event {
        match (self, event) {
            (Self::TrustsDeletions, Event::PredecessorDeleted) => Event::PredecessorReleased,
            (Self::TrustsAbsence, Event::PredecessorWatched(false)) => {
                machine.handle(Event::PredecessorWatched(true));
                Event::PredecessorReleased
            }
            (Self::Miscounts, Event::Entered { own, sight: Sight::Count(2) }) => {
                Event::Entered { own, sight: Sight::Count(1) }
            }
            (Self::IgnoresItsLoss, Event::OwnTouched | Event::OwnWatched(false)) => Event::OwnWatched(true),
            (_, event) => event,
        }
    }
}
