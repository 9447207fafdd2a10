//! What the servers know of those who hold something: since when, whether they live, and by when it is free if not.

use std::collections::BTreeSet;
use std::future::ready;
use std::time::Duration;

use futures::future::join;
use jiff::Timestamp;
use serde::Serialize;
use zklock::inspect::Kind;
use zookeeper_client::SessionId;

use crate::connection::{Connection, Inquiry};
use crate::failure::Failure;
use crate::pool::Pool;
use crate::queue::{Entry, holders};
use crate::servers::{Contact, ask_contacts};
use crate::text::{self, counted};
use crate::{closing, duration};

/// Of more readers than this, the others are left out; and of more holders of a pool, from the text.
const MOST: usize = 8;

/// A holder. The fields of the JSON have the same names.
#[derive(Serialize)]
pub(super) struct Vigil {
    #[serde(skip)]
    owner: String,
    /// What it holds: the lock, or a part of a pool.
    #[serde(skip)]
    what: String,
    #[serde(skip)]
    is_first: bool,
    session: String,
    /// It has been the first in the queue, or a reader beside the first, at least since then, by the leader's clock. `None` if nothing shows it.
    held_since_at_latest: Option<String>,
    /// How far the clock of its machine is ahead of the leader's; below zero if it is behind. `None` if they are less than a minute apart.
    clock_ahead_ms: Option<i64>,
    /// How long ago a server last answered it. `None` if no server says so, or if none has a connection of it.
    heard_ago_ms: Option<u64>,
    heard_by: Option<String>,
    session_timeout_ms: Option<u64>,
    /// When that is free at the latest, if the holder is dead and the leader stays the same. `None` also if its session timeout or
    /// the last contact is not known, and if this machine's clock is known to be wrong.
    free_by: Option<String>,
    /// The same, as the end of a sentence.
    #[serde(skip)]
    free: Option<String>,
    /// Why a server does not say when it last answered it.
    unknown: Option<String>,
    /// Whether no server has a connection of it.
    disconnected: bool,
    /// Whether a client that works would have been heard of since; `None` if nobody knows.
    #[serde(skip)]
    is_silent: Option<bool>,
}

pub(super) async fn ask_vigils(
    inquiry: Inquiry<'_>,
    path: &str,
    queue: &[Entry],
) -> Result<Vec<Vigil>, Failure> {
    let holders = holders(queue).iter().take(MOST);
    ask_each(inquiry, holders, first_since(inquiry.connection, path, queue)).await
}

/// Asks about those who hold something of this pool. Since when they hold it, nothing shows.
pub(super) async fn ask_pool_vigils(inquiry: Inquiry<'_>, pool: &Pool) -> Result<Vec<Vigil>, Failure> {
    ask_each(inquiry, pool.holders.iter(), ready(None)).await
}

async fn ask_each(
    inquiry: Inquiry<'_>,
    holders: impl Iterator<Item = &Entry>,
    since: impl Future<Output = Option<Timestamp>>,
) -> Result<Vec<Vigil>, Failure> {
    let holders = holders.filter_map(|entry| Some((entry, entry.session?))).collect::<Vec<_>>();
    if holders.is_empty() {
        return Ok(Vec::new());
    }
    let sessions = holders.iter().map(|(_, session)| session.0).collect::<Vec<_>>();
    let (contacts, since) = join(ask_contacts(inquiry.connection, &sessions), since).await;
    let now = Timestamp::now();
    let own = (inquiry.session.tick(), inquiry.session.timeout());
    let known = holders.iter().zip(contacts?);
    Ok(known.map(|((entry, id), contact)| vigil(entry, *id, contact, since, now, own)).collect())
}

