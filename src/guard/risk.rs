//! A guard at risk: it is held, and the heartbeats that extend its lease fail.
//!
//! No request is sent for it. A holder at risk is not told by the heartbeat that fails, because nobody knows of that one yet.
//! It sleeps until the next heartbeat must have succeeded, looks, and sleeps on. So a heartbeat that succeeds wakes only
//! holders at risk.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};

use super::lost::{Lost, LostReason};
use super::turn::Turn;

impl Turn {
    /// How long the guard is certainly not at risk; zero if it is at risk now. Each loss is a risk, too.
    fn calm(&self) -> Duration {
        let (held, lease) = (&self.held, self.held.shared_lease());
        // An end that was told to the holder is not put off any more. That by a `max_hold` never was to be.
        let is_told = held.fate.borrow().loss.is_some_and(|loss| loss.reason != LostReason::MaxHold);
        if held.seen() != lease.connection() || is_told || self.check().is_err() {
            return Duration::ZERO;
        }
        // The end by a `max_hold` is no risk: no heartbeat puts it off.
        let left = held.lease().unwrap_or_default();
        lease.calm().min(left.saturating_sub(lease.lengths().longest_stop_margin()))
    }

    /// Resolves once the guard is at risk, with how long it is still held.
    pub(super) async fn at_risk(self: Arc<Self>) -> Duration {
        self.when(|turn| match turn.calm() {
            Duration::ZERO => Ok(turn.remaining()),
            calm => Err(calm),
        })
        .await
    }

    /// Resolves once the guard is not at risk, or is lost.
    pub(super) async fn safe(self: Arc<Self>) -> Result<(), Lost> {
        let mut beaten = self.held.shared_lease().heartbeats();
        loop {
            beaten.mark_unchanged();
            let look = |turn: &Self| match turn.check() {
                Ok(()) if turn.calm().is_zero() => Err(turn.remaining()),
                checked => Ok(checked),
            };
            let (safe, beat) = (pin!(self.when(look)), pin!(beaten.changed()));
            if let Either::Left((safe, _)) = select(safe, beat).await {
                return safe;
            }
        }
    }

    /// Looks again whenever the lease, the turn or the loss changes, and after the pause for which a look asks.
    async fn when<T>(&self, look: impl Fn(&Self) -> Result<T, Duration>) -> T {
        let mut fate = self.held.fate.subscribe();
        let mut lease = self.held.shared_lease().changes();
        loop {
            let pause = match look(self) {
                Ok(seen) => return seen,
                Err(pause) => pause,
            };
            let timer = self.session().sleep(pause);
            let (fate, lease) = (pin!(fate.changed()), pin!(lease.changed()));
            let _which = select(select(fate, lease), pin!(timer)).await;
        }
    }
}
