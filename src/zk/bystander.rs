//! What only looks on: it uses one ZooKeeper session after the other, and keeps none of them open.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::session::Line;
use super::state::SessionEvent;
use super::succession::Succession;

/// Looks on at a succession without keeping it open.
pub(crate) struct Bystander {
    succession: Weak<Succession>,
    news: watch::Receiver<SessionEvent>,
}

impl Bystander {
    pub(crate) fn new(succession: &Arc<Succession>) -> Self {
        Self { succession: Arc::downgrade(succession), news: succession.news() }
    }

    /// Waits for a ZooKeeper session that is not known to have ended. Returns `None` after a final state, or once nobody
    /// uses the succession any more.
    pub(crate) async fn line(&mut self) -> Option<Line> {
        loop {
            // The state is marked as seen first, so every change after this look wakes this task.
            if self.news.borrow_and_update().state.is_final() {
                return None;
            }
            let present = self.succession.upgrade()?.present();
            if present.lease().end().is_none() {
                return Some(present.line());
            }
            drop(present);
            self.news.changed().await.ok()?;
        }
    }
}
