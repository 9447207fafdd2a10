//! `zklock release --force`: takes a lock from its holder, or from all readers that hold it.
//!
//! It deletes the nodes that the user saw, and no other. It reads each node again right before, and compares the
//! transaction that created the node with the token. ZooKeeper deletes by name and version only, so a gap of one round
//! trip stays. To be hit in it, a successor needs a node with the same number: the holder would have to release, the
//! servers to delete the empty directory, and the successor to create the directory and its node, all within the gap.

use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;

use futures::future::join_all;
use jiff::Timestamp;
use zklock::inspect::Kind;
use zookeeper_client::{Client, Error};

use crate::args::Release;
use crate::closing;
use crate::connection::Connection;
use crate::console::Console;
use crate::exit::Code;
use crate::failure::{Failure, Outcome};
use crate::place;
use crate::pool::Pool;
use crate::queue::{self, Entry};
use crate::text;

/// Shows the holders, asks the user, and deletes the holders' nodes. Only readers are several.
pub(crate) async fn release(release: Release, connection: &Connection, console: Console) -> Outcome {
    let path = release.path.as_str();
    if !release.yes && !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "zklock cannot ask for confirmation, because standard input is not a terminal; give --yes",
        ));
    }
    // A question needs the facts it is about, even with --quiet.
    let console = if release.yes { console } else { Console::Normal };
    let (chosen, spared) = holders(&release, connection).await?;
    console.note(description(path, &chosen));
    let doomed =
        chosen.iter().map(|holder| holder.token.map(|token| (holder.node.as_str(), token)).ok_or(holder));
    let doomed = doomed.collect::<Result<Vec<_>, _>>().map_err(|unread| {
        let node = &unread.node;
        let problem = format!(
            "these credentials may not read {node}, so zklock cannot be sure that it would delete the right holder's node; \
             nothing was deleted"
        );
        Failure::forbidden(node, problem)
    })?;
    if !release.yes && !confirmed(doomed.len()).await? {
        return Err(Failure::new(Code::No, "nothing was released"));
    }
    // The session that read the queue is closed already, because the user may take long to answer.
    let client = connection.client().await?;
    // One that is gone already must not spare the others.
    let removed = join_all(doomed.iter().map(|(node, token)| remove(&client, node, *token))).await;
    closing::client(client).await;
    let taken = removed.iter().filter(|removed| removed.is_ok()).count();
    if taken > 0 {
        console.note(told(path, taken, spared));
    }
    let mut failures = removed.into_iter().filter_map(Result::err).collect::<Vec<_>>();
    // A node that is gone by itself is what the user wanted, so the others matter more.
    failures.sort_by_key(|failure| failure.code == Code::No);
    for failure in failures {
        if failure.code != Code::No || taken == 0 {
            return Err(failure);
        }
        console.warn(failure);
    }
    Ok(ExitCode::SUCCESS)
}

/// Those that are to lose the lock, one at least, and how many others keep it.
async fn holders(release: &Release, connection: &Connection) -> Result<(Vec<Entry>, usize), Failure> {
    let path = release.path.as_str();
    let session = connection.session().await?;
    let seen = async {
        let (lock, _) = queue::lock(&session, path, None).await?;
        let queue = lock.contenders().await?;
        let pool = if queue.is_empty() { Pool::at(&session, path).await? } else { None };
        Ok::<_, Failure>((queue, pool))
    };
    let seen = seen.await;
    let unheld = match &seen {
        Ok((queue, None)) if queue.is_empty() => place::unheld(connection, &session, path).await,
        _ => Ok(String::new()),
    };
    closing::session(&session).await;
    let ((queue, pool), unheld) = (seen?, unheld?);
    if let Some(holder) = pool.as_ref().and_then(Pool::oldest) {
        return Err(Failure::usage(format_args!(
            "{path} is not a lock but a semaphore or slots; to take a permit or a slot from its holder, delete the \
             holder's node; `zklock show --json {path}` lists the nodes, such as {}",
            text::harmless(&holder.node)
        )));
    }
    let queue = queue::entries(&queue);
    let holders = queue::holders(&queue);
    if let Some(Entry { client: Some(client), node, .. }) = holders.iter().find(|one| one.client.is_some()) {
        return Err(Failure::new(
            Code::No,
            format_args!(
                "the holder {} belongs to {client}, which does not notice that its node is deleted; stop the holder's                  program; nothing was released",
                text::harmless(node)
            ),
        ));
    }
    let is_chosen = |holder: &&Entry| release.sequence.is_none_or(|number| holder.sequence == Some(number));
    let chosen = holders.iter().filter(is_chosen).cloned().collect::<Vec<_>>();
    match (chosen.is_empty(), release.sequence) {
        (false, _) => {
            let spared = holders.len() - chosen.len();
            Ok((chosen, spared))
        }
        (true, Some(number)) if !holders.is_empty() => {
            Err(Failure::new(Code::No, format_args!("no holder of {path} has the sequence {number}")))
        }
        (true, _) => Err(Failure::new(Code::No, unheld)),
    }
}

