//! What each world supplies to its contenders.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zklock::Guard;
use zklock::session::SessionBuilder;

use super::held::Held;
use crate::clock::Instant;
use crate::member::Member;
use crate::members::rules;
use crate::record::{Record, Who};
use crate::register::{Answer, Call};

pub trait World: Clone + Send + Sync + 'static {
    /// This instant, by the clock by which all contenders are compared.
    fn now(&self) -> Instant;

    /// Hands on what a contender says. It goes on once this returns.
    fn say(&self, record: Record);

    /// Calls the register of a lock. If the call is dropped, it may be carried out all the same.
    fn call(&self, member: Member, lock: usize, call: Call) -> impl Future<Output = Answer> + Send;

    /// A session that is still to be opened.
    fn session(&self) -> SessionBuilder;

    /// A contender has this guard now. A world that can look into its processes may ask it, as long as the contender has it.
    fn holds(&self, _who: Who, _guard: &Arc<Held>) {}

    /// The session of this process has this guard beside those of its contenders since then.
    fn witnesses(&self, _who: Who, _since: Instant, _guard: &Arc<Guard>) {}

    /// How much a member's pool has, as far as contenders know.
    fn capacity(&self, member: Member) -> u32 {
        rules(member).capacity
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Pace {
    /// The session timeout. Patience is measured by it.
    pub timeout: Duration,
    /// The longest pause between two acquisitions.
    pub think: Duration,
    /// The longest of three holds in four.
    pub hold: Duration,
    /// The longest of all holds, unless its holder is told to stay.
    pub longest: Duration,
    /// The longest time from one read of the register to the write that follows.
    pub round: Duration,
    /// How often a holder looks at its guard.
    pub look: Duration,
    /// One call in so many is not polled for a while.
    pub dawdles: u32,
    /// Whether some of these last for longer than zklock waits for anybody.
    pub outlasts: bool,
    /// How often each contender has to be granted after all faults are undone, at most: the member may ask for less.
    pub last_turns: u32,
}