fn vigil(
    entry: &Entry,
    session: SessionId,
    contact: Contact,
    since: Option<Timestamp>,
    now: Timestamp,
    (tick, timeout): (Duration, Duration),
) -> Vigil {
    let free_within = contact.expires_in(tick, timeout);
    // A wrong clock shows no time.
    let is_clock_right = entry.own_clock_text(now).is_none();
    let free_by = free_within.filter(|_| is_clock_right).and_then(|left| now.checked_add(left).ok());
    let free_by = free_by.and_then(rounded_up);
    let free = match (&contact, free_within, &free_by) {
        (Contact::Gone, Some(left), by) => {
            let by = by.as_ref().map_or_else(String::new, |by| format!(", by {by},"));
            let left = duration::text(left);
            Some(format!("within {left} from now{by} if its session timeout is {}", duration::text(timeout)))
        }
        (_, Some(_), Some(by)) => Some(format!("by {by}")),
        (_, Some(left), None) => Some(format!("within {}", duration::text(left + Duration::from_millis(10)))),
        (_, None, _) => None,
    };
    let millis = |length: Duration| u64::try_from(length.as_millis()).ok();
    let mut vigil = Vigil {
        owner: entry.owner_text(),
        what: match entry.kind {
            Kind::Slot(index) => format!("slot {index}"),
            Kind::Permit(weight) => counted(weight, "permit"),
            _ => "the lock".to_owned(),
        },
        is_first: entry.position == 0,
        session: session.to_string(),
        held_since_at_latest: since.and_then(rounded_up),
        clock_ahead_ms: entry.clock_ahead().and_then(|ahead| i64::try_from(ahead.as_millis()).ok()),
        heard_ago_ms: None,
        heard_by: None,
        session_timeout_ms: None,
        free_by: free_by.filter(|_| contact != Contact::Gone),
        free,
        unknown: None,
        disconnected: contact == Contact::Gone,
        is_silent: contact.is_silent(),
    };
    match contact {
        Contact::Heard { ago, timeout, by, but } => {
            vigil.heard_ago_ms = millis(ago);
            vigil.session_timeout_ms = millis(timeout);
            vigil.heard_by = Some(by);
            vigil.unknown = but;
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
async fn first_since(connection: &Connection, path: &str, queue: &[Entry]) -> Option<Timestamp> {
    let last = queue.iter().max_by_key(|entry| entry.token)?;
    let client = connection.client().await.ok()?;
    let listed = client.get_children(path).await;
    closing::close_client(client).await;
    let (children, directory) = listed.ok()?;
    let queued = queue.iter().filter_map(|entry| entry.node.rsplit('/').next()).collect::<BTreeSet<_>>();
    let found = children.iter().map(String::as_str).collect::<BTreeSet<_>>();
    let is_unchanged = found == queued && last.token == Some(directory.pzxid);
    last.created.filter(|_| is_unchanged)
}

impl Vigil {
    /// Some sentences about one that holds a lock.
    pub(super) fn text(&self) -> String {
        let owner = &self.owner;
        let position =
            if self.is_first { "been the first in the queue" } else { "held it beside the first reader" };
        let since = match &self.held_since_at_latest {
            Some(since) => format!("{owner} has {position} since {since}, or longer."),
            None => format!("{owner}: nothing shows since when it has {position}."),
        };
        since + &self.life_text() + "\n"
    }

    /// Some sentences about when a server last heard of it, and when what it holds is free.
    fn life_text(&self) -> String {
        let Self { what, .. } = self;
        let be = if what.ends_with('s') { "are" } else { "is" };
        let mut said = String::new();
        let heard = self.heard_ago_ms.zip(self.heard_by.as_ref());
        if let Some((ago, by)) = heard {
            let ago = duration::text(Duration::from_millis(ago));
            said += &format!(" {} answered it {ago} ago.", text::harmless(by));
        }
        if self.disconnected {
            said += " No server of --servers has a connection of its session: it is cut off or dead, or another server has one.";
        }
        if let Some(free) = &self.free {
            said += &format!(" If it is dead, {what} {be} free {free}, unless the leader changes.");
        }
        if let Some(why) = &self.unknown {
            let why = text::message(why);
            said += &match heard {
                Some(_) => {
                    format!(
                        " Another server may have answered it since ({why}). So nothing shows by when {what} {be} free if it is dead."
                    )
                }
                None => format!(" The servers do not say whether it lives ({why})."),
            };
        }
        said
    }
}

/// Some sentences about those that hold something of a pool: about each one that may be dead, and about the others together.
pub(super) fn pool_text(vigils: &[Vigil]) -> String {
    let (live, others) = vigils.iter().partition::<Vec<_>, _>(|vigil| vigil.is_silent == Some(false));
    let (silent, unknown) = others.into_iter().partition::<Vec<_>, _>(|vigil| vigil.is_silent == Some(true));
    let (heard, unknown) = unknown.into_iter().partition::<Vec<_>, _>(|vigil| vigil.heard_by.is_some());
    let mut said = String::new();
    for vigil in silent.iter().chain(&heard).take(MOST) {
        said += &format!("{} with {}:{}\n", vigil.owner, vigil.what, vigil.life_text());
    }
    let more = (silent.len() + heard.len()).saturating_sub(MOST);
    if more > 0 {
        said +=
            &format!("Of {} the servers have not heard for so long, either.\n", counted(more, "more holder"));
    }
    if let Some((vigil, why)) = unknown.first().and_then(|vigil| Some((vigil, vigil.unknown.as_ref()?))) {
        let holders = counted(unknown.len(), "holder");
        let why = text::message(why);
        let live = if unknown.len() == 1 { "it lives" } else { "they live" };
        said += &format!("Of {holders} the servers do not say whether {live} ({}: {why}).\n", vigil.owner);
    }
    if !live.is_empty() {
        let holders = counted(live.len(), "holder");
        said += &format!("Of {holders} the servers have heard within half the session timeout.\n");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::entry;

    /// One that holds this, as of a fixed time, with a tick of 2 s and an own session timeout of 10 s.
    fn vigil_of(kind: Kind, contact: Contact) -> Vigil {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        let own = (Duration::from_secs(2), Duration::from_secs(10));
        vigil(&Entry { kind, ..entry("a", 1, 7) }, SessionId(1), contact, None, now, own)
    }

    fn heard(ago: u64, timeout: u64, but: Option<&str>) -> Contact {
        let [ago, timeout] = [ago, timeout].map(Duration::from_secs);
        Contact::Heard { ago, timeout, by: "zk1".to_owned(), but: but.map(str::to_owned) }
    }

    #[test]
    fn the_time_at_which_a_lock_is_free_needs_a_session_timeout() {
        let of = |contact| {
            let vigil = vigil_of(Kind::Exclusive, contact);
            (vigil.text(), vigil.free_by)
        };
        let (said, free_by) = of(Contact::Gone);
        let bound = "free within 13s from now, by 2001-09-09T01:46:53Z, if its session timeout is 10s, unless the leader changes.";
        assert!(said.ends_with(&format!("{bound}\n")), "{said}");
        assert_eq!(free_by, None);
        let (said, free_by) = of(heard(4, 20, None));
        assert!(said.ends_with("zk1 answered it 4s ago. If it is dead, the lock is free by 2001-09-09T01:46:59Z, unless the leader changes.\n"), "{said}");
        assert_eq!(free_by.as_deref(), Some("2001-09-09T01:46:59Z"));
        assert!(!of(Contact::Unknown("no cons".to_owned())).0.contains("If it is dead"));
        let (said, free_by) = of(heard(4, 20, Some("zk2: refused")));
        let unknown = "zk1 answered it 4s ago. Another server may have answered it since (zk2: refused). So nothing shows by when the lock is free if it is dead.";
        assert!(said.ends_with(&format!("{unknown}\n")) && free_by.is_none(), "{said}");
    }

    #[test]
    fn of_a_pool_those_that_may_be_dead_are_told_each() {
        let seen = [
            vigil_of(Kind::Slot(0), heard(1, 10, None)),
            vigil_of(Kind::Slot(3), heard(6, 10, None)),
            vigil_of(Kind::Permit(2), heard(6, 10, None)),
            vigil_of(Kind::Slot(4), Contact::Unknown("zk2: refused".to_owned())),
            vigil_of(Kind::Slot(5), heard(2, 10, None)),
        ];
        let told = "a with slot 3: zk1 answered it 6s ago. If it is dead, slot 3 is free by 2001-09-09T01:46:47Z, unless the leader changes.\n\
            a with 2 permits: zk1 answered it 6s ago. If it is dead, 2 permits are free by 2001-09-09T01:46:47Z, unless the leader changes.\n\
            Of 1 holder the servers do not say whether it lives (a: zk2: refused).\n\
            Of 2 holders the servers have heard within half the session timeout.\n";
        assert_eq!(pool_text(&seen), told);
        let many = [(); MOST + 2].map(|()| vigil_of(Kind::Slot(1), Contact::Gone));
        assert!(
            pool_text(&many)
                .ends_with("\nOf 2 more holders the servers have not heard for so long, either.\n")
        );
    }
}
