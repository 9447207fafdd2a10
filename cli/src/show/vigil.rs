//! What the servers know of those who hold a lock: since when, whether they live, and by when the lock is free if not.

use std::collections::BTreeSet;
use std::iter::repeat;
use std::time::Duration;

use futures::future::{join, try_join, try_join_all};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use zklock::Session;
use zookeeper_client::{SessionId, Stat};

use crate::closing;
use crate::connection::Connection;
use crate::duration;
use crate::failure::Failure;
use crate::queue::{Entry, holders};
use crate::servers::{Contact, contacts};
use crate::text;

/// Of more readers than this, the others are left out.
const MOST: usize = 8;

/// Two clocks differ if their times of one create are this far apart: a create takes less.
const APART: SignedDuration = SignedDuration::from_mins(1);

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
    /// When the lock is free at the latest, if it is dead and the leader stays the same.
    free_by: Option<String>,
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
    let dates = dates(connection, path, queue, &holders);
    let (contacts, dates) = join(contacts(connection, &sessions), dates).await;
    let (contacts, (since, created)) = (contacts?, dates.unwrap_or_default());
    let (now, tick) = (Timestamp::now(), session.tick());
    let created = created.into_iter().chain(repeat(None));
    Ok(holders
        .iter()
        .zip(contacts)
        .zip(created)
        .map(|(((entry, id), contact), created)| vigil(entry, *id, contact, since, created, now, tick))
        .collect())
}

fn vigil(
    entry: &Entry,
    session: SessionId,
    contact: Contact,
    since: Option<Timestamp>,
    created: Option<Timestamp>,
    now: Timestamp,
    tick: Duration,
) -> Vigil {
    let free_by = contact.expires_in(tick).and_then(|left| now.checked_add(left).ok());
    let millis = |length: Duration| u64::try_from(length.as_millis()).ok();
    let mut vigil = Vigil {
        owner: entry.owner_text(),
        is_first: entry.position == 0,
        session: session.to_string(),
        held_since_at_latest: since.and_then(rounded_up),
        clock_ahead_ms: created.and_then(|created| ahead(entry, created)),
        heard_ago_ms: None,
        heard_by: None,
        session_timeout_ms: None,
        free_by: free_by.and_then(rounded_up),
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

/// How far the clock by which this contender came is ahead of the leader's, by which its node was created. `None` if they are
/// close.
fn ahead(entry: &Entry, created: Timestamp) -> Option<i64> {
    let ahead = entry.since?.duration_since(created);
    (ahead.abs() > APART).then(|| i64::try_from(ahead.as_millis()).ok()).flatten()
}

/// Since when the holders are the first in the queue at least, and when the node of each was created, by the leader's clock.
///
/// The directory's `pzxid` names the last transaction that created or deleted a child. If that one created the last
/// contender, nobody has left since. So the one that is the first now was the first then. The queue may have been read at
/// another server than the stat, which lags behind: so the same client lists the directory again, and has to find exactly
/// the contenders of the queue.
async fn dates(
    connection: &Connection,
    path: &str,
    queue: &[Entry],
    holders: &[(&Entry, SessionId)],
) -> Option<(Option<Timestamp>, Vec<Option<Timestamp>>)> {
    let last = queue.iter().max_by_key(|entry| entry.token)?;
    let entries = holders.iter().map(|(entry, _)| *entry).chain([last]).collect::<Vec<_>>();
    let client = connection.client().await.ok()?;
    let stats = try_join_all(entries.iter().map(|entry| client.check_stat(&entry.node)));
    let looks = try_join(client.get_children(path), stats).await;
    closing::client(client).await;
    let ((children, directory), stats) = looks.ok()?;
    let created = |(entry, stat): (&&Entry, &Option<Stat>)| {
        let stat = stat.filter(|stat| entry.token == Some(stat.czxid))?;
        Timestamp::from_millisecond(stat.ctime).ok()
    };
    let mut created = entries.iter().zip(&stats).map(created).collect::<Vec<_>>();
    let queued = queue.iter().filter_map(|entry| entry.node.rsplit('/').next()).collect::<BTreeSet<_>>();
    let found = children.iter().map(String::as_str).collect::<BTreeSet<_>>();
    let is_unchanged = found == queued && last.token == Some(directory.pzxid);
    Some((created.pop()?.filter(|_| is_unchanged), created))
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
        if let Some(ahead) = self.clock_ahead_ms {
            let way = if ahead > 0 { "ahead of" } else { "behind" };
            let apart = duration::text(Duration::from_millis(ahead.unsigned_abs()));
            said += &format!(" The clock of its machine is {apart} {way} the servers'.");
        }
        if let (Some(ago), Some(by), Some(free)) = (self.heard_ago_ms, &self.heard_by, &self.free_by) {
            let (ago, by) = (duration::text(Duration::from_millis(ago)), text::harmless(by));
            said += &format!(
                " {by} answered it {ago} ago. If it is dead, the lock is free by {free}, unless the leader changes."
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::entry;

    #[test]
    fn a_clock_that_is_more_than_a_minute_off_is_told() {
        let entry = entry("alpha", 1, 7);
        let told = |seconds| {
            let created = entry.since.unwrap() - SignedDuration::from_secs(seconds);
            vigil(&entry, SessionId(1), Contact::Gone, None, Some(created), created, Duration::ZERO).text()
        };
        for (seconds, said) in [(3600, "1h 0m ahead of the servers'"), (-61, "1m 1s behind the servers'")] {
            assert!(told(seconds).contains(said), "{}", told(seconds));
        }
        for close in [60, 0, -60] {
            assert!(!told(close).contains("clock"), "{}", told(close));
        }
    }
}
