//! What leaders announced, and what observers were told.

use std::collections::BTreeMap;

use zklock::FencingToken;

use super::record::{Told, Who};
use crate::harness::Instant;

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announcements {
    /// By their values, of which no two are alike.
    pub(crate) values: BTreeMap<String, Announcement>,
    /// In the order in which it was heard, so that what one observer was told is in its order.
    pub(crate) told: Vec<Tale>,
    /// The observers that were not told who leads, or that nobody does, after all faults were over.
    pub(crate) uninformed: Vec<Who>,
}

/// A value that a candidate campaigned with, or that a leader proclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    /// Just before it could be announced.
    pub(crate) at: Instant,
    pub(crate) who: Who,
    /// Its leader's token; `None` if its candidate is not known to have led.
    pub(crate) token: Option<FencingToken>,
    /// Whether its candidate campaigned with it.
    pub(crate) is_campaign: bool,
}

/// What an observer was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tale {
    pub(crate) at: Instant,
    pub(crate) who: Who,
    /// Which one of its process's observers it was: a process opens another one with each session.
    pub(crate) observer: u32,
    /// `None` if nobody leads.
    pub(crate) leader: Option<Told>,
}

/// Collects them.
#[derive(Default)]
pub(crate) struct Collector {
    pub(crate) announcements: Announcements,
    /// The values that candidates campaign with at present.
    campaigning: BTreeMap<Who, String>,
    observers: BTreeMap<Who, u32>,
}

impl Collector {
    /// A candidate campaigns with this value.
    pub(crate) fn campaigns(&mut self, who: Who, at: Instant, value: &str) {
        self.campaigning.insert(who, value.to_owned());
        let announcement = Announcement { at, who, token: None, is_campaign: true };
        self.announcements.values.insert(value.to_owned(), announcement);
    }

    /// It leads, if it was a candidate.
    pub(crate) fn leads(&mut self, who: Who, token: Option<FencingToken>) {
        if let Some(value) = self.campaigning.remove(&who) {
            self.announcements.values.entry(value).and_modify(|announcement| announcement.token = token);
        }
    }

    /// It does not, or its process is gone.
    pub(crate) fn leaves(&mut self, who: Who) {
        self.campaigning.remove(&who);
    }

    /// The leader with this token proclaims another value.
    pub(crate) fn proclaims(&mut self, who: Who, at: Instant, value: &str, token: Option<FencingToken>) {
        let announcement = Announcement { at, who, token, is_campaign: false };
        self.announcements.values.insert(value.to_owned(), announcement);
    }

    /// A process opens another observer.
    pub(crate) fn observes(&mut self, who: Who) {
        *self.observers.entry(who).or_default() += 1;
    }

    pub(crate) fn tells(&mut self, who: Who, at: Instant, leader: Option<Told>) {
        let observer = self.observers.get(&who).copied().unwrap_or_default();
        self.announcements.told.push(Tale { at, who, observer, leader });
    }
}
