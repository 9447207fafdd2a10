//! What a recipe for a lock has to offer.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use zklock::{FencingToken, Sequencer};

use crate::torture::record::{Leaving, Who};
use crate::torture::wish::{Claim, Wish};

/// For how long to wait for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    Endless,
    Within(Duration),
    /// For nobody.
    None,
}

/// What came of an acquisition.
pub(super) type Acquired = Result<Box<dyn Hold>, Leaving>;

/// A session, by which tasks contend for locks.
pub(super) trait Contest: Send + Sync {
    /// Acquires what is wished for, with this takeover delay.
    fn acquire<'a>(
        &'a self,
        who: Who,
        wish: &'a Wish,
        delay: Duration,
        patience: Patience,
    ) -> BoxFuture<'a, Acquired>;

    /// How often the session's acquisitions have queued again.
    fn requeued(&self) -> u64;

    /// Whether this claim is current, by the word of the servers. Without an answer it counts as not.
    fn is_current<'a>(&'a self, _claim: &'a Sequencer) -> BoxFuture<'a, bool> {
        ready(false).boxed()
    }

    /// Ends the session.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The locks of one guard, held or lost.
pub(super) trait Hold: Send + Sync {
    fn session(&self) -> i64;

    /// The fencing token, if the recipe has such.
    fn token(&self) -> Option<FencingToken>;

    /// The holder's nodes, in the order in which the locks were named.
    fn nodes(&self) -> Vec<String>;

    /// What it holds, if the wish does not say so.
    fn claims(&self) -> Option<Vec<Claim>> {
        None
    }

    /// Whether it is held; otherwise why not.
    fn check(&self) -> Result<(), String>;

    /// For how long it is held at the least, if the recipe says so.
    fn remaining(&self) -> Option<Duration>;

    /// Announces another value. `None` if it is a lock, which announces nothing.
    fn proclaim(&self, _value: String) -> Option<BoxFuture<'_, Result<(), String>>> {
        None
    }

    /// Another guard of the same hold, if the recipe has such.
    fn share(&self) -> Option<Box<dyn Hold>> {
        None
    }

    /// A claim that others can check, if the recipe has such and the guard is not gone.
    fn claim(&self) -> Option<Sequencer> {
        None
    }

    /// Creates a node by a transaction under the lock, if the recipe has such. Returns whether the node is there; `None` if that is not known.
    fn enter(&self, _path: String) -> Option<BoxFuture<'_, Option<bool>>> {
        None
    }

    /// Says why, if it is not confirmed.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), String>>;
}
