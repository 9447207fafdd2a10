//! The handles that a test has on rules.

use std::sync::{Arc, Weak};

use super::rule::{Rule, Stage};
use super::shared::Shared;

/// The test's hold on a rule. Dropping it ends the rule.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) rule: Arc<Rule>,
    pub(super) link: Weak<Shared>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        match self.link.upgrade() {
            Some(link) => link.finish(&self.rule),
            None => self.rule.advance(Stage::Over),
        }
    }
}

/// A reply that will be, or was, lost: see [`Link::lose_reply`](crate::Link::lose_reply).
///
/// Dropping the handle before the loss calls it off.
#[derive(Debug)]
#[must_use = "dropping it calls the loss off"]
pub struct LostReply(pub(super) Owned);

/// A request or a reply that will be, or is, held back: see [`Link::hold_request`](crate::Link::hold_request) and
/// [`Link::hold_reply`](crate::Link::hold_reply).
///
/// Dropping the handle lets the message go on. If no such message came yet, none will be held.
#[derive(Debug)]
#[must_use = "dropping it releases the message"]
pub struct Held(pub(super) Owned);

impl LostReply {
    /// Resolves once the link has swallowed the reply and cut its connection. Cancelling it loses nothing.
    pub async fn happened(&self) {
        self.0.rule.wait_for(Stage::Reached).await;
    }

    /// Whether the reply is lost already. It is as soon as a client can notice.
    pub fn has_happened(&self) -> bool {
        self.0.rule.stage() >= Stage::Swallowed
    }
}

impl Held {
    /// Resolves once the message is held. Of a request, the client has sent it and the server does not know. Of a reply, the
    /// server has answered and the client does not know. Cancelling this loses nothing.
    pub async fn reached(&self) {
        self.0.rule.wait_for(Stage::Reached).await;
    }

    /// Lets the message, and all that came after it, go on.
    pub fn release(self) {}
}
