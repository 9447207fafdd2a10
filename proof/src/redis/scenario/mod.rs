//! What is done to the locks.

mod late_reply;
mod stopped;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

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
}

impl Scenario {
    pub(crate) const ALL: [Self; 2] = [Self::LateReply, Self::Stopped];

    /// The heading of its rows.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::LateReply => "the winning request's reply is later than the TTL",
            Self::Stopped => "the holder is stopped past the TTL, between check and write",
        }
    }

    pub(crate) async fn play(self, stage: &Stage) -> anyhow::Result<Outcome> {
        match self {
            Self::LateReply => late_reply::play(stage).await,
            Self::Stopped => stopped::play(stage).await,
        }
    }
}
