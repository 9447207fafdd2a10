//! What was granted: a guard of whichever kind, and what only that kind can do.

use std::ops::Deref;

use zklock::election::Leadership;
use zklock::guard::{NodeOptions, TransactionError};
use zklock::once::Run;
use zklock::{Guard, Sequencer, Slot};

use super::guard::AnyGuard;
use super::peer::PeerLock;
use crate::member::LOGS;
use crate::request::Claim;

pub struct Held {
    pub(super) granted: Granted,
    /// A guard that was granted a moment ago has the present session, if it is still held now. A sequencer would say so as well, but then
    /// a guard would not be passed on.
    pub session: i64,
}

pub(super) enum Granted {
    /// A lock that is held alone, by key or not.
    Alone(Guard),
    Other(zklock::AnyGuard),
    Slot(Slot),
    Leads(Leadership),
    Runs {
        run: Run,
        fails: bool,
    },
    Peer(PeerLock),
}

impl Held {
    fn lock(&self) -> Option<&Guard> {
        match &self.granted {
            Granted::Alone(guard) => Some(guard),
            _ => None,
        }
    }

    /// What it holds, if the request does not say so.
    pub fn claim(&self) -> Option<Claim> {
        match &self.granted {
            Granted::Slot(slot) => Some(Claim::exclusive(slot.index() as usize)),
            _ => None,
        }
    }

    /// Whether it leads an election, and so can announce another value.
    pub fn leadership(&self) -> Option<&Leadership> {
        match &self.granted {
            Granted::Leads(leadership) => Some(leadership),
            _ => None,
        }
    }

    /// Another guard of the same hold, of a lock that is held alone.
    pub fn share(&self) -> Option<Self> {
        let granted = Granted::Alone(self.lock()?.another());
        Some(Self { granted, session: self.session })
    }

    /// A claim that others can check, of such a lock, if the guard is not gone.
    pub fn sequencer(&self) -> Option<Sequencer> {
        self.lock()?.sequencer().ok()
    }

    /// Creates a node by a transaction under such a lock. Returns whether the node is there; `None` if that is not known.
    pub fn enter(&self, path: String) -> Option<impl Future<Output = Option<bool>>> {
        self.create(path, NodeOptions::new().sequential())
    }

    /// As that, a node that goes with the session.
    pub fn mark(&self) -> Option<impl Future<Output = Option<bool>>> {
        self.create(format!("{LOGS}/mark-"), NodeOptions::new().sequential().ephemeral())
    }

    fn create(&self, path: String, options: NodeOptions) -> Option<impl Future<Output = Option<bool>>> {
        let transaction = self.lock()?.transaction().create_with(path, "", options);
        Some(async {
            match transaction.commit().await {
                Ok(_) => Some(true),
                Err(TransactionError::Unknown { .. }) => None,
                Err(_) => Some(false),
            }
        })
    }

    /// Says why, if it is not confirmed. Records how a run has ended, too.
    pub async fn release(self) -> Result<(), String> {
        let released = match self.granted {
            Granted::Alone(guard) => guard.release().await,
            Granted::Other(guard) => guard.release().await,
            Granted::Slot(slot) => slot.release().await,
            Granted::Leads(leadership) => leadership.resign().await,
            Granted::Runs { run, fails } => {
                let ended = if fails { run.fail().await } else { run.complete().await };
                // Without their paths, so that they are counted together.
                let letters =
                    |error| format!("{error:?}").chars().take_while(|it| it.is_alphabetic()).collect();
                return ended.map_err(letters);
            }
            // Dropping it deletes its node in the background, all it offers for that.
            Granted::Peer(_) => Ok(()),
        };
        released.map_err(|error| error.to_string())
    }
}

impl Deref for Held {
    type Target = dyn AnyGuard;

    fn deref(&self) -> &Self::Target {
        match &self.granted {
            Granted::Alone(guard) => guard,
            Granted::Other(guard) => guard,
            Granted::Slot(slot) => slot,
            Granted::Leads(leadership) => &**leadership,
            Granted::Runs { run, .. } => run.guard(),
            Granted::Peer(lock) => lock,
        }
    }
}
