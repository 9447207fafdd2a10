//! `zklock release --force`: takes a lock from its holder.
//!
//! It deletes the node that the user saw, and no other. It reads the node again right before, and compares the
//! transaction that created the node with the token. ZooKeeper deletes by name and version only, so a gap of one round
//! trip stays. To be hit in it, a successor needs a node with the same number: the holder would have to release, the
//! servers to delete the empty directory, and the successor to create the directory and its node, all within the gap.

use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;

use jiff::Timestamp;
use zookeeper_client::{Client, Error};

use crate::args::Release;
use crate::closing;
use crate::connection::Connection;
use crate::console::{Console, Level};
use crate::exit::Code;
use crate::failure::{Failure, Outcome};
use crate::queue::Entry;

/// Shows the holder, asks the user, and deletes the holder's node.
pub(crate) async fn release(release: Release, connection: &Connection, console: Console) -> Outcome {
    let path = release.path.as_str();
    if !release.yes && !io::stdin().is_terminal() {
        return Err(Failure::usage("no terminal to ask on; give --yes"));
    }
    // A question needs the facts it is about, even with --quiet.
    let console = if release.yes { console } else { Console::new(Level::Normal) };
    let holder = holder(path, connection).await?;
    console.note(description(path, &holder));
    let Some(token) = holder.token else {
        let problem =
            "may not be read with these credentials, so it might be another holder's when it is deleted";
        return Err(Failure::new(Code::NotAuthorized, format_args!("{} {problem}", holder.node)));
    };
    if !release.yes && !confirmed().await? {
        return Err(Failure::new(Code::No, "nothing was released"));
    }
    // The session that read the queue is closed already, because the user may take long to answer.
    let client = connection.client().await?;
    let removed = remove(&client, &holder.node, token).await;
    closing::client(client).await;
    removed?;
    console.note(format_args!(
        "{path} was taken from the holder. The holder hears of that within a round trip, and may believe until then that it holds \
         the lock. The next contender holds the lock at once, unless it has a takeover delay"
    ));
    Ok(ExitCode::SUCCESS)
}

async fn holder(path: &str, connection: &Connection) -> Result<Entry, Failure> {
    let session = connection.session().await?;
    let queue = async { Ok::<_, Failure>(session.lock(path)?.contenders().await?) }.await;
    closing::session(&session).await;
    let nobody = || Failure::new(Code::No, format_args!("nobody holds {path}"));
    queue?.first().map(Entry::from).ok_or_else(nobody)
}

fn description(path: &str, holder: &Entry) -> String {
    format!(
        "{path} is held by {}\n  contending since {}\n  node {}\n  session {}\n  token {}",
        holder.owner_text(),
        holder.since_text(Timestamp::now()),
        holder.node,
        holder.session_text(),
        holder.token_text(),
    )
}

/// Asks on the terminal. No answer is a no.
async fn confirmed() -> Result<bool, Failure> {
    let _gone = write!(anstream::stderr(), "Take the lock from it? [y/N] ");
    let answer = || {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    };
    let answer = tokio::task::spawn_blocking(answer).await.map_err(Failure::internal)?;
    let line = answer.map_err(|error| Failure::usage(format_args!("the answer cannot be read: {error}")))?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

async fn remove(client: &Client, node: &str, token: i64) -> Result<(), Failure> {
    let gone = || Failure::new(Code::No, format_args!("{node} is gone by itself; nothing was deleted"));
    let version = match client.get_data(node).await {
        Ok((_, stat)) if stat.czxid == token => stat.version,
        Ok(_) | Err(Error::NoNode) => return Err(gone()),
        Err(error) => return Err(failure(node, error)),
    };
    match client.delete(node, Some(version)).await {
        Ok(()) => Ok(()),
        Err(Error::NoNode) => Err(gone()),
        Err(Error::BadVersion) => {
            let problem = "was written to meanwhile; nothing was deleted";
            Err(Failure::new(Code::No, format_args!("{node} {problem}")))
        }
        Err(Error::ConnectionLoss | Error::SessionExpired) => {
            let problem = "the connection was lost before the answer came, so the node may be removed; look at the queue";
            Err(Failure::new(Code::Unreachable, format_args!("deleting {node}: {problem}")))
        }
        Err(error) => Err(failure(node, error)),
    }
}

fn failure(node: &str, error: Error) -> Failure {
    let plain = Failure::from(error);
    Failure::new(plain.code, format_args!("deleting {node}: {plain}"))
}
