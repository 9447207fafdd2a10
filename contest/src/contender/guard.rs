//! What guards of all kinds have in common.

use std::time::Duration;

use futures::future::BoxFuture;
use zklock::ask::Asks;
use zklock::{FencingToken, Guard};

pub trait AnyGuard {
    fn token(&self) -> Option<FencingToken>;

    /// The holder's nodes, in the order in which the locks were named.
    fn nodes(&self) -> Vec<String>;

    /// Whether it is held; otherwise why not.
    fn check(&self) -> Result<(), String>;

    /// The same, by the word of a quorum, if its client asks one.
    fn verify(&self) -> BoxFuture<'_, Result<(), String>>;

    fn lost(&self) -> BoxFuture<'static, String>;

    fn remaining(&self) -> Option<Duration>;

    fn asks(&self) -> Option<Asks>;
}

impl<K: 'static> AnyGuard for Guard<K> {
    fn token(&self) -> Option<FencingToken> {
        Some(self.token())
    }

    fn nodes(&self) -> Vec<String> {
        self.nodes().collect()
    }

    fn check(&self) -> Result<(), String> {
        self.check().map_err(|lost| lost.reason.to_string())
    }

    fn verify(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { self.verify().await.map_err(|lost| lost.reason.to_string()) })
    }

    fn lost(&self) -> BoxFuture<'static, String> {
        let lost = self.lost();
        Box::pin(async move { lost.await.to_string() })
    }

    fn remaining(&self) -> Option<Duration> {
        Some(self.remaining())
    }

    fn asks(&self) -> Option<Asks> {
        Some(self.asks())
    }
}
