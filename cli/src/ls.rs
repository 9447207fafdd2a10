//! `zklock ls`: the locks below a node.

use std::process::ExitCode;

use jiff::Timestamp;
use serde::Serialize;
use zklock::HeldLock;

use crate::args::List;
use crate::closing;
use crate::connection::Connection;
use crate::console::Console;
use crate::failure::Outcome;
use crate::queue::Entry;
use crate::{output, table, text};

/// Prints the locks that somebody holds, in the order of their paths.
pub(crate) async fn list(list: List, connection: &Connection, console: Console) -> Outcome {
    let session = connection.session_as_granted().await?;
    let below = session.locks_below(&list.root).await;
    closing::session(&session).await;
    let below = below?;
    let (exists, hidden) = (below.exists, below.hidden);
    let locks = below.locks.iter().map(Held::from).collect::<Vec<_>>();
    if !exists {
        console.note(format_args!("{} does not exist", list.root));
    }
    if hidden > 0 {
        let nodes = if hidden == 1 { "node" } else { "nodes" };
        console.note(format_args!(
            "{hidden} {nodes} may not be listed with these credentials, and nothing below was seen"
        ));
    }
    if list.json {
        output::print_json(&locks)?;
    } else if !locks.is_empty() {
        let now = Timestamp::now();
        let row = |lock: &Held| {
            let path = text::harmless(&lock.path);
            [path, lock.holder.owner_text(), lock.holder.since_text(now), lock.waiting.to_string()]
        };
        let header = ["PATH", "HOLDER", "SINCE", "WAITING"];
        let table = if locks.iter().all(|lock| lock.foreign == 0) {
            table::aligned(header, locks.iter().map(row))
        } else {
            let rows = locks.iter().map(|lock| with(row(lock), lock.foreign.to_string()));
            table::aligned(with(header, "FOREIGN"), rows)
        };
        output::print(&table)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A row with one more cell.
fn with<T>([path, holder, since, waiting]: [T; 4], last: T) -> [T; 5] {
    [path, holder, since, waiting, last]
}

/// A lock that somebody holds. Its fields are those of the JSON, by these names.
#[derive(Serialize)]
struct Held {
    path: String,
    holder: Entry,
    /// How many wait behind the holder.
    waiting: usize,
    /// How many contenders of other clients are in its directory.
    foreign: usize,
}

impl From<&HeldLock> for Held {
    fn from(lock: &HeldLock) -> Self {
        let (path, holder) = (lock.path.clone(), Entry::from(&lock.holder));
        Self { path, holder, waiting: lock.waiting, foreign: lock.foreign }
    }
}
