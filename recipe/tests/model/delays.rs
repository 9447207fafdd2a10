//! Who has to wait for a takeover delay, whatever its machine remembers.
//!
//! A guard vanishes if its contender was granted, and its node goes in another way than by its release. Everybody who waits
//! behind it, and whom it blocked, owes a delay from then on. The debt ends with a delay, or with the release of a
//! contender that was granted later: of any one if the guard was a writer's, and of a writer if it was a reader's. Such a
//! contender had come later than the one that vanished, and the rule is about itself as well. Nobody may be granted with a
//! debt.
//!
//! A contender that has not waited for anybody yet owes nothing: no delay covers it.

use zklock_recipe::acquisition::Input;
use zklock_recipe::{Event, Kind, QueuePlace, Report};

use super::contest::DELAYED;
use super::exploration::Run;
use super::findings::Witness;
use super::nodes::{Party, exclude_each_other};

impl Run<'_> {
    /// A contender has been granted.
    pub(crate) fn see_grant(&mut self, party: Party) {
        if !self.setup.notes_delays() {
            return;
        }
        let owes = self.world.contenders[party].seats.iter().any(|seated| !seated.owes.is_empty());
        self.forbid(DELAYED, owes);
        for directory in self.world.leader.tree.directories.iter_mut().flatten() {
            let nodes = directory.children.iter_mut().map(|(_, node)| &mut node.data);
            nodes.filter(|node| node.creator == party).for_each(|node| node.held = true);
        }
    }

    /// A contender hears something: that it waits, or that its delay is over.
    pub(crate) fn see_wait(&mut self, party: Party, input: &Input) {
        let seats = &mut self.world.contenders[party].seats;
        match input {
            Input::Reply(Report::One(seat, Event::PredecessorWatched(true)), _) => {
                seats[*seat].waited = self.setup.notes_delays();
            }
            Input::Heard(Report::One(seat, Event::Delayed)) => seats[*seat].owes.clear(),
            _ => {}
        }
    }

    /// A contender hears of the release of this one.
    pub(crate) fn see_release(&mut self, party: Party, seat: usize, predecessor: QueuePlace) {
        let owes = &mut self.world.contenders[party].seats[seat].owes;
        owes.retain(|vanished| predecessor.kind == Kind::Shared && *vanished == Kind::Shared);
    }

    /// A node is about to go, and is not released.
    pub(crate) fn see_end(&mut self, queue: usize, place: QueuePlace) {
        let tree = &self.world.leader.tree;
        if !tree.node(queue, place).is_some_and(|node| node.data.held) {
            return;
        }
        for (party, contender) in self.world.contenders.iter_mut().enumerate() {
            let own = tree.node_of(queue, party).map(|own| own.place);
            let behind =
                |own: QueuePlace| place.sequence < own.sequence && exclude_each_other(place.kind, own.kind);
            if !own.is_some_and(behind) {
                continue;
            }
            let seats = contender.seats.iter_mut();
            for seated in seats.filter(|seated| seated.seat.queue == queue && seated.waited) {
                (self.witness)(Witness::GuardVanished);
                seated.owes.insert(place.kind);
            }
        }
    }
}
