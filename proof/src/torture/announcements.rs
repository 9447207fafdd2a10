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
