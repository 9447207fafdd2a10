//! What an acquisition does beside its drivers.

use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::attended::{Attended, Work};
use crate::joint::Joint;
use crate::zk::ZkSession;

/// Awaits what an acquisition does under the guard that it has: `future` owns the guard, and gives back what it holds when it is
/// dropped. `None` if the caller did not poll it when it should have: then it was dropped, as if the caller had gone.
pub(crate) async fn attend<T: 'static>(
    session: &ZkSession,
    path: String,
    future: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let stages = Stages { future: future.boxed(), path };
    Attended::new(session, stages).await.map(|(_, output)| output)
}

/// The stages of an acquisition, as work with a caller.
struct Stages<T> {
    future: BoxFuture<'static, T>,
    /// For messages.
    path: String,
}

impl<T: 'static> Work for Stages<T> {
    type Output = T;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        self.future.poll_unpin(cx)
    }

    fn abandon(self) {}

    /// A stage that waits looks again by itself.
    fn doubt(&mut self) {}

    fn paths(&self) -> String {
        self.path.clone()
    }
}

/// Has the session finish this in its background, whether or not anybody awaits what comes of it. It writes what outlasts the
/// session.
pub(crate) fn finish_write<T: Clone + Send + 'static>(
    session: &ZkSession,
    future: impl Future<Output = T> + Send + 'static,
) -> Joint<T> {
    let joint = Joint::new(future.boxed());
    session.finish_leaving(joint.clone().map(drop).boxed());
    joint
}
