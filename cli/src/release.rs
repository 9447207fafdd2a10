//! `zklock release --force`: takes a lock from its holder, or from all readers that hold it; or the lead, a permit or a slot from its
//! holder.
//!
//! It deletes the nodes that the user saw, and no other. It reads each node again right before, and compares the
//! transaction that created the node with the token. ZooKeeper deletes by name and version only, so a gap of one round
//! trip stays. To be hit in it, a successor needs a node with the same number: the holder would have to release, the
//! servers to delete the empty directory, and the successor to create the directory and its node, all within the gap.

use std::process::ExitCode;

use futures::future::join_all;
use jiff::Timestamp;
use zklock::{Session, inspect::Kind};
use zookeeper_client::{Client, Error, Permission};

use crate::args::Release;
use crate::connection::Connection;
use crate::console::Console;
use crate::exit::Code;
use crate::failure::{Failure, Outcome};
use crate::found::Found;
use crate::pool::{Pool, Stock};
use crate::queue::{self, Entry};
use crate::{closing, question, text, unheld};

/// Shows the holders, asks the user, and deletes the holders' nodes. Only readers are several.
pub(crate) async fn release_by_force(release: Release, connection: &Connection, console: Console) -> Outcome {
    let path = release.path.as_str();
    // A question needs the facts it is about, even with --quiet.
    let console = if release.yes { console } else { Console::Normal };
    let Chosen { holders: chosen, spared, leads, next } = connection
        .in_session(console, async |inquiry| choose_holders(&release, inquiry.session).await)
        .await?;
    if !release.yes {
        question::check_terminal()?;
    }
    for line in chosen.iter().flat_map(|holder| holder_lines(path, holder, leads)) {
        console.note(line);
    }
    console.note(consequence_text(next.as_ref(), spared));
    let doomed =
        chosen.iter().map(|holder| holder.token.map(|token| (holder.node.as_str(), token)).ok_or(holder));
    let doomed = doomed.collect::<Result<Vec<_>, _>>().map_err(|unread| {
        let node = &unread.node;
        let problem = format!(
            "these credentials may not read {node}, so zklock cannot be sure that it would delete the right holder's node; \
             nothing was deleted"
        );
        Failure::forbidden(node, &[Permission::READ], problem)
    })?;
    let whom = match chosen.as_slice() {
        [holder] => format!("Take {} from this holder?", held_text(holder, leads)),
        several => format!("Take the lock from these {} readers?", several.len()),
    };
    if !release.yes && !question::ask_user(&whom).await? {
        return Err(Failure::new(Code::No, "nothing was released"));
    }
    // The session that read the queue is closed already, because the user may take long to answer.
    let client = connection.client().await?;
    // One that is gone already must not spare the others.
    let removed = join_all(doomed.iter().map(|(node, token)| delete_node(&client, node, *token))).await;
    closing::close_client(client).await;
    let taken = removed.iter().filter(|removed| removed.is_ok()).count();
    if let (1.., Some(holder)) = (taken, chosen.first()) {
        let held = held_text(holder, leads);
        console.note(match holder.kind {
            Kind::Exclusive | Kind::Shared => lock_taken_text(path, &held, taken, spared),
            Kind::Permit(_) | Kind::Slot(_) => format!(
                "{held} of {path} was taken from the holder. The holder learns {WHEN} it may act as if it still held it. The next \
                 contender may take it at once, unless it has a takeover delay"
            ),
        });
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

/// When those who have lost it learn of that.
const WHEN: &str = "of this within a round trip. A holder that is stopped or cut off learns of this later, and its lease ends \
     after 9.1 s at most with the default session timeout. Until then";

struct Chosen {
    /// Those that are to lose it, one at least.
    holders: Vec<Entry>,
    /// How many others keep it.
    spared: usize,
    /// Whether it is the lead of an election.
    leads: bool,
    /// The first one that waits.
    next: Option<Entry>,
}

async fn choose_holders(release: &Release, session: &Session) -> Result<Chosen, Failure> {
    let path = release.path.as_str();
    let Found { lock, election, pool, .. } = Found::at(session, path, None).await?;
    let leads = election.is_some();
    let queue = lock.contenders().await?;
    if let Some(pool) = pool.filter(|pool| queue.is_empty() && !pool.holders.is_empty()) {
        let holders = vec![named_holder(&pool, release)?];
        return Ok(Chosen { holders, spared: 0, leads, next: pool.waiting.into_iter().next() });
    }
    let unheld = if queue.is_empty() { unheld::describe_unheld(session, path).await? } else { String::new() };
    if let (Some(index), false) = (release.slot, queue.is_empty()) {
        return Err(Failure::usage(format_args!(
            "{path} is {}, so it has no slot {index}; leave out --slot",
            if leads { "an election" } else { "a lock" }
        )));
    }
    let queue = queue::entries(&queue);
    let holders = queue::holders(&queue);
    if let Some(Entry { client: Some(client), node, .. }) = holders.iter().find(|one| one.client.is_some()) {
        return Err(Failure::new(
            Code::No,
            format_args!(
                "the holder {} belongs to {client}, which does not notice that its node is deleted; stop the holder's program; nothing was released",
                text::harmless(node)
            ),
        ));
    }
    let is_chosen = |holder: &&Entry| release.sequence.is_none_or(|number| holder.sequence == Some(number));
    let chosen = holders.iter().filter(is_chosen).cloned().collect::<Vec<_>>();
    match (chosen.is_empty(), release.sequence) {
        (false, _) => {
            let spared = holders.len() - chosen.len();
            Ok(Chosen { holders: chosen, spared, leads, next: queue.get(holders.len()).cloned() })
        }
        (true, Some(number)) if !holders.is_empty() => {
            Err(Failure::new(Code::No, format_args!("no holder of {path} has the sequence {number}")))
        }
        (true, _) => Err(Failure::new(Code::No, unheld)),
    }
}

/// The one holder of a pool that the user has named; or the only holder, if the user has named none.
fn named_holder(pool: &Pool, release: &Release) -> Result<Entry, Failure> {
    let path = release.path.as_str();
    if let (Some(index), Stock::Semaphore { .. }) = (release.slot, pool.stock) {
        return Err(Failure::usage(format_args!(
            "{path} is a semaphore, so it has no slot {index}; name the permit with --sequence"
        )));
    }
    let mut named = pool.holders.iter().filter(|holder| {
        release.sequence.is_none_or(|number| holder.sequence == Some(number))
            && release.slot.is_none_or(|index| holder.kind == Kind::Slot(index))
    });
    match (named.next(), named.count(), release.slot, release.sequence) {
        (Some(holder), 0, ..) => Ok(holder.clone()),
        (Some(_), ..) => Err(Failure::usage(format_args!(
            "{} of {path} are held by {} holders; name one with {}, as `zklock show {path}` has them",
            pool.stock.text(pool.held),
            pool.holders.len(),
            match pool.stock {
                Stock::Semaphore { .. } => "--sequence",
                Stock::Slots { .. } => "--slot or --sequence",
            }
        ))),
        (None, _, Some(index), None) => {
            Err(Failure::new(Code::No, format_args!("nobody holds slot {index} of {path}")))
        }
        (None, ..) => {
            let number =
                release.sequence.map_or_else(String::new, |number| format!(" with the sequence {number}"));
            Err(Failure::new(Code::No, format_args!("{path} has no such holder{number}")))
        }
    }
}

/// What a holder has.
fn held_text(holder: &Entry, leads: bool) -> String {
    match holder.kind {
        Kind::Exclusive | Kind::Shared => if leads { "the lead" } else { "the lock" }.to_owned(),
        Kind::Permit(1) => "the permit".to_owned(),
        Kind::Permit(weight) => format!("the permit of weight {weight}"),
        Kind::Slot(index) => format!("slot {index}"),
    }
}

fn holder_lines(path: &str, holder: &Entry, leads: bool) -> [String; 5] {
    let held = match holder.kind {
        Kind::Exclusive if leads => format!("{path} is led by"),
        Kind::Exclusive => format!("{path} is held by"),
        Kind::Shared => format!("{path} is held by the reader"),
        Kind::Permit(_) | Kind::Slot(_) => format!("{} of {path} is held by", held_text(holder, leads)),
    };
    [
        format!("{held} {}", holder.owner_text()),
        format!("  in the queue since {}", holder.since_text(Timestamp::now())),
        format!("  node {}", holder.node),
        format!("  session {}", holder.session_text()),
        format!("  token {}", holder.token_text()),
    ]
}

/// Who is next, and for how long two may run.
fn consequence_text(next: Option<&Entry>, spared: usize) -> String {
    let next = match (next, spared) {
        (_, 1..) => "Other readers keep it.".to_owned(),
        (Some(next), 0) => {
            format!(
                "The next contender is {}. It may start at once, unless it has a takeover delay.",
                next.owner_text()
            )
        }
        (None, 0) => "Nobody waits. The next contender that comes may start at once.".to_owned(),
    };
    format!(
        "{next} The holder's command may run beside the next one: the command gets SIGTERM once its zklock hears of this, and may run \
         until --kill-after is over; if its zklock is stopped or cut off, until its lease ends, at most 9.1 s with the default \
         session timeout"
    )
}

fn lock_taken_text(path: &str, held: &str, taken: usize, spared: usize) -> String {
    let (from, subject) = match taken {
        1 => ("the holder".to_owned(), format!("The holder learns {WHEN} it may act as if it still held")),
        several => {
            (format!("{several} readers"), format!("They learn {WHEN} they may act as if they still held"))
        }
    };
    let next = match spared {
        0 => "The next contender is granted at once, unless it has a takeover delay".to_owned(),
        1 => "1 other reader still holds it".to_owned(),
        others => format!("{others} other readers still hold it"),
    };
    format!("{path} was taken from {from}. {subject} {held}. {next}")
}

async fn delete_node(client: &Client, node: &str, token: i64) -> Result<(), Failure> {
    let gone = || {
        Failure::new(Code::No, format_args!("the holder of {node} has already left, so nothing was deleted"))
    };
    let version = match client.get_data(node).await {
        Ok((_, stat)) if stat.czxid == token => stat.version,
        Ok(_) | Err(Error::NoNode) => return Err(gone()),
        Err(error) => return Err(deletion_failure(node, error)),
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
        Err(error) => Err(deletion_failure(node, error)),
    }
}

fn deletion_failure(node: &str, error: Error) -> Failure {
    let is_forbidden = error == Error::NoAuth;
    let plain = Failure::from(error);
    let message = format!("deleting {node}: {plain}");
    // The ACL of the directory forbids the deletion of a child.
    let directory = node.rsplit_once('/').map_or(node, |(directory, _)| directory);
    if is_forbidden {
        return Failure::forbidden(directory, &[Permission::DELETE], message);
    }
    Failure::new(plain.code, message)
}
