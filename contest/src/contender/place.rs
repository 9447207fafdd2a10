//! Where a contender contends: its part, and its world.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::world::{Pace, World};
use crate::clock::Instant;
use crate::member::Member;
use crate::members::{Rules, rules};
use crate::record::{Event, Record, Who};

/// The part of one process in the contest for one member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    pub member: Member,
    /// Which process it is, from 1.
    pub client: u16,
    /// How many tasks contend in it, on one session.
    pub tasks: u16,
    pub seed: u64,
    pub pace: Pace,
    /// The servers, as the other client knows them.
    pub servers: String,
    /// The takeover delay of zklock's contenders.
    pub delay: Duration,
}

impl Part {
    pub fn rules(&self) -> &'static Rules {
        rules(self.member)
    }

    /// Whether its contenders are another client's.
    pub fn is_foreign(&self) -> bool {
        (self.rules().is_foreign)(self.client)
    }

    pub fn contenders(&self) -> impl Iterator<Item = Who> + use<> {
        let client = self.client;
        (1..=self.tasks).map(move |task| Who { client, task })
    }
}

#[derive(Clone)]
pub struct Place<W> {
    pub world: W,
    pub part: Arc<Part>,
}

impl<W: World> Place<W> {
    pub fn say(&self, who: Who, event: Event) {
        self.say_at(self.world.now(), who, event);
    }

    pub fn say_at(&self, at: Instant, who: Who, event: Event) {
        self.world.say(Record { at, member: self.part.member, who, event });
    }
}
