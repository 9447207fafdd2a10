//! `zklock show`: who holds a lock, and who waits for it; who leads an election, and who are the candidates; who holds
//! what of a semaphore or of slots.

mod history;
mod look;
mod runs;
mod screen;
mod view;
mod watch;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use jiff::Timestamp;
use serde::Serialize;
use zklock::{Lock, Session};

use crate::args::Show;
use crate::closing;
use crate::connection::Connection;
use crate::console::Console;
use crate::election::Election;
use crate::exit::Code;
use crate::failure::{Failure, Outcome};
use crate::place;
use crate::pool::{Pool, Stock};
use crate::queue::{self, Entry, Stranger};
use crate::{output, table};
use runs::Run;

/// The JSON.
#[derive(Serialize)]
struct Queue<'a> {
    path: &'a str,
    contenders: &'a [Entry],
    /// The contenders of other clients.
    foreign: &'a [Stranger],
    /// The records of slots that run once.
    once: &'a [Run],
    /// The election whose candidates these contenders are, if somebody leads it.
    election: Option<&'a Election>,
    /// The semaphore at this path, or the slots there.
    pool: Option<&'a Pool>,
}

/// Prints the queue, or draws it until a key or a signal ends that.
pub(crate) async fn show(show: Show, connection: &Connection, console: Console) -> Outcome {
    if show.watch && !io::stdout().is_terminal() {
        return Err(Failure::usage(
            "--watch draws on a terminal, and standard output is not one; leave --watch out",
        ));
    }
    let session = connection.session().await?;
    let outcome = answer(&show, connection, &session, console).await;
    closing::session(&session).await;
    outcome
}

async fn answer(show: &Show, connection: &Connection, session: &Session, console: Console) -> Outcome {
    let (lock, election) = lock(session, &show.path).await?;
    let pool = Pool::at(session, &show.path).await?;
    if show.watch
        && let Some(pool) = &pool
    {
        let what = match pool.stock {
            Stock::Semaphore { .. } => "a semaphore",
            Stock::Slots { .. } => "slots",
        };
        return Err(Failure::usage(format_args!(
            "--watch draws the queue of a lock, and {} is used for {what}; leave --watch out",
            show.path
        )));
    }
    if show.watch {
        return watch::watch(session, &lock).await;
    }
    let (queue, mut foreign) = look::seen(&lock).await?;
    foreign.extend(pool.iter().flat_map(|pool| pool.foreign.iter().cloned()));
    let is_held = !queue.is_empty() || pool.as_ref().is_some_and(|pool| !pool.holders.is_empty());
    let once = runs::seen(session, &show.path).await?;
    // Whatever is there, the path exists then.
    let is_used = is_held || pool.is_some() || !foreign.is_empty() || !once.is_empty();
    let unheld = if is_used {
        Ok(format!("nobody holds {}", show.path))
    } else {
        place::unheld(connection, session, &show.path).await
    };
    // With --exit-code the code is the answer, and a quiet user reads nothing else.
    if !(show.exit_code && console.is_quiet()) && (unheld.is_ok() || show.json) {
        let unheld = unheld.as_deref().unwrap_or_default();
        print(show, election.as_ref(), pool.as_ref(), &queue, &foreign, &once, unheld)?;
    }
    unheld?;
    match show.exit_code && !is_held {
        true => Ok(Code::No.into()),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// The lock at this path. If nobody holds it, and somebody leads an election there, the lock for which its candidates
/// queue.
async fn lock(session: &Session, path: &str) -> Result<(Lock, Option<Election>), Failure> {
    let lock = session.lock(path)?;
    let election = match Election::of_queue(session, path).await? {
        None if lock.holder().await?.is_none() => Election::at(session, path).await?,
        election => election,
    };
    Ok(match election {
        Some(election) => (session.lock(&election.queue)?, Some(election)),
        None => (lock, None),
    })
}

fn print(
    show: &Show,
    election: Option<&Election>,
    pool: Option<&Pool>,
    queue: &[Entry],
    foreign: &[Stranger],
    once: &[Run],
    unheld: &str,
) -> Result<(), Failure> {
    if show.json {
        return output::print_json(&Queue {
            path: &show.path,
            contenders: queue,
            foreign,
            once,
            election,
            pool,
        });
    }
    if let Some(election) = election {
        let candidates = if queue.len() == 1 { "candidate" } else { "candidates" };
        output::print(&format!("{}, {} {candidates}\n", election.text(), queue.len()))?;
    }
    if let Some(pool) = pool {
        output::print(&pool.lines(Timestamp::now()))?;
    }
    if queue.is_empty() && pool.is_some() {
        // The semaphore or the slots are all there is.
    } else if queue.is_empty() {
        output::print(&format!("{unheld}\n"))?;
    } else {
        output::print(&table(queue, Timestamp::now()))?;
    }
    if !foreign.is_empty() {
        output::print(&format!("\n{}", strangers(foreign)))?;
    }
    if !once.is_empty() {
        output::print(&format!("\n{}", runs::lines(once)))?;
    }
    Ok(())
}

fn strangers(foreign: &[Stranger]) -> String {
    let row = |stranger: &Stranger| [stranger.name_text(), stranger.client.clone(), stranger.session_text()];
    table::aligned(["FOREIGN CONTENDER", "CLIENT", "SESSION"], foreign.iter().map(row))
}

fn table(queue: &[Entry], now: Timestamp) -> String {
    let (has_readers, holders) = (queue::has_readers(queue), queue::holders(queue).len());
    let has_data = queue.iter().any(|entry| entry.data.is_some());
    // A lock without readers needs no kinds, and there everybody waits for everybody in front.
    let shown = [true, has_readers, true, true, true, true, true, has_readers, has_data];
    let columns = |row: [String; 9]| {
        row.into_iter().zip(shown).filter(|(_, shown)| *shown).map(|(cell, _)| cell).collect::<Vec<_>>()
    };
    let row = |entry: &Entry| {
        columns([
            entry.position_text(),
            entry.kind_text().to_owned(),
            entry.owner_text(),
            entry.since_text(now),
            entry.session_text(),
            entry.token_text(),
            entry.sequence_text(),
            entry.waits_for_text(holders),
            entry.data_text(),
        ])
    };
    let header = ["POSITION", "KIND", "OWNER", "SINCE", "SESSION", "TOKEN", "SEQUENCE", "WAITS FOR", "DATA"];
    let header = columns(header.map(str::to_owned));
    table::aligned(header.iter().map(String::as_str).collect::<Vec<_>>(), queue.iter().map(row))
}
