//! A guard at risk: it is held, and the heartbeats that extend its lease fail.
//!
//! No request is sent for it. A holder at risk is not told by the heartbeat that fails, because nobody knows of that one yet.
//! It sleeps until the next heartbeat must have succeeded, looks, and sleeps on. So a heartbeat that succeeds wakes only
//! holders at risk.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};

use super::hold::turn::Turn;
use super::lost::{Lost, LostReason};

impl Turn {
    /// How long the guard is certainly not at risk; zero if it is at risk now. Each loss is a risk, too.
    fn calm(&self) -> Duration {
        let held = &self.held;
        let lease = self.held.shared_lease();
        // Once the holder has been told of an end, the end is final. An end by `max_hold` is always final, and no risk.
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
        self.held
            .when(|| match self.calm() {
                Duration::ZERO => Ok(self.remaining()),
                calm => Err(calm),
            })
            .await
    }

    /// Resolves once the guard is not at risk, or is lost.
    pub(super) async fn safe(self: Arc<Self>) -> Result<(), Lost> {
        let mut beaten = self.held.shared_lease().heartbeats();
        loop {
            beaten.mark_unchanged();
            let look = || match self.check() {
                Ok(()) if self.calm().is_zero() => Err(self.remaining()),
                checked => Ok(checked),
            };
            let safe = pin!(self.held.when(look));
            let beat = pin!(beaten.changed());
            if let Either::Left((safe, _)) = select(safe, beat).await {
                return safe;
            }
        }
    }
}
