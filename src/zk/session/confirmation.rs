//! One question to a quorum, for all contenders of a session that are granted together. A session without a guard does
//! not extend its lease. So if its contenders have waited for long, the lease must be confirmed before a grant: once,
//! and not once for each of a thousand readers.

use std::sync::Arc;

use futures::FutureExt;

use crate::joint::{Joint, WeakJoint};
use crate::mutex::Mutex;
use crate::requests;
use crate::zk::connection::link::{LinkAnswer, Requester};
use crate::zk::shared_lease::SharedLease;

/// Asks a quorum to confirm the lease. Returns whether one has answered.
pub(super) async fn confirm(lease: Arc<SharedLease>, requester: Requester) -> bool {
    match requester.request(|wire| requests::heartbeat(wire.client)).await {
        LinkAnswer::Given(true, sent) => {
            lease.confirmed(sent);
            true
        }
        LinkAnswer::Given(false, _) | LinkAnswer::Lost | LinkAnswer::Over(_) => false,
    }
}

/// The question of one session that is under way, if any. Only those who await it hold it. It resolves to whether
/// a quorum has answered.
#[derive(Default)]
pub(super) struct Confirmation(Mutex<Option<WeakJoint<bool>>>);

impl Confirmation {
    /// Joins the question that is under way, or asks another one.
    pub(super) fn join(&self, lease: &Arc<SharedLease>, requester: &Requester) -> Joint<bool> {
        let mut present = self.0.lock();
        present.as_ref().and_then(WeakJoint::upgrade).unwrap_or_else(|| {
            let asked = Joint::new(confirm(lease.clone(), requester.clone()).boxed());
            *present = Some(asked.downgrade());
            asked
        })
    }
}
