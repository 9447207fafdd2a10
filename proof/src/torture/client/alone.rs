//! A lock of zklock that is held alone, by key or not, and all that its guard can do.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock::{
    FencingToken, Guard, Sequencer,
    guard::{NodeOptions, TransactionError},
};

use super::contest::Hold;

pub(super) struct Alone {
    pub(super) guard: Guard,
    pub(super) session: i64,
}

impl Hold for Alone {
    fn session(&self) -> i64 {
        self.session
    }

    fn token(&self) -> Option<FencingToken> {
        Some(self.guard.token())
    }

    fn nodes(&self) -> Vec<String> {
        vec![self.guard.node()]
    }

    fn check(&self) -> Result<(), String> {
        self.guard.check().map_err(|lost| lost.reason.to_string())
    }

    fn remaining(&self) -> Option<Duration> {
        Some(self.guard.remaining())
    }

    fn share(&self) -> Option<Box<dyn Hold>> {
        Some(Box::new(Self { guard: self.guard.another(), session: self.session }))
    }

    fn claim(&self) -> Option<Sequencer> {
        self.guard.sequencer().ok()
    }

    fn enter(&self, path: String) -> Option<BoxFuture<'_, Option<bool>>> {
        let transaction = self.guard.transaction().create_with(path, "", NodeOptions::new().sequential());
        let entered = async {
            match transaction.commit().await {
                Ok(_) => Some(true),
                Err(TransactionError::Unknown { .. }) => None,
                Err(_) => Some(false),
            }
        };
        Some(entered.boxed())
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), String>> {
        async { self.guard.release().await.map_err(|error| error.to_string()) }.boxed()
    }
}
