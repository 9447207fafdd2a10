//! One question to a quorum, for all contenders of a session that are granted together. A session without a guard does
//! not extend its lease. So if its contenders have waited for long, the lease must be confirmed before a grant: once,
//! and not once for each of a thousand readers.

use futures::FutureExt;

use crate::joint::{Joint, WeakJoint};
use crate::mutex::Mutex;
use crate::requests;
use crate::wire::link::{LinkAnswer, Requester};

/// Asks a quorum to confirm the lease. Returns whether one has answered.
pub(super) async fn confirm(requester: Requester) -> bool {
    let asked = requester.request(|wire| requests::heartbeat(wire.client));
    matches!(asked.await, LinkAnswer::Given(Ok(_), _))
}

/// The question of one session that is under way, if any. Only those who await it hold it. It resolves to whether
/// a quorum has answered.
#[derive(Default)]
pub(super) struct Confirmation(Mutex<Option<WeakJoint<bool>>>);

impl Confirmation {
    /// Joins the question that is under way, or asks another one.
    pub(super) fn join(&self, requester: &Requester) -> Joint<bool> {
        let mut present = self.0.lock();
        present.as_ref().and_then(WeakJoint::upgrade).unwrap_or_else(|| {
            let asked = Joint::new(confirm(requester.clone()).boxed());
            *present = Some(asked.downgrade());
            asked
        })
    }
}
