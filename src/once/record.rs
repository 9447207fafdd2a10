//! The record of one run.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use zklock_recipe::claim as recipe;
use zklock_recipe::claim::{Progress, RunEnd};

use super::requests::Kept;
use crate::fence::FencingToken;
use crate::node::decode;
use crate::path::child_of;

/// The record of a run. [`Once::records`](crate::Once::records) and [`Claim::Recorded`](crate::once::Claim::Recorded) return it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The name of the run.
    pub name: String,
    /// The path of the record's node.
    pub path: String,
    /// How far the last attempt of the run has come.
    pub state: RecordState,
    /// The owner text of the last run.
    pub owner: String,
    /// The fencing token of the last run.
    pub token: FencingToken,
    /// How many times the run has begun, this attempt included. It is more than one only with
    /// [`OnceOptions::retry`](crate::OnceOptions::retry).
    pub attempt: u32,
    /// When the last run began, by the clock of ZooKeeper's leader.
    pub begun: SystemTime,
    /// When the last run succeeded or failed, by the clock of ZooKeeper's leader. `None` if it has only begun.
    pub ended: Option<SystemTime>,
}

/// How far an attempt of a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RecordState {
    /// The run has begun. It is under way, or its holder has vanished. Only the lock tells the two apart.
    Begun,
    /// The run has succeeded. It never begins again.
    Succeeded,
    /// The run has failed.
    Failed,
}

impl fmt::Display for RecordState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Begun => "begun",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        })
    }
}

/// The data of a record's node: a small JSON object. Its times are in the node's stat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordData {
    pub(super) state: RecordState,
    #[serde(default)]
    pub(super) owner: String,
    /// The token of the guard under which the run began.
    pub(super) token: i64,
    #[serde(default)]
    pub(super) attempt: u32,
}

impl RecordData {
    /// What the record says of the same run once it has ended.
    pub(super) fn ended(&self, end: RunEnd) -> Self {
        let state = match end {
            RunEnd::Succeeded => RecordState::Succeeded,
            RunEnd::Failed => RecordState::Failed,
        };
        Self { state, ..self.clone() }
    }
}

impl Record {
    /// Reads the record from a node in this directory; `None` if the node is no record, or has a layout that this
    /// version does not know.
    pub(super) fn decode(directory: &str, kept: &Kept) -> Option<Self> {
        let RecordData { state, owner, token, attempt } = decode(&kept.data)?;
        let ended = state != RecordState::Begun;
        Some(Self {
            name: kept.name.clone(),
            path: child_of(directory, &kept.name),
            state,
            owner,
            token: FencingToken::new(token),
            attempt,
            begun: time(kept.stat.ctime),
            ended: ended.then(|| time(kept.stat.mtime)),
        })
    }

    /// The same for the recipe, as it was read at this node.
    pub(super) fn seen(&self, kept: &Kept) -> recipe::SeenRecord {
        recipe::SeenRecord {
            progress: match self.state {
                RecordState::Begun => Progress::Begun,
                RecordState::Succeeded => Progress::Ended(RunEnd::Succeeded),
                RecordState::Failed => Progress::Ended(RunEnd::Failed),
            },
            token: self.token.zxid(),
            attempt: self.attempt,
            version: kept.stat.version,
            data: kept.data.clone(),
        }
    }
}

/// A time in a node's stat: milliseconds since the Unix epoch.
fn time(millis: i64) -> SystemTime {
    let since = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::encode;

    #[test]
    fn a_record_is_plain_json() {
        let data =
            RecordData { state: RecordState::Succeeded, owner: "vm:\"7\"".to_owned(), token: 12, attempt: 2 };
        let json = r#"{"state":"succeeded","owner":"vm:\"7\"","token":12,"attempt":2}"#;
        assert_eq!(encode(&data), json.as_bytes());
        assert_eq!(serde_json::from_slice::<RecordData>(json.as_bytes()).unwrap(), data);
    }

    #[test]
    fn fields_of_later_versions_are_passed_over_and_their_states_are_not() {
        let later = r#"{"state":"failed","owner":"o","token":1,"attempt":1,"later":true}"#;
        assert!(serde_json::from_str::<RecordData>(later).is_ok());
        let unknown = r#"{"state":"paused","owner":"o","token":1,"attempt":1}"#;
        assert!(serde_json::from_str::<RecordData>(unknown).is_err());
    }
}
