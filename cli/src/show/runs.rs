//! The records of runs, as text for people and as JSON.

use std::time::SystemTime;

use serde::Serialize;
use zklock::{QueryError, Session, once::Record};

use crate::failure::Failure;
use crate::queue::timestamp;
use crate::text;

/// How many records a person sees. The JSON has all of them.
const SHOWN: usize = 2;

/// One record. The fields of the JSON have the same names.
#[derive(Serialize)]
pub(super) struct RunRecord {
    name: String,
    /// `begun`, `succeeded` or `failed`.
    state: String,
    node: String,
    owner: String,
    token: i64,
    attempt: u32,
    /// By the servers' clock, as `ended`.
    begun: Option<String>,
    ended: Option<String>,
}

impl From<&Record> for RunRecord {
    fn from(record: &Record) -> Self {
        Self {
            name: record.name.clone(),
            state: record.state.to_string(),
            node: record.path.clone(),
            owner: record.owner.clone(),
            token: record.token.zxid(),
            attempt: record.attempt,
            begun: time_to_the_second(record.begun),
            ended: record.ended.and_then(time_to_the_second),
        }
    }
}

/// The records beside a lock, the one that began last first. Without permission to see them there is none.
pub(super) async fn read_records(session: &Session, path: &str) -> Result<Vec<RunRecord>, Failure> {
    match session.once(path)?.records().await {
        Ok(records) => Ok(records.iter().map(RunRecord::from).collect()),
        Err(QueryError::NotAuthorized { .. }) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// The last records, one a line.
pub(super) fn records_text(runs: &[RunRecord]) -> String {
    let line = |run: &RunRecord| {
        let name = text::harmless(&run.name);
        let owner = text::harmless(&run.owner);
        let at = run.ended.as_ref().or(run.begun.as_ref()).map(|at| format!(" at {at}")).unwrap_or_default();
        format!("run {name} {} on {owner}{at}\n", run.state)
    };
    runs.iter().take(SHOWN).map(line).collect()
}

fn time_to_the_second(at: SystemTime) -> Option<String> {
    timestamp(at).map(|at| format!("{at:.0}"))
}
