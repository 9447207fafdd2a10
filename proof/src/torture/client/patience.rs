//! For how long a contender waits.

use std::time::Duration;

use zklock::AcquireError;

use crate::torture::record::{Leaving, UNCONFIRMED};

/// For how long to wait for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    Endless,
    Within(Duration),
    /// For nobody.
    None,
}

impl Patience {
    /// Makes the call of zklock's that has this patience.
    pub(super) async fn call<G, F: Future<Output = Result<Option<G>, AcquireError>>>(
        self,
        endless: impl Future<Output = Result<G, AcquireError>>,
        within: impl FnOnce(Duration) -> F,
        at_once: impl Future<Output = Result<Option<G>, AcquireError>>,
    ) -> Result<G, Leaving> {
        let (got, without) = match self {
            Self::Endless => return endless.await.map_err(leaving),
            Self::Within(limit) => (within(limit).await, Leaving::TimedOut),
            Self::None => (at_once.await, Leaving::Busy),
        };
        got.map_err(leaving)?.ok_or(without)
    }
}

pub(super) fn leaving(error: AcquireError) -> Leaving {
    match error {
        AcquireError::NodeDeleted { .. } => Leaving::Deleted,
        AcquireError::Forgotten { .. } => Leaving::Forgotten,
        // Without its path, so that they are counted together.
        AcquireError::Unconfirmed { .. } => Leaving::Failed(UNCONFIRMED.to_owned()),
        error => Leaving::Failed(error.to_string()),
    }
}
