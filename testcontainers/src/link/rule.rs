//! What is to happen to one particular request or reply.

use std::sync::Arc;

use tokio::sync::watch;

use super::kind::RequestKind;

/// What a rule does to the request it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    HoldRequest,
    HoldReply,
    LoseReply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Armed,
    /// The reply is lost, and its connection is about to be cut.
    Swallowed,
    Reached,
    /// Released, or given up by its owner.
    Over,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) kind: RequestKind,
    pub(super) action: Action,
    stage: watch::Sender<Stage>,
}

impl Rule {
    pub(super) fn new(kind: RequestKind, action: Action) -> Arc<Self> {
        Arc::new(Self { kind, action, stage: watch::Sender::new(Stage::Armed) })
    }

    pub(super) async fn wait_for(&self, stage: Stage) {
        // An error would mean that the sender is gone, and `self` keeps it.
        let _ = self.stage.subscribe().wait_for(|it| *it >= stage).await;
    }

    pub(super) fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    /// Stages only go forward.
    pub(super) fn advance(&self, to: Stage) {
        self.stage.send_if_modified(|stage| {
            let forward = *stage < to;
            *stage = (*stage).max(to);
            forward
        });
    }
}
