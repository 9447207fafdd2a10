//! `zklock show`: who holds a lock, and who waits for it.

mod history;
mod look;
mod screen;
mod view;
mod watch;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use jiff::Timestamp;
use serde::Serialize;
use zklock::Session;

use crate::args::Show;
use crate::closing;
use crate::connection::Connection;
use crate::console::Console;
use crate::exit::Code;
use crate::failure::{Failure, Outcome};
use crate::queue::{Entry, Stranger};
use crate::{output, table};

/// The JSON.
#[derive(Serialize)]
struct Queue<'a> {
    path: &'a str,
    contenders: &'a [Entry],
    /// The contenders of other clients.
    foreign: &'a [Stranger],
}

/// Prints the queue, or draws it until a key or a signal ends that.
pub(crate) async fn show(show: Show, connection: &Connection, console: Console) -> Outcome {
    if show.watch && !io::stdout().is_terminal() {
        return Err(Failure::usage(
            "--watch draws on a terminal, and standard output is not one; leave --watch out",
        ));
    }
    let session = connection.session().await?;
    let outcome = answer(&show, &session, console).await;
    closing::session(&session).await;
    outcome
}

async fn answer(show: &Show, session: &Session, console: Console) -> Outcome {
    let lock = session.lock(&show.path)?;
    if show.watch {
        return watch::watch(session, &lock).await;
    }
    let (queue, foreign) = look::seen(&lock).await?;
    // With --exit-code the code is the answer, and a quiet user reads nothing else.
    if !(show.exit_code && console.is_quiet()) {
        print(show, &queue, &foreign)?;
    }
    match show.exit_code && queue.is_empty() {
        true => Ok(Code::No.into()),
        false => Ok(ExitCode::SUCCESS),
    }
}

fn print(show: &Show, queue: &[Entry], foreign: &[Stranger]) -> Result<(), Failure> {
    if show.json {
        return output::print_json(&Queue { path: &show.path, contenders: queue, foreign });
    }
    if queue.is_empty() {
        output::print(&format!("nobody holds {}\n", show.path))?;
    } else {
        output::print(&table(queue, Timestamp::now()))?;
    }
    if !foreign.is_empty() {
        output::print(&format!("\n{}", strangers(foreign)))?;
    }
    Ok(())
}

fn strangers(foreign: &[Stranger]) -> String {
    let row = |stranger: &Stranger| [stranger.name_text(), stranger.client.clone(), stranger.session_text()];
    table::aligned(["FOREIGN CONTENDER", "CLIENT", "SESSION"], foreign.iter().map(row))
}

fn table(queue: &[Entry], now: Timestamp) -> String {
    let row = |entry: &Entry| {
        [
            position(entry.position),
            entry.owner_text(),
            entry.since_text(now),
            entry.session_text(),
            entry.token_text(),
            entry.sequence_text(),
        ]
    };
    let header = ["POSITION", "OWNER", "SINCE", "SESSION", "TOKEN", "SEQUENCE"];
    if queue.iter().all(|entry| entry.data.is_none()) {
        return table::aligned(header, queue.iter().map(row));
    }
    let [position, owner, since, session, token, sequence] = header;
    let with_data = queue.iter().map(|entry| {
        let [position, owner, since, session, token, sequence] = row(entry);
        [position, owner, since, session, token, sequence, entry.data_text()]
    });
    table::aligned([position, owner, since, session, token, sequence, "DATA"], with_data)
}

/// The first contender holds the lock. For the others it is the number of contenders before them.
fn position(position: usize) -> String {
    if position == 0 { "holder".to_owned() } else { position.to_string() }
}
