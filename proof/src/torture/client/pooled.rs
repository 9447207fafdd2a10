//! Permits and slots of zklock.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock::{FencingToken, Guard, Permit, Slot};

use super::contest::Hold;
use crate::torture::wish::Claim;

pub(super) struct Pooled<K> {
    guard: Guard<K>,
    session: i64,
    node: String,
    claim: Claim,
}

impl Pooled<zklock::guard::Weighted> {
    pub(super) fn permit(guard: Permit, session: i64) -> Self {
        Self { session, node: guard.node(), claim: Claim::shared(0), guard }
    }
}

impl Pooled<zklock::guard::Indexed> {
    pub(super) fn slot(guard: Slot, session: i64) -> Self {
        Self { session, node: guard.node(), claim: Claim::exclusive(guard.index() as usize), guard }
    }
}

impl<K: Send + Sync + 'static> Hold for Pooled<K> {
    fn session(&self) -> i64 {
        self.session
    }

    fn token(&self) -> Option<FencingToken> {
        Some(self.guard.token())
    }

    fn nodes(&self) -> Vec<String> {
        vec![self.node.clone()]
    }

    fn claims(&self) -> Option<Vec<Claim>> {
        Some(vec![self.claim])
    }

    fn check(&self) -> Result<(), String> {
        self.guard.check().map_err(|lost| lost.reason.to_string())
    }

    fn remaining(&self) -> Option<Duration> {
        Some(self.guard.remaining())
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), String>> {
        async { self.guard.release().await.map_err(|error| error.to_string()) }.boxed()
    }
}
