//! Transactions that the leader carries out, and what the watches of contenders show of them.

use zklock_recipe::transaction::{Operation, Problem};
use zklock_recipe::{Own, Takeover};

use super::exploration::Run;
use super::follower::Down;
use super::mutant::Mutant;
use super::requests::{Address, Message, Shown};
use super::server::{Kind, Watch};
use super::tree::{Change, Committed, Name, Named, Path, Transaction, deletion};

impl Run<'_> {
    /// The leader carries a transaction out, and tells the follower what that changes.
    pub(crate) fn commit(
        &mut self,
        session: usize,
        transaction: Transaction,
    ) -> Result<Vec<Own>, (usize, Problem)> {
        let committed = self.carry_out(session, &transaction)?;
        if !committed.changes.is_empty() {
            self.replicate(Down::Transaction(session, transaction));
        }
        Ok(committed.created)
    }

    pub(crate) fn carry_out(
        &mut self,
        session: usize,
        transaction: &[Operation<Named>],
    ) -> Result<Committed, (usize, Problem)> {
        let mut tree = self.world.leader.tree.clone();
        let committed = tree.commit(session, transaction)?;
        self.see_changes(&committed.changes);
        self.world.leader.tree = tree;
        let fired = self.world.leader.fire(&committed.changes);
        self.notify(&fired);
        Ok(committed)
    }

    /// Nodes are about to change so. Those that a transaction writes to and deletes are released.
    fn see_changes(&mut self, changes: &[(Path, Change)]) {
        let is_released = |path| changes.contains(&(path, Change::Written));
        let ends = changes.iter().filter(|(_, change)| *change == Change::Deleted);
        for path in ends.clone().map(|(path, _)| *path).filter(|path| !is_released(*path)) {
            if let Path::Child(queue, place) = path {
                self.see_end(queue, place);
            }
        }
        let is_release = ends.into_iter().any(|(path, _)| is_released(*path));
        if is_release && self.setup.takeover == Takeover::Delayed {
            (0..self.world.contenders.len()).for_each(|party| self.note_blind(party));
        }
    }

    /// Somebody deletes these nodes.
    pub(crate) fn delete(&mut self, paths: impl IntoIterator<Item = Path>) {
        let _ = self.commit(usize::MAX, deletion(paths));
    }

    /// An operator, or another client, changes a node without removing it.
    pub(crate) fn write(&mut self, path: Path) {
        let data = self.world.leader.tree.get(path).map(|node| node.data).unwrap_or_default();
        let _ = self.commit(usize::MAX, vec![Operation::Set(Named { name: Name::At(path), data }, None)]);
    }

    /// Tells contenders what their watches show.
    pub(crate) fn notify(&mut self, fired: &[(Watch, Change)]) {
        for &(Watch { party, path, kind }, _) in fired {
            let Path::Child(queue, place) = path else { continue };
            let contender = &self.world.contenders[party];
            let seat = contender.seat_in(queue);
            let own = seat.and_then(|seat| contender.acquisition.own(seat));
            let is_other = |watch: &Watch| (watch.party, watch.path) == (party, path) && watch.kind != kind;
            let other = fired.iter().find(|(watch, _)| is_other(watch)).map(|(_, change)| *change);
            let shown = match (kind, other) {
                (Kind::Data, None) if own.is_some_and(|own| own.place == place) => Shown::Touched,
                // The end of the predecessor is still to come.
                (Kind::Data, None) if matches!(self.setup.mutant, Some(Mutant::TrustsWrites)) => {
                    Shown::Touched
                }
                (Kind::Data, _) => continue,
                (Kind::Children, Some(Change::Written)) => Shown::Released,
                (Kind::Children, Some(_)) => Shown::Deleted,
                (Kind::Children, None) => Shown::WrittenAndDeleted,
            };
            let message = Message::Changed(place, shown);
            self.world.sessions[contender.session].answer(Address { party, seat }, message);
        }
    }

    /// The contender, or this member, hears nothing of its watches any more.
    pub(crate) fn unwatch(&mut self, address: Address) {
        let queue = address.seat.map(|seat| self.world.queue(address.party, seat));
        let goes = |watch: &Watch| {
            let here = |queue| matches!(watch.path, Path::Child(index, _) if index == queue);
            watch.party == address.party && queue.is_none_or(here)
        };
        let contender = &mut self.world.contenders[address.party];
        contender.addressed(address).for_each(|seated| seated.watch = None);
        let session = contender.session;
        self.world.server_of_mut(session).watches.retain(|watch| !goes(watch));
        let hears =
            |to: Address| to.party == address.party && (address.seat.is_none() || to.seat == address.seat);
        self.world.sessions[session].down.retain(|(to, message, _)| !(hears(*to) && message.is_of_a_watch()));
    }
}
