//! A candidate: what it asks of the servers, and what follows from their answers. When it is granted is abstracted: it is,
//! once its node is the first and its lease is valid.

use crate::run::Run;
use crate::world::{Announcement, Breach, Mutant, Party, Witness};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Candidate {
    pub(crate) stage: Stage,
    /// The token of its node, once it has queued.
    pub(crate) token: i64,
    pub(crate) lapsed: bool,
    pub(crate) expired: bool,
    pub(crate) disconnected: bool,
    /// The value to be announced.
    pub(crate) value: u8,
    pub(crate) keeper: Keeper,
    pub(crate) leaving: Leaving,
    /// Its watch on the announcement stands.
    pub(crate) watches: bool,
    /// That watch has fired, and the candidate has not looked since.
    pub(crate) dirty: bool,
    /// Requests under way, in order.
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
    /// It was told that its node is gone.
    Lost,
    /// It leaves, or has left.
    Gone,
}

/// The task that keeps the announcement up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Keeper {
    #[default]
    Off,
    /// It is about to announce the value.
    Due {
        replace: bool,
    },
    Announcing {
        replace: bool,
    },
    Looking,
    Watching,
    /// It has given up. Only a mutant does.
    Stopped,
}

/// How far a candidate is with its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Leaving {
    #[default]
    No,
    /// The announcement goes along.
    Whole,
    Bare,
    Recovering,
    Reading,
    Deleting,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Announce {
        value: u8,
        replace: bool,
    },
    /// Watch, and look.
    Look,
    Leave {
        carry: bool,
    },
    /// Does our node exist?
    Recover,
    Read,
    /// The announcement, if it has this version.
    Delete {
        version: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Announced(Outcome),
    Looked(Option<Announcement>),
    Left(Outcome),
    Recovered(bool),
    Read(Option<Announcement>),
    Deleted,
    /// Somebody wrote to the announcement after it was read.
    Written,
    /// The connection was lost before the answer to the keeper.
    KeeperFailed,
    /// As that, to what leaves.
    LeavingFailed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Done,
    /// Our node is gone.
    Gone,
    Exists,
    Missing,
}

impl Candidate {
    /// Whether its guard says that the lock is held.
    pub(crate) fn leads(&self) -> bool {
        self.stage == Stage::Holding && !self.lapsed
    }

    fn ours(&self, party: Party, found: Announcement) -> bool {
        found.maker == Some(party) && found.token == self.token
    }
}

