//! The records of slots that run once, as text for people and as JSON.

use std::time::SystemTime;

use jiff::Timestamp;
use serde::Serialize;
use zklock::{QueryError, Record, Session};

use crate::failure::Failure;
use crate::text;

/// How many records a person sees. The JSON has all of them.
const SHOWN: usize = 2;

/// One record. The fields of the JSON have the same names.
#[derive(Serialize)]
pub(super) struct Slot {
    slot: String,
    /// `begun`, `succeeded` or `failed`.
    state: String,
    /// The path of its node.
    node: String,
    owner: String,
    token: i64,
    attempt: u32,
    /// By the servers' clock, as `ended`.
    begun: Option<String>,
    ended: Option<String>,
}

impl From<&Record> for Slot {
    fn from(record: &Record) -> Self {
        Self {
            slot: record.slot.clone(),
            state: record.state.to_string(),
            node: record.path.clone(),
            owner: record.owner.clone(),
            token: record.token.zxid(),
            attempt: record.attempt,
            begun: time(record.begun),
            ended: record.ended.and_then(time),
        }
    }
}

/// The records beside a lock, the one that began last first. Without permission to see them there is none.
pub(super) async fn seen(session: &Session, path: &str) -> Result<Vec<Slot>, Failure> {
    match session.once(path)?.records().await {
        Ok(records) => Ok(records.iter().map(Slot::from).collect()),
        Err(QueryError::NotAuthorized { .. }) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// The last records, one a line.
pub(super) fn lines(slots: &[Slot]) -> String {
    slots.iter().take(SHOWN).map(line).collect()
}

fn line(slot: &Slot) -> String {
    let (name, owner) = (text::harmless(&slot.slot), text::harmless(&slot.owner));
    let at = slot.ended.as_ref().or(slot.begun.as_ref()).map(|at| format!(" at {at}")).unwrap_or_default();
    format!("slot {name} {} on {owner}{at}\n", slot.state)
}

/// To the second.
fn time(at: SystemTime) -> Option<String> {
    Timestamp::try_from(at).ok().map(|at| format!("{at:.0}"))
}
