//! What a client process is told at its start, and the lines that it says and hears then.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zklock_contest::contender::{self, Order, Pace};
use zklock_contest::member::Member;
use zklock_contest::members::rules;
use zklock_contest::record::Record;
use zklock_contest::register::{Answer, Call};

/// What every contender asks for.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

pub(crate) const PACE: Pace = Pace {
    timeout: SESSION_TIMEOUT,
    think: Duration::from_millis(150),
    hold: Duration::from_millis(40),
    longest: Duration::from_secs(8),
    round: Duration::from_millis(30),
    look: Duration::from_millis(1),
    dawdles: 12,
    outlasts: false,
    last_turns: u32::MAX,
};

/// A line of a client process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    Record(Record),
    /// It calls the register of a member's lock.
    Call(Member, usize, Call),
}

/// A line to a client process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Told {
    Order(Order),
    /// To its first call that was not answered.
    Answer(Answer),
}

/// The same for all clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// What is contended for.
    pub(crate) members: Vec<Member>,
    /// The takeover delay of zklock's contenders in a queue that another client shares.
    pub(crate) delay: Duration,
    /// The library that slews the clocks of a process.
    pub(crate) shim: PathBuf,
}

/// The part of one client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Which one it is, from 1.
    pub(crate) number: u16,
    pub(crate) servers: String,
    pub(crate) seed: u64,
    pub(crate) setup: Setup,
}

impl Part {
    /// What the client does for one member.
    pub(crate) fn of(&self, member: Member) -> contender::Part {
        let Self { number: client, servers, seed, setup, .. } = self.clone();
        let (tasks, seed) = ((rules(member).tasks)(client), seed.wrapping_add(member as u64 * 1_009));
        let delay = if member == Member::Queue { setup.delay } else { Duration::ZERO };
        contender::Part { member, client, tasks, seed, pace: PACE, servers, delay }
    }
}
