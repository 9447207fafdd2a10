//! Slots of zklock that run once. Their end is a record.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock::{Claim, ClaimError, FencingToken, LockOptions, OnceOptions, Session, Turn};

use super::contest::{Acquired, Hold, Patience};
use super::zklock::leaving;
use crate::torture::record::Leaving;
use crate::torture::wish::{SlotName, path};

/// How many records are kept. Slots that are older than the last ones are forgotten in each run.
const KEEP: u16 = 40;

struct Turned {
    turn: Turn,
    session: i64,
    /// Whether the run fails.
    fails: bool,
}

/// Claims a slot.
pub(super) async fn claim(
    session: &Session,
    slot: SlotName,
    lock: LockOptions,
    patience: Patience,
    without: Leaving,
) -> Acquired {
    let options = OnceOptions::new().lock(lock).keep(KEEP).retry(slot.retries());
    let once = session.once_with(&path(0), options).map_err(|error| Leaving::Failed(error.to_string()))?;
    let name = slot.to_string();
    let claimed = match patience {
        Patience::Endless => once.claim(&name).await.map(Some),
        Patience::Within(limit) => once.claim_timeout(&name, limit).await,
        Patience::None => once.try_claim(&name).await,
    };
    match claimed.map_err(not_claimed)?.ok_or(without)? {
        Claim::Turn(turn) => {
            let session = turn.guard().sequencer().map_or(0, |claim| claim.session());
            Ok(Box::new(Turned { turn, session, fails: slot.fails }))
        }
        Claim::Done(record) => {
            let (state, token) = (record.state.to_string(), record.token.zxid());
            Err(Leaving::Done { state, token, attempt: record.attempt })
        }
    }
}

fn not_claimed(error: ClaimError) -> Leaving {
    match error {
        ClaimError::Acquire(error) => leaving(error),
        ClaimError::SlotForgotten { .. } => Leaving::Forgotten,
        // Without its path, so that they are counted together.
        ClaimError::Unconfirmed { .. } => Leaving::Failed("the begin of a run was not confirmed".to_owned()),
        error => Leaving::Failed(error.to_string()),
    }
}

impl Hold for Turned {
    fn session(&self) -> i64 {
        self.session
    }

    fn token(&self) -> Option<FencingToken> {
        Some(self.turn.guard().token())
    }

    fn nodes(&self) -> Vec<String> {
        vec![self.turn.guard().node()]
    }

    fn check(&self) -> Result<(), String> {
        self.turn.guard().check().map_err(|lost| lost.reason.to_string())
    }

    fn remaining(&self) -> Option<Duration> {
        Some(self.turn.guard().remaining())
    }

    /// Records how the run has ended, too.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), String>> {
        async move {
            let ended = if self.fails { self.turn.fail().await } else { self.turn.complete().await };
            // Without their paths, as above.
            ended.map_err(|error| {
                format!("{error:?}").chars().take_while(|letter| letter.is_alphabetic()).collect()
            })
        }
        .boxed()
    }
}
