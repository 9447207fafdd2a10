//! What a recipe for a lock has to offer.

use std::time::Duration;

use futures::future::BoxFuture;

use crate::torture::record::{Leaving, Who};

/// A session, by which tasks contend for the lock.
pub(super) trait Contest: Send + Sync {
    /// Waits for as long as it takes, or for as long as is given; with this takeover delay.
    fn acquire(
        &self,
        who: Who,
        delay: Duration,
        limit: Option<Duration>,
    ) -> BoxFuture<'_, Result<Box<dyn Hold>, Leaving>>;

    /// Waits for nobody.
    fn try_acquire(&self, who: Who) -> BoxFuture<'_, Result<Box<dyn Hold>, Leaving>>;

    /// How often the session's acquisitions have queued again.
    fn requeued(&self) -> u64;

    /// Ends the session.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The lock, held or lost.
pub(super) trait Hold: Send + Sync {
    fn session(&self) -> i64;

    /// The fencing token, if the recipe has such.
    fn token(&self) -> Option<i64>;

    /// The holder's node.
    fn node(&self) -> String;

    /// Whether it is held; otherwise why not.
    fn check(&self) -> Result<(), String>;

    /// For how long it is held at the least, if the recipe says so.
    fn remaining(&self) -> Option<Duration>;

    /// Says why, if it is not confirmed.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), String>>;
}