impl<W: Fn(Witness)> Run<'_, W> {
    fn candidate(&mut self, party: Party) -> &mut Candidate {
        &mut self.world.candidates[party]
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.setup.mutant == Some(mutant)
    }

    pub(crate) fn enqueue(&mut self, party: Party) {
        self.world.zxid += 1;
        let token = self.world.zxid;
        self.world.queue.push((party, token));
        let candidate = self.candidate(party);
        (candidate.stage, candidate.token) = (Stage::Queued, token);
    }

    pub(crate) fn grant(&mut self, party: Party) {
        let candidate = self.candidate(party);
        (candidate.stage, candidate.value) = (Stage::Holding, 1);
        candidate.keeper = Keeper::Due { replace: false };
    }

    pub(crate) fn proclaim(&mut self, party: Party) {
        self.world.faults.proclamations -= 1;
        (self.witness)(Witness::Proclaimed);
        let candidate = self.candidate(party);
        candidate.value += 1;
        // While a request is under way, the keeper hears of it afterwards.
        if candidate.keeper == Keeper::Watching {
            candidate.keeper = Keeper::Due { replace: true };
        }
    }

    pub(crate) fn announce(&mut self, party: Party) {
        let candidate = self.candidate(party);
        let Keeper::Due { replace } = candidate.keeper else { return };
        candidate.keeper = Keeper::Announcing { replace };
        candidate.up.push(Request::Announce { value: candidate.value, replace });
    }

    /// Begins to leave.
    pub(crate) fn leave(&mut self, party: Party) {
        let leaves_it = self.is(Mutant::LeavesItsAnnouncement);
        let takes_it = self.is(Mutant::TakesAnothersAnnouncement);
        let candidate = self.candidate(party);
        let carry = candidate.stage != Stage::Queued && !leaves_it || takes_it;
        candidate.up.push(Request::Leave { carry });
        candidate.leaving = if carry { Leaving::Whole } else { Leaving::Bare };
        if candidate.stage == Stage::Queued {
            candidate.value = 0;
        }
        (candidate.stage, candidate.keeper) = (Stage::Gone, Keeper::Off);
    }

    /// The holder hears that its node is gone.
    pub(crate) fn told(&mut self, party: Party) {
        let forgets = self.is(Mutant::ForgetsItsAnnouncement);
        let candidate = self.candidate(party);
        (candidate.stage, candidate.keeper) = (Stage::Lost, Keeper::Off);
        if forgets {
            candidate.leaving = Leaving::Done;
        } else {
            candidate.leaving = Leaving::Reading;
            candidate.up.push(Request::Read);
        }
    }

    /// The server carries a request out.
    pub(crate) fn serve(&mut self, party: Party, request: Request) -> Reply {
        let node = self.world.node(party);
        match request {
            Request::Announce { value, replace } => {
                Reply::Announced(self.serve_announce(party, value, replace))
            }
            Request::Look => {
                let candidate = self.candidate(party);
                (candidate.watches, candidate.dirty) = (true, false);
                Reply::Looked(self.world.announcement)
            }
            Request::Leave { carry } => Reply::Left(self.serve_leave(party, carry)),
            Request::Recover => Reply::Recovered(node.is_some()),
            Request::Read => Reply::Read(self.world.announcement),
            Request::Delete { version } => {
                match self.world.announcement {
                    None => return Reply::Deleted,
                    Some(found) if found.version != version => return Reply::Written,
                    Some(found) => {
                        let ours = found.maker == Some(party);
                        (self.witness)(if ours { Witness::Retracted } else { Witness::RetractedAnothers });
                    }
                }
                self.world.zxid += 1;
                self.world.change(None, 1);
                Reply::Deleted
            }
        }
    }

    fn serve_announce(&mut self, party: Party, value: u8, replace: bool) -> Outcome {
        if self.world.node(party).is_none() && !self.is(Mutant::AnnouncesWithoutTheCheck) {
            (self.witness)(Witness::AnnouncementRefusedByTheCheck);
            return Outcome::Gone;
        }
        match (self.world.announcement, replace) {
            (Some(_), false) => return Outcome::Exists,
            (None, true) => return Outcome::Missing,
            (Some(found), true) if found.maker != Some(party) => (self.witness)(Witness::LeftoverReplaced),
            _ => {}
        }
        if self.world.queue.first().map(|(first, _)| *first) != Some(party) {
            self.world.breach(Breach::AnnouncedWithoutLeading);
        }
        let others = self.world.candidates.iter().enumerate().filter(|(other, _)| *other != party);
        if self.setup.faults.evictions == 0 && others.into_iter().any(|(_, other)| other.leads()) {
            self.world.breach(Breach::TwoLeaders);
        }
        self.world.zxid += 1;
        let (token, zxid) = (self.world.candidates[party].token, self.world.zxid);
        let announcement = Announcement { token, value, zxid, version: 0, maker: Some(party) };
        (self.witness)(Witness::Announced);
        if self.world.announced.contains(&(token, value)) {
            (self.witness)(Witness::AnnouncedAgain);
        } else {
            self.world.announced.push((token, value));
        }
        self.world.change(Some(announcement), 1 + u8::from(replace));
        Outcome::Done
    }

    fn serve_leave(&mut self, party: Party, carry: bool) -> Outcome {
        if self.world.node(party).is_none() {
            return Outcome::Gone;
        }
        match self.world.announcement {
            None if carry => return Outcome::Missing,
            Some(found) if carry => {
                (self.witness)(Witness::ResignedWithAnnouncement);
                if found.maker.is_some_and(|maker| maker != party && self.world.node(maker).is_some()) {
                    self.world.breach(Breach::TookAnothersAnnouncement);
                }
                self.world.zxid += 1;
                self.world.change(None, 1);
            }
            _ => {
                (self.witness)(Witness::ResignedBare);
                self.world.zxid += 1;
            }
        }
        self.world.queue.retain(|(owner, _)| *owner != party);
        Outcome::Done
    }

    /// The candidate takes in an answer.
    pub(crate) fn hear(&mut self, party: Party, reply: Reply) {
        match reply {
            Reply::Announced(_) | Reply::Looked(_) | Reply::KeeperFailed => self.keeper_hears(party, reply),
            _ => self.leaving_hears(party, reply),
        }
    }

    fn keeper_hears(&mut self, party: Party, reply: Reply) {
        let (stopped, ignores) =
            (self.is(Mutant::IsStoppedByALeftover), self.is(Mutant::IgnoresItsAnnouncement));
        let candidate = self.candidate(party);
        candidate.keeper = match (candidate.keeper, reply) {
            (Keeper::Announcing { .. }, Reply::Announced(Outcome::Exists)) if stopped => Keeper::Stopped,
            (Keeper::Announcing { .. }, Reply::Announced(Outcome::Exists)) => Keeper::Due { replace: true },
            (Keeper::Announcing { .. }, Reply::Announced(Outcome::Missing)) => Keeper::Due { replace: false },
            // The hold hears of it, too.
            (Keeper::Announcing { .. }, Reply::Announced(Outcome::Gone)) => Keeper::Watching,
            (Keeper::Announcing { .. }, Reply::Announced(Outcome::Done)) if ignores => Keeper::Watching,
            (Keeper::Announcing { .. }, Reply::Announced(Outcome::Done)) => {
                candidate.up.push(Request::Look);
                Keeper::Looking
            }
            (Keeper::Announcing { replace }, Reply::KeeperFailed) => Keeper::Due { replace },
            (Keeper::Looking, Reply::KeeperFailed) => {
                candidate.up.push(Request::Look);
                Keeper::Looking
            }
            (Keeper::Looking, Reply::Looked(found)) => {
                let ours = found.is_some_and(|found| {
                    found.maker == Some(party) && found.version == 0 && found.value == candidate.value
                });
                if ours { Keeper::Watching } else { Keeper::Due { replace: found.is_some() } }
            }
            // The keeper has been stopped meanwhile.
            (keeper, _) => keeper,
        };
    }

    fn leaving_hears(&mut self, party: Party, reply: Reply) {
        let leaves = self.is(Mutant::LeavesItsAnnouncement);
        let trusts = self.is(Mutant::TakesAMissingNodeForAResignation);
        let candidate = self.candidate(party);
        let announced = candidate.value > 0;
        let (next, request) = match (candidate.leaving, reply) {
            (Leaving::Whole, Reply::Left(Outcome::Done)) => (Leaving::Done, None),
            (Leaving::Whole, Reply::Left(Outcome::Missing)) => {
                (Leaving::Bare, Some(Request::Leave { carry: false }))
            }
            (Leaving::Bare, Reply::Left(Outcome::Done)) if leaves || !announced => (Leaving::Done, None),
            (Leaving::Whole | Leaving::Bare, Reply::Left(Outcome::Gone)) if leaves || !announced => {
                (Leaving::Done, None)
            }
            (Leaving::Bare, Reply::Left(Outcome::Done)) | (_, Reply::Left(Outcome::Gone)) => {
                (Leaving::Reading, Some(Request::Read))
            }
            (Leaving::Whole | Leaving::Bare | Leaving::Recovering, Reply::LeavingFailed) => {
                (Leaving::Recovering, Some(Request::Recover))
            }
            (Leaving::Recovering, Reply::Recovered(true)) => {
                let carry = announced && !leaves;
                (if carry { Leaving::Whole } else { Leaving::Bare }, Some(Request::Leave { carry }))
            }
            // The release may have taken effect, or somebody has deleted the node, and not the announcement.
            (Leaving::Recovering, Reply::Recovered(false)) => {
                (self.witness)(Witness::ReleaseFoundDone);
                match announced && !leaves && !trusts {
                    true => (Leaving::Reading, Some(Request::Read)),
                    false => (Leaving::Done, None),
                }
            }
            (Leaving::Reading, Reply::Read(Some(found))) if candidate.ours(party, found) => {
                (Leaving::Deleting, Some(Request::Delete { version: found.version }))
            }
            (Leaving::Reading, Reply::Read(_)) | (Leaving::Deleting, Reply::Deleted) => (Leaving::Done, None),
            (Leaving::Reading | Leaving::Deleting, Reply::LeavingFailed | Reply::Written) => {
                (Leaving::Reading, Some(Request::Read))
            }
            (leaving, _) => (leaving, None),
        };
        let candidate = self.candidate(party);
        candidate.leaving = next;
        candidate.up.extend(request);
    }

    pub(crate) fn break_connection(&mut self, party: Party) {
        self.world.faults.breaks -= 1;
        let candidate = self.candidate(party);
        candidate.disconnected = true;
        (candidate.watches, candidate.dirty) = (false, false);
        let up = std::mem::take(&mut candidate.up);
        let writes = up.into_iter().filter(|request| {
            matches!(request, Request::Announce { .. } | Request::Leave { .. } | Request::Delete { .. })
        });
        candidate.strays = writes.collect();
        candidate.down.clear();
        match candidate.keeper {
            Keeper::Announcing { .. } | Keeper::Looking => candidate.down.push(Reply::KeeperFailed),
            Keeper::Watching => {
                candidate.keeper = Keeper::Looking;
                candidate.down.push(Reply::KeeperFailed);
            }
            Keeper::Off | Keeper::Due { .. } | Keeper::Stopped => {}
        }
        if !matches!(candidate.leaving, Leaving::No | Leaving::Done) {
            candidate.down.push(Reply::LeavingFailed);
        }
    }

    /// The session ends, with its node and its announcement.
    pub(crate) fn expire(&mut self, party: Party) {
        (self.witness)(Witness::Expired);
        self.world.zxid += 1;
        self.world.queue.retain(|(owner, _)| *owner != party);
        if self.world.announcement.is_some_and(|found| found.maker == Some(party)) {
            self.world.change(None, 1);
        }
        let candidate = self.candidate(party);
        *candidate = Candidate { stage: Stage::Gone, expired: true, lapsed: true, ..Candidate::default() };
        candidate.leaving = Leaving::Done;
    }
}
