//! What zklock has granted: a guard of whichever kind, and what only that kind can do.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock::election::Leadership;
use zklock::guard::{AnyKind, NodeOptions, OneLock, TransactionError};
use zklock::once::Run;
use zklock::{FencingToken, Guard, MultiGuard, Permit, Sequencer, Slot};

use super::contest::Hold;
use crate::torture::wish::Claim;

pub(super) struct Held {
    granted: Granted,
    session: i64,
    /// What it holds, if the wish does not say so.
    claims: Option<Claim>,
}

enum Granted {
    /// A lock that is held alone, by key or not.
    Alone(Guard),
    Other(Guard<AnyKind>),
    Leads(Leadership),
    Runs {
        run: Run,
        /// Whether the run fails.
        fails: bool,
    },
}

impl Held {
    /// A lock that was granted a moment ago. If it is still held now, its session is the present one. A sequencer would say so as
    /// well, but then the guard would not be passed on.
    pub(super) fn alone(guard: Guard, session: i64) -> Self {
        Self { granted: Granted::Alone(guard), session, claims: None }
    }

    pub(super) fn of_one<K: OneLock>(guard: Guard<K>) -> Self {
        Self { session: session(guard.sequencer().ok()), ..Self::other(guard) }
    }

    pub(super) fn of_several(guard: MultiGuard) -> Self {
        let first = guard.sequencers().ok().and_then(|all| all.into_iter().next());
        Self { session: session(first), ..Self::other(guard) }
    }

    pub(super) fn permit(permit: Permit, session: i64) -> Self {
        Self { session, claims: Some(Claim::shared(0)), ..Self::other(permit) }
    }

    pub(super) fn slot(slot: Slot, session: i64) -> Self {
        Self { session, claims: Some(Claim::exclusive(slot.index() as usize)), ..Self::other(slot) }
    }

    pub(super) fn leads(leadership: Leadership) -> Self {
        let session = session(leadership.sequencer().ok());
        Self { granted: Granted::Leads(leadership), session, claims: None }
    }

    pub(super) fn runs(run: Run, fails: bool) -> Self {
        let session = session(run.guard().sequencer().ok());
        Self { granted: Granted::Runs { run, fails }, session, claims: None }
    }

    fn other<K>(guard: Guard<K>) -> Self {
        Self { granted: Granted::Other(guard.into_any()), session: 0, claims: None }
    }

    fn guard(&self) -> &dyn AnyGuard {
        match &self.granted {
            Granted::Alone(guard) => guard,
            Granted::Other(guard) => guard,
            Granted::Leads(leadership) => &**leadership,
            Granted::Runs { run, .. } => run.guard(),
        }
    }
}

fn session(sequencer: Option<Sequencer>) -> i64 {
    sequencer.map_or(0, |sequencer| sequencer.session())
}

/// What guards of all kinds have in common.
trait AnyGuard {
    fn token(&self) -> FencingToken;
    fn nodes(&self) -> Vec<String>;
    fn check(&self) -> Result<(), String>;
    fn remaining(&self) -> Duration;
}

impl<K> AnyGuard for Guard<K> {
    fn token(&self) -> FencingToken {
        self.token()
    }

    fn nodes(&self) -> Vec<String> {
        self.nodes().collect()
    }

    fn check(&self) -> Result<(), String> {
        self.check().map_err(|lost| lost.reason.to_string())
    }

    fn remaining(&self) -> Duration {
        self.remaining()
    }
}

impl Hold for Held {
    fn session(&self) -> i64 {
        self.session
    }

    fn token(&self) -> Option<FencingToken> {
        Some(self.guard().token())
    }

    fn nodes(&self) -> Vec<String> {
        self.guard().nodes()
    }

    fn claims(&self) -> Option<Vec<Claim>> {
        self.claims.map(|claim| vec![claim])
    }

    fn check(&self) -> Result<(), String> {
        self.guard().check()
    }

    fn remaining(&self) -> Option<Duration> {
        Some(self.guard().remaining())
    }

    fn proclaim(&self, value: String) -> Option<BoxFuture<'_, Result<(), String>>> {
        let Granted::Leads(leadership) = &self.granted else { return None };
        let proclaimed = async { leadership.proclaim(value).await.map_err(|error| error.to_string()) };
        Some(proclaimed.boxed())
    }

    fn share(&self) -> Option<Box<dyn Hold>> {
        let Granted::Alone(guard) = &self.granted else { return None };
        Some(Box::new(Self::alone(guard.another(), self.session)))
    }

    fn claim(&self) -> Option<Sequencer> {
        let Granted::Alone(guard) = &self.granted else { return None };
        guard.sequencer().ok()
    }

    fn enter(&self, path: String) -> Option<BoxFuture<'_, Option<bool>>> {
        let Granted::Alone(guard) = &self.granted else { return None };
        let transaction = guard.transaction().create_with(path, "", NodeOptions::new().sequential());
        let entered = async {
            match transaction.commit().await {
                Ok(_) => Some(true),
                Err(TransactionError::Unknown { .. }) => None,
                Err(_) => Some(false),
            }
        };
        Some(entered.boxed())
    }

    /// Records how a run has ended, too.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), String>> {
        async move {
            match self.granted {
                Granted::Alone(guard) => guard.release().await.map_err(|error| error.to_string()),
                Granted::Other(guard) => guard.release().await.map_err(|error| error.to_string()),
                Granted::Leads(leadership) => leadership.resign().await.map_err(|error| error.to_string()),
                Granted::Runs { run, fails } => {
                    let ended = if fails { run.fail().await } else { run.complete().await };
                    // Without their paths, so that they are counted together.
                    ended.map_err(|error| {
                        format!("{error:?}").chars().take_while(|letter| letter.is_alphabetic()).collect()
                    })
                }
            }
        }
        .boxed()
    }
}