fn description(path: &str, holders: &[Entry]) -> String {
    let describe = |holder: &Entry| {
        let reader = if holder.kind == Kind::Shared { "the reader " } else { "" };
        format!(
            "{path} is held by {reader}{}\n  in the queue since {}\n  node {}\n  session {}\n  token {}",
            holder.owner_text(),
            holder.since_text(Timestamp::now()),
            holder.node,
            holder.session_text(),
            holder.token_text(),
        )
    };
    holders.iter().map(describe).collect::<Vec<_>>().join("\n")
}

fn told(path: &str, taken: usize, spared: usize) -> String {
    let (from, subject) = match taken {
        1 => (
            "the holder".to_owned(),
            "The holder learns of this within a round trip. Until then it may act as if it still held",
        ),
        several => (
            format!("{several} readers"),
            "They learn of this within a round trip. Until then they may act as if they still held",
        ),
    };
    let next = match spared {
        0 => "The next contender is granted at once, unless it has a takeover delay".to_owned(),
        1 => "1 other reader still holds it".to_owned(),
        others => format!("{others} other readers still hold it"),
    };
    format!("{path} was taken from {from}. {subject} the lock. {next}")
}

/// Asks on the terminal. No answer is a no.
async fn confirmed(holders: usize) -> Result<bool, Failure> {
    let whom = if holders == 1 { "this holder".to_owned() } else { format!("these {holders} readers") };
    let _gone = write!(anstream::stderr(), "Take the lock from {whom}? [y/N] ");
    let answer = || {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    };
    let answer = tokio::task::spawn_blocking(answer).await.map_err(Failure::internal)?;
    let line =
        answer.map_err(|error| Failure::usage(format_args!("zklock cannot read your answer: {error}")))?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

async fn remove(client: &Client, node: &str, token: i64) -> Result<(), Failure> {
    let gone = || {
        Failure::new(Code::No, format_args!("the holder of {node} has already left, so nothing was deleted"))
    };
    let version = match client.get_data(node).await {
        Ok((_, stat)) if stat.czxid == token => stat.version,
        Ok(_) | Err(Error::NoNode) => return Err(gone()),
        Err(error) => return Err(failure(node, error)),
    };
    match client.delete(node, Some(version)).await {
        Ok(()) => Ok(()),
        Err(Error::NoNode) => Err(gone()),
        Err(Error::BadVersion) => {
            let problem = "meanwhile, so it was not deleted";
            Err(Failure::new(Code::No, format_args!("somebody wrote to {node} {problem}")))
        }
        Err(Error::ConnectionLoss | Error::SessionExpired) => {
            let problem = "the node may be deleted or not; look at the queue with `zklock show`";
            let lost = format!("the connection was lost while {node} was being deleted; {problem}");
            Err(Failure::new(Code::Unreachable, lost))
        }
        Err(error) => Err(failure(node, error)),
    }
}

fn failure(node: &str, error: Error) -> Failure {
    let is_forbidden = error == Error::NoAuth;
    let plain = Failure::from(error);
    let message = format!("deleting {node}: {plain}");
    // The ACL of the directory forbids the deletion of a child.
    let directory = node.rsplit_once('/').map_or(node, |(directory, _)| directory);
    if is_forbidden { Failure::forbidden(directory, message) } else { Failure::new(plain.code, message) }
}
