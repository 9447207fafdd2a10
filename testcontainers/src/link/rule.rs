//! What is to happen to one particular request or reply, and the handles tests have on it.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::{RequestKind, Shared};

/// What a rule does to the request it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    HoldRequest,
    HoldReply,
    LoseReply,
}

/// How far a rule has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Armed,
    Reached,
    /// Released, or given up by its owner.
    Over,
}

/// A rule for the next request of one kind.
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

/// The test's hold on a rule; giving it up ends the rule.
#[derive(Debug)]
struct Owned {
    rule: Arc<Rule>,
    link: Weak<Shared>,
}

impl Owned {
    async fn reached(&self) {
        // An error would mean the sender is gone, and this handle keeps it.
        let _ = self.rule.stage.subscribe().wait_for(|stage| *stage >= Stage::Reached).await;
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        match self.link.upgrade() {
            Some(link) => link.finish(&self.rule),
            None => self.rule.advance(Stage::Over),
        }
    }
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(Owned);

        impl $name {
            pub(super) fn new(rule: Arc<Rule>, link: Weak<Shared>) -> Self {
                Self(Owned { rule, link })
            }
        }
    };
}

handle! {
    /// A reply that will be, or was, lost: see [`Link::lose_reply`](super::Link::lose_reply).
    ///
    /// Dropping it before it happened calls the loss off.
    #[must_use = "dropping it calls the loss off"]
    LostReply
}

handle! {
    /// A reply that will be, or is, held back: see [`Link::hold_reply`](super::Link::hold_reply).
    ///
    /// Dropping it lets the reply go, or calls the hold off if no such reply came yet.
    #[must_use = "dropping it releases the reply"]
    HeldReply
}

handle! {
    /// A request that will be, or is, held back: see [`Link::hold_request`](super::Link::hold_request).
    ///
    /// Dropping it lets the request go, or calls the hold off if no such request came yet.
    #[must_use = "dropping it releases the request"]
    HeldRequest
}

impl LostReply {
    /// Resolves once the reply is swallowed and its connection cut. Cancel-safe.
    pub async fn happened(&self) {
        self.0.reached().await;
    }

    /// Whether it happened already.
    pub fn has_happened(&self) -> bool {
        self.0.rule.stage() >= Stage::Reached
    }
}

impl HeldReply {
    /// Resolves once the reply is held: the server has answered, the client does not know. Cancel-safe.
    pub async fn reached(&self) {
        self.0.reached().await;
    }

    /// Whether a reply is held already.
    pub fn is_reached(&self) -> bool {
        self.0.rule.stage() >= Stage::Reached
    }

    /// Lets the reply, and all that came after it, go on to the client.
    pub fn release(self) {}
}

impl HeldRequest {
    /// Resolves once the request is held: the client has sent it, the server does not know. Cancel-safe.
    pub async fn reached(&self) {
        self.0.reached().await;
    }

    /// Whether a request is held already.
    pub fn is_reached(&self) -> bool {
        self.0.rule.stage() >= Stage::Reached
    }

    /// Lets the request, and all that came after it, go on to the server.
    pub fn release(self) {}
}
