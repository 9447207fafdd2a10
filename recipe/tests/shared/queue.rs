//! The queue that is shared: its directory with its stat, and who is in it.

use std::hash::{Hash, Hasher};

use zklock_recipe::transaction::Operation;
use zklock_recipe::{self as recipe, Own, Place};

use super::contender::{Contender, Pending};
use super::foreigner::Stage;
use super::setup::{Party, Setup};
use crate::world::ensemble::{self, Server};
use crate::world::tree::{Change, Committed, Named, Numbered, Path, Transaction, Tree, deletion};

/// The directory.
pub(crate) const QUEUE: usize = 0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) server: Server<()>,
    pub(crate) stat: Stat,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) foreigners: Vec<Stage>,
    /// Who was the last to hold the lock, if anybody did: one of ours, or not.
    pub(crate) last: Option<bool>,
}

/// When the directory was created, was written to, and got or lost a child; and the last transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    zxid: i64,
    pub(crate) czxid: i64,
    mzxid: i64,
    pzxid: i64,
}

/// Nobody compares other transactions.
impl Hash for Stat {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.pzxid == self.mzxid, self.pzxid == self.czxid).hash(state);
    }
}

/// The numbers of connections and of directories are compared only with those of the present ones.
impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { server, stat, contenders, foreigners, last } = self;
        (server, stat, contenders, foreigners, last).hash(state);
        for contender in contenders {
            if let Pending::Create(Some(before)) = &contender.pending {
                let shown = (before.shows_release(), before.pzxid == before.czxid);
                (shown, before.children, before.cversion, before.czxid == stat.czxid).hash(state);
            }
        }
    }
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let tree = Tree::new([Some(())], [Numbered::Children(QUEUE)]);
        let contenders = setup.contenders.iter().map(|patience| Contender::new(setup, *patience));
        Self {
            server: Server::new(tree),
            stat: Stat::default(),
            contenders: contenders.collect(),
            foreigners: vec![Stage::Idle; setup.foreigners],
            last: None,
        }
    }

    pub(crate) fn tree(&self) -> &Tree<()> {
        &self.server.tree
    }

    pub(crate) fn is_ours(&self, owner: Option<Party>) -> bool {
        owner.is_some_and(|party| party < self.contenders.len())
    }

    pub(crate) fn session(&self, foreigner: usize) -> Party {
        self.contenders.len() + foreigner
    }

    /// The directory's stat, if there is a directory.
    pub(crate) fn directory(&self) -> Option<recipe::Directory> {
        let directory = self.tree().directories[QUEUE].as_ref()?;
        let children = i32::try_from(directory.children.len()).ok()?;
        let Stat { czxid, mzxid, pzxid, .. } = self.stat;
        Some(recipe::Directory { czxid, mzxid, pzxid, cversion: 2 * directory.next - children, children })
    }

    /// The places of the queue's contenders, in order.
    pub(crate) fn places(&self) -> Vec<Place> {
        let mut places = self.tree().children(QUEUE).iter().map(|(place, _)| *place).collect::<Vec<_>>();
        places.sort_unstable();
        places
    }

    /// The nodes of a party, in the order of their creation.
    pub(crate) fn nodes(&self, party: Party) -> impl Iterator<Item = Own> {
        let children = self.tree().children(QUEUE).iter().filter(move |(_, node)| node.owner == Some(party));
        children.map(|(place, node)| Own { place: *place, czxid: node.czxid })
    }

    /// The nearest contender that keeps one in this place from the lock, by the number of each.
    pub(crate) fn predecessor(&self, place: Place, counts: impl Fn(Option<Party>) -> bool) -> Option<Place> {
        let children = self.tree().children(QUEUE).iter().filter(|(_, node)| counts(node.owner));
        children.map(|(other, _)| *other).filter(|other| other.sequence < place.sequence).max()
    }

    /// Who of the other client's believes that it holds the lock though its node is gone.
    pub(crate) fn believers(&self) -> Vec<usize> {
        let believers = self.foreigners.iter().enumerate().filter(|(_, stage)| **stage == Stage::Believing);
        believers.map(|(foreigner, _)| foreigner).collect()
    }

    /// The server carries a transaction out, and tells those who watch.
    pub(crate) fn commit(
        &mut self,
        session: Party,
        transaction: &[Operation<Named<()>>],
    ) -> Option<Vec<Own>> {
        let Committed { created, changes } = self.server.tree.commit(session, transaction).ok()?;
        self.stat.see(&changes);
        let fired = self.server.fire(&changes);
        let fires = |session, kind, change| {
            let mut fired = fired.iter();
            fired.any(|(watch, it)| (watch.session, watch.kind, *it) == (session, kind, change))
        };
        for (party, contender) in self.contenders.iter_mut().enumerate() {
            if fires(party, ensemble::Kind::Children, Change::Deleted) {
                contender.see(fires(party, ensemble::Kind::Data, Change::Written));
            }
        }
        for (foreigner, stage) in self.foreigners.iter_mut().enumerate() {
            if fired.iter().any(|(watch, _)| watch.session == self.contenders.len() + foreigner) {
                *stage = Stage::Looking;
            }
        }
        Some(created)
    }

    /// All nodes of a session go.
    pub(crate) fn expire(&mut self, session: Party) {
        let transaction: Transaction<()> = deletion(self.tree().of(session));
        self.unwatch(session);
        if !transaction.is_empty() {
            self.commit(session, &transaction);
        }
    }

    pub(crate) fn unwatch(&mut self, session: Party) {
        self.server.watches.retain(|watch| watch.session != session);
    }

    /// How many of ours hold the lock, and how many of theirs do or believe so.
    pub(crate) fn holders(&self) -> (usize, usize) {
        let ours = self.contenders.iter().filter(|contender| contender.is_valid);
        let holds = |stage: &&Stage| matches!(stage, Stage::Holding | Stage::Believing);
        (ours.count(), self.foreigners.iter().filter(holds).count())
    }
}

impl Stat {
    fn see(&mut self, changes: &[(Path, Change)]) {
        self.zxid += 1;
        for change in changes {
            match change {
                (Path::Child(..), Change::Created | Change::Deleted) => self.pzxid = self.zxid,
                // Another one, or none.
                (Path::Directory(_), Change::Created | Change::Deleted) => {
                    (self.czxid, self.mzxid, self.pzxid) = (self.zxid, self.zxid, self.zxid);
                }
                (Path::Directory(_), Change::Written) => self.mzxid = self.zxid,
                (Path::Child(..), Change::Written) => {}
            }
        }
    }
}
