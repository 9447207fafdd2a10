//! The servers, as candidates ask them: the queue and the announcement are always up to date.

use zklock_recipe::Footing;

use crate::candidate::Candidate;
use crate::run::Run;
use crate::world::{Announcement, Breach, Mutant, Party, Witness};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    /// A transaction that takes effect only while our node is there.
    Announce {
        value: u8,
        replace: bool,
    },
    Look(Footing),
    /// Our node, and the announcement with it. It is a release, or a deletion.
    Leave {
        carry: bool,
        release: bool,
    },
    /// Does our node exist?
    Recover,
    Read,
    /// The announcement, if it has this version. This one was read.
    Delete {
        version: u8,
        read: i64,
    },
}

impl Request {
    pub(crate) fn is_write(&self) -> bool {
        matches!(self, Self::Announce { .. } | Self::Leave { .. } | Self::Delete { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Announced(Announced),
    Looked(Option<Announcement>),
    /// The server refuses the read of the look.
    Hidden,
    /// To a release, or to a deletion.
    Left(bool, Left),
    Recovered(bool),
    Read(Option<Announcement>),
    Deleted,
    /// Somebody wrote to the announcement after it was read.
    Written,
}

/// What became of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Announced {
    Done,
    /// Our node is gone, or somebody has written to it.
    NotHeld,
    /// A node is there that was not to be replaced, or none that was.
    Contested,
    Refused,
}

/// What became of a release or a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Left {
    Alone,
    /// The announcement is gone, too.
    Together,
    /// Our node was gone before.
    Missing,
    /// The announcement is not there.
    InTheWay,
}

impl<W: Fn(Witness)> Run<'_, W> {
    /// The server carries a request out.
    pub(crate) fn serve(&mut self, party: Party, request: Request) -> Reply {
        let found = self.world.announcement;
        match request {
            Request::Announce { value, replace } => {
                Reply::Announced(self.serve_announce(party, value, replace))
            }
            Request::Look(footing) => {
                let candidate = &mut self.world.candidates[party];
                if footing == Footing::Unwatched {
                    candidate.watches = true;
                    (candidate.dirty, candidate.withheld) = (false, false);
                }
                Reply::Looked(found)
            }
            Request::Leave { carry, release } => Reply::Left(release, self.serve_leave(party, carry)),
            Request::Recover => {
                let is_there = self.world.node(party).is_some();
                if !is_there {
                    (self.witness)(Witness::ReleaseFoundDone);
                }
                Reply::Recovered(is_there)
            }
            Request::Read => Reply::Read(found),
            Request::Delete { version, read } => match found {
                None => Reply::Deleted,
                Some(found) if found.version != version => Reply::Written,
                Some(found) => {
                    let ours = found.maker == Some(party);
                    (self.witness)(if ours { Witness::Retracted } else { Witness::RetractedAnothers });
                    if !ours && found.zxid == read {
                        self.world.breach(Breach::TookAnothersAnnouncement);
                    }
                    self.world.zxid += 1;
                    self.world.change(None, 1);
                    Reply::Deleted
                }
            },
        }
    }

    /// The server refuses a request, as its ACL says at that moment.
    pub(crate) fn refuse(&mut self, party: Party, request: Request) -> Reply {
        self.world.faults.refusals -= 1;
        match request {
            Request::Announce { .. } => {
                (self.witness)(Witness::Refused);
                Reply::Announced(Announced::Refused)
            }
            _ => {
                (self.witness)(Witness::Hidden);
                // The watch is set, and reports nothing that the session may not read.
                let candidate = &mut self.world.candidates[party];
                (candidate.watches, candidate.withheld) = (true, true);
                Reply::Hidden
            }
        }
    }

    fn serve_announce(&mut self, party: Party, value: u8, replace: bool) -> Announced {
        if !self.world.is_held(party) && !self.is(Mutant::AnnouncesWithoutTheCheck) {
            (self.witness)(Witness::AnnouncementRefusedByTheCheck);
            return Announced::NotHeld;
        }
        match self.world.announcement {
            found if found.is_some() != replace => return Announced::Contested,
            Some(found) if found.maker != Some(party) => (self.witness)(Witness::LeftoverReplaced),
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
        Announced::Done
    }

    fn serve_leave(&mut self, party: Party, carry: bool) -> Left {
        if self.world.node(party).is_none() {
            return Left::Missing;
        }
        let left = match self.world.announcement {
            None if carry => return Left::InTheWay,
            Some(found) if carry => {
                (self.witness)(Witness::ResignedWithAnnouncement);
                if found.maker.is_some_and(|maker| maker != party && self.world.node(maker).is_some()) {
                    self.world.breach(Breach::TookAnothersAnnouncement);
                }
                self.world.zxid += 1;
                self.world.change(None, 1);
                Left::Together
            }
            _ => {
                (self.witness)(Witness::ResignedBare);
                self.world.zxid += 1;
                Left::Alone
            }
        };
        self.world.queue.retain(|(owner, _)| *owner != party);
        left
    }

    /// The session ends, with its node and its announcement.
    pub(crate) fn expire(&mut self, party: Party) {
        (self.witness)(Witness::Expired);
        self.world.zxid += 1;
        self.world.queue.retain(|(owner, _)| *owner != party);
        if self.world.announcement.is_some_and(|found| found.maker == Some(party)) {
            self.world.change(None, 1);
        }
        self.world.candidates[party] = Candidate::expired();
    }
}
