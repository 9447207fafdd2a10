//! The handles that a test has on rules.

use std::sync::{Arc, Weak};

use super::{
    rule::{Rule, Stage},
    shared::Shared,
};

/// The test's hold on a rule; giving it up ends the rule.
#[derive(Debug)]
struct Owned {
    rule: Arc<Rule>,
    link: Weak<Shared>,
}

impl Owned {
    async fn reached(&self) {
        self.rule.wait_for(Stage::Reached).await;
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
    /// A reply that will be, or was, lost: see [`Link::lose_reply`](crate::Link::lose_reply).
    ///
    /// Dropping it before it happened calls the loss off.
    #[must_use = "dropping it calls the loss off"]
    LostReply
}

handle! {
    /// A reply that will be, or is, held back: see [`Link::hold_reply`](crate::Link::hold_reply).
    ///
    /// Dropping it lets the reply go, or calls the hold off if no such reply came yet.
    #[must_use = "dropping it releases the reply"]
    HeldReply
}

handle! {
    /// A request that will be, or is, held back: see [`Link::hold_request`](crate::Link::hold_request).
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
