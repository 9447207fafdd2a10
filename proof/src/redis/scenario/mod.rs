//! What is done to the locks.

mod crash;
mod expired_together;
mod foreign_release;
mod late_reply;
mod long_work;
mod stopped;
mod wrong_clocks;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::redis::kind::Kind;
use crate::redis::outcome::Outcome;
use crate::redis::stage::Stage;

/// One scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scenario {
    /// The reply to the request that won is later than the TTL.
    LateReply,
    /// The holder is stopped for longer than the TTL, between its check and its write.
    Stopped,
    /// The holder crashes between the steps of its acquisition, or right after it.
    Crash,
    /// Two clients find an expired lock at the same instant.
    ExpiredTogether,
    /// Two clients' clocks differ by 5 s.
    WrongClocks,
    /// The holder works for longer than the TTL.
    LongWork,
    /// The lock is released by who does not hold it, or holds it no more.
    ForeignRelease,
}

impl Scenario {
    pub(crate) const ALL: [Self; 7] = [
        Self::LateReply,
        Self::Stopped,
        Self::Crash,
        Self::ExpiredTogether,
        Self::WrongClocks,
        Self::LongWork,
        Self::ForeignRelease,
    ];

    /// The heading of its row.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::LateReply => "the winning request's reply is later than the TTL",
            Self::Stopped => "the holder is stopped past the TTL, between check and write",
            Self::Crash => "the holder crashes while it acquires, or right after",
            Self::ExpiredTogether => "two find an expired lock at the same instant",
            Self::WrongClocks => "clocks differ by 5 s",
            Self::LongWork => "the holder works longer than the TTL",
            Self::ForeignRelease => "a stranger releases; a former holder's release arrives late",
        }
    }

    /// Why there is nothing to do to this lock, if so.
    pub(crate) fn does_not_apply(self, kind: Kind) -> Option<&'static str> {
        (self == Self::WrongClocks && !kind.reads_wall_clock())
            .then_some("its clients read no wall clock, so a wrong one changes nothing")
    }

    pub(crate) async fn play(self, stage: &Stage) -> anyhow::Result<Outcome> {
        match self {
            Self::LateReply => late_reply::play(stage).await,
            Self::Stopped => stopped::play(stage).await,
            Self::Crash => crash::play(stage).await,
            Self::ExpiredTogether => expired_together::play(stage).await,
            Self::WrongClocks => wrong_clocks::play(stage).await,
            Self::LongWork => long_work::play(stage).await,
            Self::ForeignRelease => foreign_release::play(stage).await,
        }
    }
}
