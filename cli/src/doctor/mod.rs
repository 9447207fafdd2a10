//! `zklock doctor`: looks at the servers and at the settings, and reports what makes locks fragile.
//!
//! ```text
//! word, server    ask each server        \
//!                                          seen  ->  finding  ->  report, json
//! lease           a session's lengths    /           (pure)
//! slew            this machine's clock  /
//! ```

mod answers;
mod finding;
mod json;
mod lease;
mod report;
mod seen;
mod server;
mod slew;
mod word;

use std::pin::pin;
use std::process::ExitCode;

use futures::future::{Either, join, join_all, select, try_join, try_join_all};
use jiff::Timestamp;
use zklock::{Session, inspect::ForeignClient};

use crate::args::Doctor;
use crate::closing;
use crate::connection::Connection;
use crate::console::Console;
use crate::exit::Code;
use crate::failure::{Failure, Outcome};
use crate::layout::Layout;
use crate::output;
use crate::place::Place;
use crate::queue::{self, entries, holders};
use finding::Severity;
use lease::Arithmetic;
use seen::{Holder, Queue, Seen, Server, Wishes};
use server::Questioner;

/// The default session timeout of the library.
const DEFAULT_SESSION_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// The results of a session: its lengths, and the queues of the locks to look at.
type Looks = (Arithmetic, Vec<Queue>);

/// Looks, and prints the report.
pub(crate) async fn examine(doctor: Doctor, connection: &Connection, console: Console) -> Outcome {
    let wishes = Wishes {
        session_timeout: connection.session_timeout.unwrap_or(DEFAULT_SESSION_TIMEOUT),
        exact: connection.session_timeout.is_some(),
        tick: connection.tick,
        digest: connection.digest()?.is_some(),
    };
    let (looked, clock_rate) = join(look(connection, &doctor), slew::rate()).await;
    let (servers, session) = looked?;
    let (session, locks, failure) = match session {
        Ok((session, locks)) => (Some(session), locks, None),
        Err(failure) => (None, Vec::new(), Some(failure)),
    };
    let seen = Seen { servers, wishes, session, locks, clock_rate };
    let findings = finding::findings(&seen);
    if doctor.json {
        output::print_json(&json::report(&seen, &findings, failure.as_ref()))?;
    } else if console.is_quiet() {
        output::print(&report::problems(&findings))?;
    } else {
        output::print(&report::text(&seen, &findings))?;
    }
    match failure {
        Some(failure) => Err(failure),
        None if findings.iter().any(|finding| finding.severity < Severity::Note) => Ok(Code::No.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Asks every server, and for a session, at the same time. If no server can be reached, it does not wait for a session.
async fn look(
    connection: &Connection,
    doctor: &Doctor,
) -> Result<(Vec<Server>, Result<Looks, Failure>), Failure> {
    let questioner = Questioner::new(connection)?;
    let servers = join_all(connection.servers()?.into_iter().map(|address| questioner.ask(address)));
    let session = pin!(session(connection, doctor));
    Ok(match select(session, servers).await {
        Either::Left((session, servers)) => (servers.await, session),
        Either::Right((servers, session)) => match servers.iter().any(|server| server.words.is_ok()) {
            true => (servers, session.await),
            false => (servers, Err(nobody(connection))),
        },
    })
}

fn nobody(connection: &Connection) -> Failure {
    let servers = connection.connect_string();
    Failure::new(Code::Unreachable, format_args!("no server of {servers:?} can be reached"))
}

/// A session as locks would have it. If its timeout is not granted, no lock could use it, but the doctor reports on it.
async fn session(connection: &Connection, doctor: &Doctor) -> Result<Looks, Failure> {
    let session = connection.session_as_granted().await?;
    let lengths = Arithmetic::of(&session);
    let queues =
        try_join_all(doctor.locks.iter().map(|path| queue(connection, &session, path, doctor.layout))).await;
    closing::session(&session).await;
    Ok((lengths, queues?))
}

async fn queue(
    connection: &Connection,
    session: &Session,
    path: &str,
    layout: Option<Layout>,
) -> Result<Queue, Failure> {
    let (lock, layout) = queue::lock(session, path, layout).await?;
    let (contenders, foreign) = try_join(lock.contenders(), lock.foreign_contenders()).await?;
    // Nodes of other clients with names like zklock's are in both lists.
    let alike = foreign.iter().filter(|one| one.client == ForeignClient::Lookalike).count();
    let place = if contenders.is_empty() { Some(Place::of(connection, path).await?) } else { None };
    let queue = entries(&contenders);
    let holders = holders(&queue);
    let holder = holders.first().map(|holder| Holder {
        owner: holder.owner_text(),
        came: holder.since_text(Timestamp::now()),
        session: holder.session_text(),
        is_zklocks: holder.client.is_none(),
        waiting: queue.len() - holders.len(),
    });
    let theirs = contenders.iter().filter(|contender| contender.client.is_some()).count();
    let contenders = contenders.len().saturating_sub(alike + theirs);
    let missing =
        place.and_then(|place| place.missing(connection, path).err()).map(|missing| missing.to_string());
    Ok(Queue { path: path.to_owned(), missing, layout, contenders, theirs, holder, foreign })
}
