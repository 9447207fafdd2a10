//! zklock's lock.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock::{AcquireError, Guard, Lock, LockOptions, Session};

use super::{Contest, Hold};
use crate::torture::args::Part;
use crate::torture::record::{Leaving, Who};

/// How long there may be no server to begin with.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Zklock {
    session: Session,
    path: String,
}

struct Held {
    guard: Guard,
    session: i64,
}

impl Zklock {
    pub(super) async fn open(part: &Part) -> anyhow::Result<Self> {
        let builder = Session::builder(&part.servers).session_timeout(part.session_timeout).tick(part.tick);
        let session = builder.connect_timeout(PATIENCE).connect().await?;
        Ok(Self { session, path: part.path.clone() })
    }

    fn lock(&self, who: Who, delay: Duration) -> Result<Lock, Leaving> {
        let options = LockOptions::new().owner(who.to_string()).takeover_delay(delay);
        self.session.lock_with(&self.path, options).map_err(|error| Leaving::Failed(error.to_string()))
    }

    fn held(&self, guard: Guard) -> Box<dyn Hold> {
        let session = guard.sequencer().session();
        Box::new(Held { guard, session })
    }
}

impl Contest for Zklock {
    fn acquire(
        &self,
        who: Who,
        delay: Duration,
        limit: Option<Duration>,
    ) -> BoxFuture<'_, Result<Box<dyn Hold>, Leaving>> {
        async move {
            let lock = self.lock(who, delay)?;
            let acquired = match limit {
                None => lock.acquire().await.map(Some),
                Some(limit) => lock.acquire_timeout(limit).await,
            };
            let guard = acquired.map_err(leaving)?.ok_or(Leaving::TimedOut)?;
            Ok(self.held(guard))
        }
        .boxed()
    }

    fn try_acquire(&self, who: Who) -> BoxFuture<'_, Result<Box<dyn Hold>, Leaving>> {
        async move {
            let lock = self.lock(who, Duration::ZERO)?;
            let guard = lock.try_acquire().await.map_err(leaving)?.ok_or(Leaving::Busy)?;
            Ok(self.held(guard))
        }
        .boxed()
    }

    fn requeued(&self) -> u64 {
        self.session.requeued()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        // Unconfirmed, the session expires; the coordinator waits for that anyway.
        self.session.close().map(drop).boxed()
    }
}

fn leaving(error: AcquireError) -> Leaving {
    match error {
        AcquireError::NodeDeleted { .. } => Leaving::Deleted,
        error => Leaving::Failed(error.to_string()),
    }
}

impl Hold for Held {
    fn session(&self) -> i64 {
        self.session
    }

    fn token(&self) -> Option<i64> {
        Some(self.guard.token().as_i64())
    }

    fn node(&self) -> String {
        self.guard.node()
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
