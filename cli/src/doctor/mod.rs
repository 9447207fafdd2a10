//! `zklock doctor`: looks at the servers and at the settings, and reports what makes locks fragile.
//!
//! ```text
//! server          asks each server       \
//! (a session)     its lengths             seen  ->  finding  ->  report, json
//! slew            this machine's clock  /           (pure)
//! ```

mod finding;
mod json;
mod report;
mod seen;
mod server;
mod slew;

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, join, join_all, select, try_join, try_join_all};
use jiff::Timestamp;
use zklock::inspect::ForeignClient;

use crate::args::Doctor;
use crate::connection::{Connection, Inquiry};
use crate::console::Console;
use crate::exit::Code;
use crate::failure::{Failure, Outcome};
use crate::found::Found;
use crate::layout::Layout;
use crate::pool::Shares;
use crate::queue::{Entry, entries, holders};
use crate::servers::{Contact, Questioner, ask_contacts};
use crate::{acl, output, unheld};
use finding::Severity;
use seen::{Holder, Lengths, Queue, Seen, Server, Wishes};

const DEFAULT_SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The results of a session: its lengths, and the queues of the locks to look at.
type Looks = (Lengths, Vec<Queue>);

pub(crate) async fn print_report(doctor: Doctor, connection: &Connection, console: Console) -> Outcome {
    let (seen, failure) = gather_facts(&doctor, connection, console).await?;
    let findings = finding::find_all(&seen);
    if doctor.json {
        output::print_json(&json::report_value(&seen, &findings, failure.as_ref()))?;
    } else if console.is_quiet() {
        output::print(&report::problems_text(&findings))?;
    } else {
        output::print(&report::report_text(&seen, &findings, failure.is_some()))?;
    }
    match failure {
        Some(failure) => Err(failure),
        None if findings.iter().any(|finding| finding.severity < Severity::Note) => Ok(Code::No.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Looks at everything. The failure says why there is no session.
async fn gather_facts(
    doctor: &Doctor,
    connection: &Connection,
    console: Console,
) -> Result<(Seen, Option<Failure>), Failure> {
    let wishes = Wishes {
        session_timeout: connection.session_timeout.unwrap_or(DEFAULT_SESSION_TIMEOUT),
        exact: connection.session_timeout.is_some(),
        tick: connection.tick,
        sends_password: connection.sends_password()?,
        sasl: connection.sasl.is_some(),
    };
    let (looked, clock_rate) = join(ask_all(connection, doctor, console), slew::measure_clock_rate()).await;
    let (servers, session) = looked?;
    let (session, locks, failure) = match session {
        Ok((session, locks)) => (Some(session), locks, None),
        Err(failure) => (None, Vec::new(), Some(failure)),
    };
    let is_chroot_missing = failure.as_ref().is_some_and(|failure| failure.code == Code::Nothing);
    let missing_chroot = is_chroot_missing.then(|| connection.chroot());
    Ok((Seen { servers, wishes, session, missing_chroot, locks, clock_rate }, failure))
}

/// Asks every server, and for a session, at the same time. If no server can be reached, it does not wait for a session.
async fn ask_all(
    connection: &Connection,
    doctor: &Doctor,
    console: Console,
) -> Result<(Vec<Server>, Result<Looks, Failure>), Failure> {
    let questioner = Questioner::new(connection)?;
    let servers = join_all(
        connection.servers()?.into_iter().map(|address| server::examine_server(&questioner, address)),
    );
    let mut session = pin!(open_session(connection, doctor, console));
    // Options that no server could accept are refused before any server is asked.
    if let Some(Err(failure)) = session.as_mut().now_or_never() {
        return Err(failure);
    }
    Ok(match select(session, servers).await {
        Either::Left((session, servers)) => (servers.await, session),
        Either::Right((servers, session)) if servers.iter().any(|server| server.words.is_ok()) => {
            (servers, session.await)
        }
        Either::Right((servers, _)) => {
            let named = connection.connect_string();
            let message = format!("no server of {named:?} can be reached");
            (servers, Err(Failure::new(Code::Unreachable, message)))
        }
    })
}

/// A session as locks would have it. If its timeout is not granted, no lock could use it, but the doctor reports on it.
async fn open_session(connection: &Connection, doctor: &Doctor, console: Console) -> Result<Looks, Failure> {
    let session = connection.session_as_granted().await?;
    let look = async |inquiry: Inquiry<'_>| {
        let queues = doctor.locks.iter().map(|path| examine_path(inquiry, path, doctor.layout));
        let queues = try_join_all(queues).await?;
        let session = inquiry.session;
        let lengths = Lengths {
            tick: session.tick(),
            timeout: session.timeout(),
            longest_stop_margin: session.longest_stop_margin(),
            longest_validity: session.longest_validity(),
        };
        Ok((lengths, queues))
    };
    connection.in_this_session(session, console, look).await
}

async fn examine_path(inquiry: Inquiry<'_>, path: &str, layout: Option<Layout>) -> Result<Queue, Failure> {
    match read_path(inquiry, path, layout).await {
        Err(failure) if failure.forbidden_path().is_some() => {
            let refused = acl::explain_refusal(failure, inquiry.connection).await.to_string();
            Ok(Queue { path: path.to_owned(), refused: Some(refused), ..Queue::default() })
        }
        queue => queue,
    }
}

async fn read_path(
    Inquiry { session, connection, .. }: Inquiry<'_>,
    path: &str,
    layout: Option<Layout>,
) -> Result<Queue, Failure> {
    let Found { lock, layout, pool, .. } = Found::at(session, path, layout).await?;
    let (contenders, mut foreign) = try_join(lock.contenders(), lock.foreign_contenders()).await?;
    // Nodes of other clients with names like zklock's are in both lists.
    let alike = foreign.iter().filter(|one| one.client == ForeignClient::Lookalike).count();
    let is_free = contenders.is_empty();
    let is_missing = is_free && session.child_count(path).await?.is_none();
    let pool = pool.filter(|_| is_free);
    let queue = entries(&contenders);
    let (held, waiting) = match &pool {
        Some(pool) => (&pool.holders[..], &pool.waiting[..]),
        None => queue.split_at(holders(&queue).len()),
    };
    let first = waiting.first().filter(|_| pool.is_some());
    let mut holders = with_contacts(connection, held.iter().chain(first)).await?;
    let first = first.and_then(|_| holders.pop());
    let waiting = waiting.len();
    let pool = pool.map(|pool| {
        foreign.extend(pool.foreign);
        Shares { stock: pool.stock, held: pool.held }
    });
    let theirs = contenders.iter().filter(|contender| contender.client.is_some()).count();
    let contenders = contenders.len().saturating_sub(alike + theirs);
    let missing =
        if is_missing { Some(unheld::explain_missing(session, path).await.to_string()) } else { None };
    let directory = lock.path().to_owned();
    let open = acl::is_open_to_all(connection, &directory).await.then_some(directory);
    Ok(Queue {
        path: path.to_owned(),
        missing,
        refused: None,
        open,
        layout,
        contenders,
        theirs,
        holders,
        waiting,
        first,
        pool,
        foreign,
    })
}

/// These, with what the servers know of their sessions.
async fn with_contacts(
    connection: &Connection,
    entries: impl Iterator<Item = &Entry> + Clone,
) -> Result<Vec<Holder>, Failure> {
    let sessions = entries.clone().filter_map(|entry| Some(entry.session?.0)).collect::<Vec<_>>();
    let contacts = if sessions.is_empty() { Vec::new() } else { ask_contacts(connection, &sessions).await? };
    let mut contacts = contacts.into_iter();
    let hidden = || Contact::Unknown("an ACL hides its node".to_owned());
    let holder = |entry: &Entry| Holder {
        entry: entry.clone(),
        came: entry.since_text(Timestamp::now()),
        contact: entry.session.and_then(|_| contacts.next()).unwrap_or_else(hidden),
    };
    Ok(entries.map(holder).collect())
}
