//! What was granted: a guard of whichever kind, and what only that kind can do.

use std::ops::Deref;

use zklock::election::Leadership;
use zklock::guard::{AnyKind, NodeOptions, OneLock, TransactionError};
use zklock::once::Run;
use zklock::{Guard, MultiGuard, Permit, Sequencer, Slot};

use super::guard::AnyGuard;
use super::peer::PeerLock;
use crate::torture::wish::Claim;

pub(super) struct Held {
    granted: Granted,
    pub(super) session: i64,
    /// What it holds, if the wish does not say so.
    pub(super) claim: Option<Claim>,
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
    Peer(PeerLock),
}

impl Held {
    /// A lock that was granted a moment ago. If it is still held now, its session is the present one. A sequencer would say so as
    /// well, but then the guard would not be passed on.
    pub(super) fn alone(guard: Guard, session: i64) -> Self {
        Self { granted: Granted::Alone(guard), session, claim: None }
    }

    pub(super) fn of_one<K: OneLock>(guard: Guard<K>) -> Self {
        let session = session(guard.sequencer().ok());
        Self { granted: Granted::Other(guard.into_any()), session, claim: None }
    }

    pub(super) fn of_several(guard: MultiGuard) -> Self {
        let session = session(guard.sequencers().ok().and_then(|all| all.into_iter().next()));
        Self { granted: Granted::Other(guard.into_any()), session, claim: None }
    }

    pub(super) fn permit(permit: Permit, session: i64) -> Self {
        Self { granted: Granted::Other(permit.into_any()), session, claim: Some(Claim::shared(0)) }
    }

    pub(super) fn slot(slot: Slot, session: i64) -> Self {
        let claim = Some(Claim::exclusive(slot.index() as usize));
        Self { granted: Granted::Other(slot.into_any()), session, claim }
    }

    pub(super) fn leads(leadership: Leadership) -> Self {
        let session = session(leadership.sequencer().ok());
        Self { granted: Granted::Leads(leadership), session, claim: None }
    }

    pub(super) fn runs(run: Run, fails: bool) -> Self {
        let session = session(run.guard().sequencer().ok());
        Self { granted: Granted::Runs { run, fails }, session, claim: None }
    }

    pub(super) fn peer(lock: PeerLock) -> Self {
        Self { session: lock.session(), granted: Granted::Peer(lock), claim: None }
    }

    fn lock(&self) -> Option<&Guard> {
        match &self.granted {
            Granted::Alone(guard) => Some(guard),
            _ => None,
        }
    }

    /// Whether it leads an election, and so can announce another value.
    pub(super) fn leadership(&self) -> Option<&Leadership> {
        match &self.granted {
            Granted::Leads(leadership) => Some(leadership),
            _ => None,
        }
    }

    /// Another guard of the same hold, of a lock that is held alone.
    pub(super) fn share(&self) -> Option<Self> {
        self.lock().map(|guard| Self::alone(guard.another(), self.session))
    }

    /// A claim that others can check, of such a lock, if the guard is not gone.
    pub(super) fn sequencer(&self) -> Option<Sequencer> {
        self.lock()?.sequencer().ok()
    }

    /// Creates a node by a transaction under such a lock. Returns whether the node is there; `None` if that is not known.
    pub(super) fn enter(&self, path: String) -> Option<impl Future<Output = Option<bool>>> {
        let transaction = self.lock()?.transaction().create_with(path, "", NodeOptions::new().sequential());
        Some(async {
            match transaction.commit().await {
                Ok(_) => Some(true),
                Err(TransactionError::Unknown { .. }) => None,
                Err(_) => Some(false),
            }
        })
    }

    /// Says why, if it is not confirmed. Records how a run has ended, too.
    pub(super) async fn release(self) -> Result<(), String> {
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
            // Dropping it deletes its node in the background, all it offers for that.
            Granted::Peer(_) => Ok(()),
        }
    }
}

impl Deref for Held {
    type Target = dyn AnyGuard;

    fn deref(&self) -> &Self::Target {
        match &self.granted {
            Granted::Alone(guard) => guard,
            Granted::Other(guard) => guard,
            Granted::Leads(leadership) => &**leadership,
            Granted::Runs { run, .. } => run.guard(),
            Granted::Peer(lock) => lock,
        }
    }
}

fn session(sequencer: Option<Sequencer>) -> i64 {
    sequencer.map_or(0, |sequencer| sequencer.session())
}
