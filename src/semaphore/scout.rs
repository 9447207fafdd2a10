//! Looks at a pool while an acquisition still waits in its turnstile.
//!
//! Once the contender before its predecessor is admitted, the predecessor holds the turnstile. So that is the time to look: the
//! answer mostly comes with the turnstile, and the [admission](zklock_recipe::admission) need not look then. If that contender
//! leaves in another way, others are before the predecessor, and a look would come too early. Then nobody looks before the grant.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock_recipe::admission::{Glimpse, Stated, second_ahead};

use super::statement::Statement;
use crate::joint::Joint;
use crate::mutex::Mutex;
use crate::requests::{self, OwnNode};
use crate::zk::{Answer, ZkSession};

/// What a look shows, and what our process states beside it. `None` if no server answered, or if the pool does not exist.
type Shown = Option<(Glimpse, Stated)>;

/// The look of one acquisition's present contender.
#[derive(Default)]
pub(super) struct Scout(Mutex<Option<Joint<Shown>>>);

impl Scout {
    /// Begins for this contender, and forgets what an earlier one saw. Resolves when the look is answered, or is not worth its
    /// request.
    pub(super) fn begin(
        self: Arc<Self>,
        session: &Arc<ZkSession>,
        own: OwnNode,
        statement: Arc<Statement>,
    ) -> BoxFuture<'static, ()> {
        *self.0.lock() = None;
        let session = session.clone();
        async move {
            // While acquisitions find no room at the grant, a look before the grant finds none, either.
            if statement.has_room.load(Ordering::Relaxed)
                && second(&session, &own).await
                && statement.has_room.load(Ordering::Relaxed)
            {
                let look = Joint::new(look(&session, own, statement));
                *self.0.lock() = Some(look.clone());
                look.await;
            }
        }
        .boxed()
    }

    /// The look, if it was sent.
    pub(super) fn take(&self) -> Option<Joint<Shown>> {
        self.0.lock().take()
    }
}

/// Resolves to true once the contender before our predecessor is admitted, so that our node is the second in the turnstile; to false
/// if nobody hears of that.
async fn second(session: &ZkSession, (queue, own): &OwnNode) -> bool {
    let Some(ahead) = second_ahead(own.place) else { return false };
    let path = queue.path.contender(ahead);
    let watch = session.requester.request(|wire| async move {
        let watch = requests::watch_release(wire.client.clone(), path).await;
        watch.map(|watch| watch.map(|watch| wire.keep(watch)))
    });
    match watch.await {
        Answer::Given(Ok(Some(watch)), _) => watch.await == Some(true),
        Answer::Given(Ok(None) | Err(_), _) | Answer::Lost | Answer::Over(_) => false,
    }
}

fn look(session: &ZkSession, own: OwnNode, statement: Arc<Statement>) -> BoxFuture<'static, Shown> {
    let changes = statement.changes();
    let permits = statement.permits.clone();
    let look =
        session.requester.request(move |wire| requests::glimpse_pool(wire.client, own, permits, wire.number));
    let shown = move |answer: Answer<Result<Option<Glimpse>, _>>| match answer {
        Answer::Given(Ok(Some(glimpse)), _) => {
            let stated = statement.beside(&glimpse.seen, changes);
            Some((glimpse, stated))
        }
        Answer::Given(..) | Answer::Lost | Answer::Over(_) => None,
    };
    look.map(shown).boxed()
}
