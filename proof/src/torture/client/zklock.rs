//! zklock's lock.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{sleep, timeout};
use zklock::{AcquireError, ConnectError, Guard, Lock, LockOptions, Session, SessionState};

use super::contest::{Contest, Hold};
use crate::torture::part::{Part, Setup};
use crate::torture::record::{Leaving, Who};

/// How long there may be no server to begin with.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause after each refusal.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Zklock {
    part: Part,
    /// The present session; another one is opened once it has failed.
    session: RwLock<Session>,
    opening: tokio::sync::Mutex<()>,
}

struct Held {
    guard: Guard,
    session: i64,
}

impl Zklock {
    pub(super) async fn open(part: &Part) -> anyhow::Result<Self> {
        let (part, session) = (part.clone(), RwLock::new(open(part).await?));
        Ok(Self { part, session, opening: tokio::sync::Mutex::default() })
    }

    fn session(&self) -> Session {
        self.session.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn lock(&self, who: Who, delay: Duration) -> Result<Lock, Leaving> {
        if self.session().state() == SessionState::Failed {
            let _one_at_a_time = self.opening.lock().await;
            if self.session().state() == SessionState::Failed {
                let opened = open(&self.part).await.map_err(|error| Leaving::Failed(error.to_string()))?;
                *self.session.write().unwrap_or_else(PoisonError::into_inner) = opened;
            }
        }
        let options = LockOptions::new().owner(who.to_string()).takeover_delay(delay);
        self.session()
            .lock_with(&self.part.setup.path, options)
            .map_err(|error| Leaving::Failed(error.to_string()))
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
            let lock = self.lock(who, delay).await?;
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
            let lock = self.lock(who, Duration::ZERO).await?;
            let guard = lock.try_acquire().await.map_err(leaving)?.ok_or(Leaving::Busy)?;
            Ok(self.held(guard))
        }
        .boxed()
    }

    fn requeued(&self) -> u64 {
        self.session().requeued()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        // Unconfirmed, the session expires; the coordinator waits for that anyway.
        async { drop(self.session().close().await) }.boxed()
    }
}

/// Opens a session. While only the server that grants less can be reached, that is refused; then it is tried again.
async fn open(part: &Part) -> anyhow::Result<Session> {
    let opening = async {
        loop {
            let Setup { session_timeout, tick, .. } = part.setup;
            let builder = Session::builder(&part.servers).session_timeout(session_timeout).tick(tick);
            match builder.connect_timeout(PATIENCE).connect().await {
                Err(ConnectError::TimeoutNotGranted { .. }) => sleep(PAUSE).await,
                connected => return Ok(connected?),
            }
        }
    };
    timeout(PATIENCE, opening).await.context("no server grants the session timeout")?
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
