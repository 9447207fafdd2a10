//! The history of a lock's holders, as far as looks at its queue show it.
//!
//! Looks go in, and changes of the holder come out. The code knows no clock and no connection. It invents nothing about the
//! time between two looks:
//!
//! 1. A contender is its number and its token. Numbers begin anew with the lock's directory. A token is unknown if an ACL
//!    hides the node.
//! 2. Tokens rise in the order of the grants. If the holder of a look has a lower token than an earlier holder, the look is
//!    outdated: it came from a server that lags, after a reconnect. Such a look is ignored.
//! 3. The lock goes by the order of the numbers. Only nodes of other clients leave gaps between them. A contender that held
//!    the lock between two looks stood between the two holders, or has come and gone and left a gap.
//! 4. A holder was seen from its beginning if another look was shortly before. If not, it has held the lock at least for the
//!    time between the looks that saw it.
//! 5. Readers hold the lock together. As long as one of them holds it, the lock was not handed over. They are named by the
//!    first reader that was seen, with the number of the others.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use crate::queue::{Entry, holders};

/// How many changes are kept.
const LONGEST: usize = 256;

/// If two looks are further apart than this, the time of a change between them is unknown.
const FAR: Duration = Duration::from_secs(2);

/// The history so far.
#[derive(Debug, Default)]
pub(super) struct History {
    state: State,
    /// The queue of the last look.
    queue: Vec<Place>,
    /// The highest number in the last look that saw a contender.
    highest: Option<i32>,
    looked: Option<Timestamp>,
    handoffs: VecDeque<Handoff>,
}

#[derive(Debug, Default)]
enum State {
    /// No look yet.
    #[default]
    Unseen,
    /// Nobody holds the lock; the last holder, if there was one.
    Free(Option<Tenure>),
    Held(Tenure),
}

/// The identity of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    sequence: Option<i32>,
    token: Option<i64>,
}

/// The time in which one contender, or several readers, hold the lock without a break.
#[derive(Clone, Debug)]
struct Tenure {
    /// The first of those that held it at the last look.
    first: Place,
    /// All of those.
    places: Vec<Place>,
    /// The first of those that were seen.
    owner: String,
    /// How many others were seen.
    others: usize,
    since: Timestamp,
    from_start: bool,
}

/// How long the lock was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Length {
    pub(super) seen: Duration,
    /// Whether the lock may have been held before or after that as well.
    pub(super) at_least: bool,
}

/// One change of the holder. The lock may be free before it or after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Handoff {
    /// The time of the look that saw it.
    pub(super) at: Timestamp,
    /// The owners, as text; `None` if the lock was free.
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    /// Whether others may have held the lock between these two.
    pub(super) others: bool,
    /// How long the earlier holder held the lock.
    pub(super) held: Option<Length>,
}

impl History {
    /// Takes in a look at the queue.
    pub(super) fn look(&mut self, at: Timestamp, queue: &[Entry]) {
        let holders = holders(queue);
        if holders.first().is_some_and(|first| self.is_past(first)) {
            return;
        }
        let near = self.looked.is_some_and(|looked| between(looked, at) <= FAR);
        let next = Tenure::new(holders, at, near);
        self.state = match (std::mem::take(&mut self.state), next) {
            (State::Unseen, None) => State::Free(None),
            (State::Unseen, Some(next)) => State::Held(next),
            (State::Held(tenure), Some(next)) if tenure.goes_on_in(&next) => State::Held(tenure.with(&next)),
            (State::Free(Some(tenure)), Some(next)) if tenure.goes_on_in(&next) => {
                // No node holds a lock twice, so the look that saw no holder was outdated.
                self.handoffs.pop_front();
                State::Held(tenure.with(&next))
            }
            (State::Free(last), None) => State::Free(last),
            (State::Free(_), Some(next)) => {
                self.hand_over(at, near, None, Some(&next));
                State::Held(next)
            }
            (State::Held(tenure), Some(next)) => {
                self.hand_over(at, near, Some(&tenure), Some(&next));
                State::Held(next)
            }
            (State::Held(tenure), None) => {
                self.hand_over(at, near, Some(&tenure), None);
                State::Free(Some(tenure))
            }
        };
        self.queue = queue.iter().map(place).collect();
        self.highest = queue.iter().filter_map(|entry| entry.sequence).max().or(self.highest);
        self.looked = Some(at);
    }

    /// The changes, the latest first.
    pub(super) fn handoffs(&self) -> impl Iterator<Item = &Handoff> {
        self.handoffs.iter()
    }

    /// How long the present holder has held the lock.
    pub(super) fn holding(&self, now: Timestamp) -> Option<Length> {
        match &self.state {
            State::Held(tenure) => {
                Some(Length { seen: between(tenure.since, now), at_least: !tenure.from_start })
            }
            State::Unseen | State::Free(_) => None,
        }
    }

    fn is_past(&self, entry: &Entry) -> bool {
        match &self.state {
            State::Held(last) | State::Free(Some(last)) => {
                entry.token.zip(last.first.token).is_some_and(|(token, last)| token < last)
            }
            State::Unseen | State::Free(None) => false,
        }
    }

    /// A look saw other holders. `near` says whether there was another look shortly before.
    fn hand_over(&mut self, at: Timestamp, near: bool, from: Option<&Tenure>, to: Option<&Tenure>) {
        let held = from.map(|tenure| {
            let last = if near { at } else { self.looked.unwrap_or(at) };
            Length { seen: between(tenure.since, last), at_least: !(near && tenure.from_start) }
        });
        let handoff = Handoff {
            at,
            from: from.map(Tenure::text),
            to: to.map(Tenure::text),
            others: self.others(from, to),
            held,
        };
        self.handoffs.push_front(handoff);
        self.handoffs.truncate(LONGEST);
    }

    /// Whether another contender can have held the lock since the last look.
    fn others(&self, from: Option<&Tenure>, to: Option<&Tenure>) -> bool {
        let held = |waiter: &Place| from.is_some_and(|from| from.places.contains(waiter));
        let mut waited = self.queue.iter().filter(|waiter| !held(waiter));
        let Some(to) = to.map(|to| to.first) else { return waited.next().is_some() };
        match waited.next() {
            Some(next) => *next != to,
            // The new holder came after the last look. With the next number it was the first to come.
            None => self.highest.is_some_and(|highest| to.sequence != highest.checked_add(1)),
        }
    }
}

impl Tenure {
    /// `None` if nobody holds the lock.
    fn new(holders: &[Entry], at: Timestamp, from_start: bool) -> Option<Self> {
        let first = holders.first()?;
        let (places, others) = (holders.iter().map(place).collect(), holders.len() - 1);
        Some(Self { first: place(first), places, owner: first.owner_text(), others, since: at, from_start })
    }

    /// Whether one of those that held the lock holds it still.
    fn goes_on_in(&self, next: &Self) -> bool {
        self.places.iter().any(|place| next.places.contains(place))
    }

    /// The same tenure, with those that hold the lock now.
    fn with(self, next: &Self) -> Self {
        let new = next.places.iter().filter(|place| !self.places.contains(place)).count();
        Self { first: next.first, places: next.places.clone(), others: self.others + new, ..self }
    }

    fn text(&self) -> String {
        match self.others {
            0 => self.owner.clone(),
            1 => format!("{} and another reader", self.owner),
            others => format!("{} and {others} other readers", self.owner),
        }
    }
}

fn place(entry: &Entry) -> Place {
    Place { sequence: entry.sequence, token: entry.token }
}

/// Zero if the clock was set back.
fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
