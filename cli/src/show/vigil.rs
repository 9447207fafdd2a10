//! What the servers know of those who hold a lock: since when, whether they live, and by when the lock is free if not.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join;
use jiff::Timestamp;
use serde::Serialize;
use zklock::Session;
use zookeeper_client::SessionId;

use crate::closing;
use crate::connection::Connection;
use crate::duration;
use crate::failure::Failure;
use crate::queue::{Entry, holders};
use crate::servers::{Contact, contacts};
use crate::text;

/// Of more readers than this, the others are left out.
const MOST: usize = 8;

/// A holder. The fields of the JSON have the same names.
#[derive(Serialize)]
pub(super) struct Vigil {
    #[serde(skip)]
    owner: String,
    #[serde(skip)]
    is_first: bool,
    session: String,
    /// It has been the first in the queue, or a reader beside the first one, at least since then, by the leader's clock. `None` if nothing shows it.
    held_since_at_latest: Option<String>,
    /// How far the clock of its machine is ahead of the leader's; below zero if it is behind. `None` if they are less than a minute apart.
    clock_ahead_ms: Option<i64>,
    /// How long ago a server last answered it. `None` if no server says so, or if none has a connection of it.
    heard_ago_ms: Option<u64>,
    heard_by: Option<String>,
    session_timeout_ms: Option<u64>,
    /// When the lock is free at the latest, if it is dead and the leader stays the same. `None` also if this machine's clock is known
    /// to be wrong.
    free_by: Option<String>,
    /// For how long the lock stays held at most, in that case.
    #[serde(skip)]
    free_within: Option<Duration>,
    /// Why the servers do not say whether it lives.
    unknown: Option<String>,
    /// Whether no server has a connection of it.
    disconnected: bool,
}

/// Asks about those who hold the lock at this path.
pub(super) async fn vigils(
    connection: &Connection,
    session: &Session,
    path: &str,
    queue: &[Entry],
) -> Result<Vec<Vigil>, Failure> {
    let holders = holders(queue).iter().filter_map(|entry| Some((entry, entry.session?))).take(MOST);
    let holders = holders.collect::<Vec<_>>();
    if holders.is_empty() {
        return Ok(Vec::new());
    }
    let sessions = holders.iter().map(|(_, session)| session.0).collect::<Vec<_>>();
    let (contacts, since) = join(contacts(connection, &sessions), since(connection, path, queue)).await;
    let (now, tick) = (Timestamp::now(), session.tick());
    let known = holders.iter().zip(contacts?);
    Ok(known.map(|((entry, id), contact)| vigil(entry, *id, contact, since, now, tick)).collect())
}

fn vigil(
    entry: &Entry,
    session: SessionId,
    contact: Contact,
    since: Option<Timestamp>,
    now: Timestamp,
    tick: Duration,
) -> Vigil {
    let free_within = contact.expires_in(tick);
    let is_clock_right = entry.own_clock_text(now).is_none();
    let free_by = free_within.filter(|_| is_clock_right).and_then(|left| now.checked_add(left).ok());
    let millis = |length: Duration| u64::try_from(length.as_millis()).ok();
    let mut vigil = Vigil {
        owner: entry.owner_text(),
        is_first: entry.position == 0,
        session: session.to_string(),
        held_since_at_latest: since.and_then(rounded_up),
        clock_ahead_ms: entry.clock_ahead().and_then(|ahead| i64::try_from(ahead.as_millis()).ok()),
        heard_ago_ms: None,
        heard_by: None,
        session_timeout_ms: None,
        free_by: free_by.and_then(rounded_up),
        free_within,
        unknown: None,
        disconnected: contact == Contact::Gone,
    };
    match contact {
        Contact::Heard { ago, timeout, by } => {
            (vigil.heard_ago_ms, vigil.session_timeout_ms) = (millis(ago), millis(timeout));
            vigil.heard_by = Some(by);
        }
        Contact::Gone => {}
        Contact::Unknown(why) => vigil.unknown = Some(why),
    }
    vigil
}

/// The next whole second: both times are bounds from above.
fn rounded_up(time: Timestamp) -> Option<String> {
    time.checked_add(Duration::from_millis(999)).ok().map(|time| format!("{time:.0}"))
}

/// Since when the holders are the first in the queue at least, by the leader's clock.
///
/// The directory's `pzxid` names the last transaction that created or deleted a child. If that one created the last
/// contender, nobody has left since. So the one that is the first now was the first then. The queue may have been read at
/// another server than the stat, which lags behind: so the same client lists the directory again, and has to find exactly
/// the contenders of the queue.
async fn since(connection: &Connection, path: &str, queue: &[Entry]) -> Option<Timestamp> {
    let last = queue.iter().max_by_key(|entry| entry.token)?;
    let client = connection.client().await.ok()?;
    let listed = client.get_children(path).await;
    closing::client(client).await;
    let (children, directory) = listed.ok()?;
    let queued = queue.iter().filter_map(|entry| entry.node.rsplit('/').next()).collect::<BTreeSet<_>>();
    let found = children.iter().map(String::as_str).collect::<BTreeSet<_>>();
    let is_unchanged = found == queued && last.token == Some(directory.pzxid);
    last.created.filter(|_| is_unchanged)
}

impl Vigil {
    /// Some sentences about it.
    pub(super) fn text(&self) -> String {
        let owner = &self.owner;
        let place =
            if self.is_first { "been the first in the queue" } else { "held it beside the first reader" };
        let since = self.held_since_at_latest.as_ref();
        let mut said = match since {
            Some(since) => format!("{owner} has {place} since {since}, or longer."),
            None => format!("{owner}: nothing shows since when it has {place}."),
        };
        if let (Some(ago), Some(by), Some(within)) = (self.heard_ago_ms, &self.heard_by, self.free_within) {
            let (ago, by) = (duration::text(Duration::from_millis(ago)), text::harmless(by));
            // A wrong clock shows no time.
            let free = self.free_by.as_ref().map_or_else(
                || format!("within {}", duration::text(within + Duration::from_millis(10))),
                |free| format!("by {free}"),
            );
            said += &format!(
                " {by} answered it {ago} ago. If it is dead, the lock is free {free}, unless the leader changes."
            );
        }
        if self.disconnected {
            said += " No server of --servers has a connection of its session: it is cut off or dead, or another server has one.";
        }
        if let Some(why) = &self.unknown {
            said += &format!(" The servers do not say whether it lives ({}).", text::harmless(why));
        }
        said + "\n"
    }
}
