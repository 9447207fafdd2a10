//! Slots of zklock that run once. Their end is a record.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock::{
    FencingToken, LockOptions,
    once::{Claim, OnceOptions, Run},
};

use super::contest::{Acquired, Hold};
use crate::torture::record::Leaving;
use crate::torture::wish::SlotName;

/// How many records are kept. Slots that are older than the last ones are forgotten in each run.
const KEEP: u16 = 5;

struct Turned {
    turn: Run,
    session: i64,
    /// Whether the run fails.
    fails: bool,
}

/// The options under which a slot is claimed.
pub(super) fn options(slot: SlotName, lock: LockOptions) -> OnceOptions {
    OnceOptions::new().lock(lock).keep(KEEP).retry(slot.retries())
}

/// What a claim of this slot returned.
pub(super) fn held(claim: Claim, slot: SlotName) -> Acquired {
    match claim {
        Claim::Run(turn) => {
            let session = turn.guard().sequencer().map_or(0, |claim| claim.session());
            Ok(Box::new(Turned { turn, session, fails: slot.fails }))
        }
        Claim::Done(record) => {
            let (state, token) = (record.state.to_string(), record.token.zxid());
            Err(Leaving::Done { state, owner: record.owner, token, attempt: record.attempt })
        }
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
