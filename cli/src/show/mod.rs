//! `zklock show`: who holds a lock, and who waits for it; who leads an election, and who are the candidates; who holds
//! what of a semaphore or of slots.

mod runs;
mod vigil;

use std::process::ExitCode;

use jiff::Timestamp;
use serde::Serialize;

use crate::args::Show;
use crate::connection::{Connection, Inquiry};
use crate::console::Console;
use crate::election::LedElection;
use crate::exit::Code;
use crate::failure::Outcome;
use crate::found::Found;
use crate::pool::Pool;
use crate::queue::{self, Entry, Stranger, known_text};
use crate::table::{self, Column};
use crate::text::counted;
use crate::{output, unheld};
use runs::RunRecord;
use vigil::Vigil;

/// What is at a path. The fields of the JSON have the same names.
#[derive(Serialize)]
struct Shown<'a> {
    path: &'a str,
    contenders: Vec<Entry>,
    /// What the servers know of those that hold it.
    holders: Vec<Vigil>,
    /// The contenders of other clients.
    foreign: Vec<Stranger>,
    /// The records of slots that run once.
    once: Vec<RunRecord>,
    /// The election whose candidates these contenders are, if somebody leads it.
    election: Option<LedElection>,
    /// The semaphore at this path, or the slots there.
    pool: Option<Pool>,
}

/// Prints the queue.
pub(crate) async fn print_queue(show: Show, connection: &Connection, console: Console) -> Outcome {
    connection.in_session(console, async |inquiry| print_in_session(&show, inquiry).await).await
}

async fn print_in_session(show: &Show, inquiry: Inquiry<'_>) -> Outcome {
    let Inquiry { session, console, .. } = inquiry;
    let Found { lock, election, pool, .. } = Found::at(session, &show.path, show.layout).await?;
    let (contenders, mut foreign) = queue::read_queue(&lock).await?;
    foreign.extend(pool.iter().flat_map(|pool| &pool.foreign).map(Stranger::from));
    let once = runs::read_records(session, &show.path).await?;
    let is_held = !contenders.is_empty()
        || pool.as_ref().is_some_and(|pool| !pool.holders.is_empty())
        || foreign.iter().any(|one| one.is_zklocks);
    // Whatever is there, the path exists then.
    let is_used = is_held || pool.is_some() || !foreign.is_empty() || !once.is_empty();
    let unheld = if is_used {
        Ok(unheld::unheld_text(&show.path, show.layout, foreign.len()))
    } else {
        unheld::describe_unheld(session, &show.path).await
    };
    // With --exit-code the code is the answer, and a quiet user reads nothing else.
    if !(show.exit_code && console.is_quiet()) {
        let holders = match &pool {
            Some(pool) => vigil::ask_pool_vigils(inquiry, pool).await?,
            None => vigil::ask_vigils(inquiry, lock.path(), &contenders).await?,
        };
        let seen = Shown { path: &show.path, contenders, holders, foreign, once, election, pool };
        match &unheld {
            _ if show.json => output::print_json(&seen)?,
            Ok(unheld) => output::print(&shown_text(&seen, unheld))?,
            Err(_) => {}
        }
    }
    unheld?;
    Ok(if show.exit_code && !is_held { Code::No.into() } else { ExitCode::SUCCESS })
}

fn shown_text(seen: &Shown<'_>, unheld: &str) -> String {
    let queue = &seen.contenders;
    let now = Timestamp::now();
    let mut text = String::new();
    if let Some(election) = &seen.election {
        text += &format!("{}, {}\n", election.text(), counted(queue.len(), "candidate"));
    }
    match &seen.pool {
        Some(pool) => text += &pool.shown_text(now),
        None if queue.is_empty() => text += &format!("{unheld}\n"),
        None => {}
    }
    if !queue.is_empty() {
        text += &queue_text(queue, now);
    }
    if !seen.holders.is_empty() {
        text += "\n";
        match &seen.pool {
            Some(_) => text += &vigil::pool_text(&seen.holders),
            None => text.extend(seen.holders.iter().map(Vigil::text)),
        }
    }
    if !seen.foreign.is_empty() {
        text += &format!("\n{}", strangers_text(&seen.foreign));
    }
    if !seen.once.is_empty() {
        text += &format!("\n{}", runs::records_text(&seen.once));
    }
    text
}

fn strangers_text(foreign: &[Stranger]) -> String {
    let columns: [Column<'_, Stranger>; 3] = [
        ("FOREIGN CONTENDER", true, &Stranger::name_text),
        ("CLIENT", true, &|stranger| stranger.client.clone()),
        ("SESSION", true, &|stranger| known_text(stranger.session)),
    ];
    table::of_columns(&columns, foreign)
}

fn queue_text(queue: &[Entry], now: Timestamp) -> String {
    let has_readers = queue::has_readers(queue);
    let holders = queue::holders(queue).len();
    let has_data = queue.iter().any(|entry| entry.data.is_some());
    // A lock without readers needs no kinds, and there everybody waits for everybody in front.
    let columns: [Column<'_, Entry>; 9] = [
        ("POSITION", true, &Entry::position_text),
        ("KIND", has_readers, &|entry| entry.kind_text().to_owned()),
        ("OWNER", true, &Entry::owner_text),
        ("ARRIVED", true, &|entry| entry.since_text(now)),
        ("SESSION", true, &Entry::session_text),
        ("TOKEN", true, &Entry::token_text),
        ("SEQUENCE", true, &Entry::sequence_text),
        ("WAITS FOR", has_readers, &|entry| entry.waits_for_text(holders)),
        ("DATA", has_data, &Entry::data_text),
    ];
    table::of_columns(&columns, queue)
}
