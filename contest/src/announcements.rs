//! What leaders announced, and what observers were told.

use std::collections::BTreeMap;

use zklock::FencingToken;

use crate::clock::Instant;
use crate::record::{Told, Who};

#[derive(Clone, Debug, Default)]
pub struct Announcements {
    /// By their values, of which no two are alike.
    pub values: BTreeMap<String, Announcement>,
    /// In the order in which it was heard, so that what one observer was told is in its order.
    pub told: Vec<Tale>,
    /// What observers were told that could not follow any more.
    pub blinded: Vec<String>,
}

/// A value that a candidate campaigned with, or that a leader proclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Just before it could be announced.
    pub at: Instant,
    pub who: Who,
    /// Its leader's token; `None` if its candidate is not known to have led.
    pub token: Option<FencingToken>,
    /// Whether its candidate campaigned with it.
    pub is_campaign: bool,
}

/// What an observer was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tale {
    pub at: Instant,
    pub who: Who,
    /// Which one of its process's observers it was: a process opens another one with each session.
    pub observer: u32,
    pub leader: Option<Told>,
}
