//! A lock's queue, as text for people and as JSON.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

use futures::future::try_join;
use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, Serializer};
use zklock::inspect::{Contender, ForeignClient, ForeignContender, Kind};
use zklock::{Lock, LockOptions, QueryError, Session};
use zookeeper_client::SessionId;

use crate::failure::Failure;
use crate::layout::Layout;
use crate::{duration, text};

const UNKNOWN: &str = "-";

/// Two clocks differ if their times of one create are this far apart: a create takes less.
const APART: SignedDuration = SignedDuration::from_mins(1);

/// One contender. The fields of the JSON have the same names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Entry {
    /// How many contenders are in front of it.
    pub(crate) position: usize,
    /// `exclusive` or `shared`: a writer, or a reader. Of a pool, `permit` or `slot`.
    #[serde(serialize_with = "serialize_kind")]
    pub(crate) kind: Kind,
    /// Whether it holds the lock, or is about to hold it.
    pub(crate) holds: bool,
    /// The position of the nearest contender that it waits for. A reader waits for the nearest writer, and a writer for
    /// everybody in front of it.
    pub(crate) waits_for: Option<usize>,
    pub(crate) node: String,
    /// The other client that it belongs to, in a queue that zklock shares.
    pub(crate) client: Option<String>,
    /// `None` if an ACL hides the data, or if the data is not zklock's.
    pub(crate) owner: Option<String>,
    /// When it began to contend, by its own clock.
    #[serde(serialize_with = "serialize_text")]
    pub(crate) since: Option<Timestamp>,
    /// When its node was created, by the leader's clock.
    #[serde(skip)]
    pub(crate) created: Option<Timestamp>,
    /// When the last node of its queue was created, by the leader's clock: a time that is past, by that clock.
    #[serde(skip)]
    pub(crate) newest: Option<Timestamp>,
    /// The session and the token are `None` if an ACL hides the node.
    #[serde(serialize_with = "serialize_text")]
    pub(crate) session: Option<SessionId>,
    pub(crate) token: Option<i64>,
    pub(crate) sequence: Option<i32>,
    pub(crate) data: Option<String>,
}

/// A contender of another client. The fields of the JSON have the same names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Stranger {
    pub(crate) node: String,
    /// The client, as the node's name suggests.
    pub(crate) client: String,
    /// Whether it is zklock's, with another layout.
    #[serde(skip)]
    pub(crate) is_zklocks: bool,
    /// `None` if an ACL hides the node, or if the node is not ephemeral.
    #[serde(serialize_with = "serialize_text")]
    pub(crate) session: Option<SessionId>,
}

impl From<&ForeignContender> for Stranger {
    fn from(contender: &ForeignContender) -> Self {
        Self {
            node: contender.path.clone(),
            client: contender.client.to_string(),
            is_zklocks: contender.client == ForeignClient::Zklock,
            session: contender.session.map(SessionId),
        }
    }
}

impl Stranger {
    pub(crate) fn name_text(&self) -> String {
        text::harmless(self.node.rsplit('/').next().unwrap_or_default())
    }
}

/// The lock at this path. Its queue is that of the given client; or if none is given, that of a client with which a contender of
/// zklock's shares it at this moment.
pub(crate) async fn lock_at(
    session: &Session,
    path: &str,
    layout: Option<Layout>,
) -> Result<(Lock, Option<Layout>), Failure> {
    let lock = session.lock(path)?;
    let layout = match layout {
        Some(layout) => Some(layout),
        None => {
            let foreign = lock.foreign_contenders().await?;
            let mut ours = foreign.iter().filter(|one| one.client == ForeignClient::Zklock);
            ours.find_map(|one| Layout::of(one.layout?))
        }
    };
    Ok(match layout {
        // Looking takes no lock, so it needs no delay.
        Some(asked) => {
            let options = LockOptions::new().layout(asked.into()).takeover_delay(Duration::ZERO);
            (lock.with_options(options)?, layout)
        }
        None => (lock, None),
    })
}

/// Looks at a lock's queue, and at the contenders of other clients in the lock's directory.
pub(crate) async fn read_queue(lock: &Lock) -> Result<(Vec<Entry>, Vec<Stranger>), QueryError> {
    let (queue, foreign) = try_join(lock.contenders(), lock.foreign_contenders()).await?;
    Ok((entries(&queue), foreign.iter().map(Stranger::from).collect()))
}

/// A queue, with what waits for whom.
pub(crate) fn entries(queue: &[Contender]) -> Vec<Entry> {
    let mut last_writer = None;
    let newest = queue.iter().filter_map(|contender| timestamp(contender.created?)).max();
    let mut entries = Vec::with_capacity(queue.len());
    for contender in queue {
        let nearest = match contender.kind {
            Kind::Shared => last_writer,
            _ => contender.position.checked_sub(1),
        };
        let waits_for = if contender.holds { None } else { nearest };
        entries.push(Entry { waits_for, newest, ..Entry::from(contender) });
        if contender.kind == Kind::Exclusive {
            last_writer = Some(contender.position);
        }
    }
    entries
}

/// Those in the queue that hold the lock: the first one, and the readers that hold it beside a first reader.
pub(crate) fn holders(queue: &[Entry]) -> &[Entry] {
    let others = queue.iter().skip(1).take_while(|entry| entry.holds).count();
    queue.get(..=others).unwrap_or_default()
}

/// Whether readers contend for the lock, so that the kind of each contender matters.
pub(crate) fn has_readers(queue: &[Entry]) -> bool {
    queue.iter().any(|entry| entry.kind == Kind::Shared)
}

impl From<&Contender> for Entry {
    fn from(contender: &Contender) -> Self {
        Self {
            position: contender.position,
            kind: contender.kind,
            holds: contender.holds,
            waits_for: None,
            node: contender.path.clone(),
            client: contender.client.map(|client| client.to_string()),
            owner: contender.owner.clone(),
            since: contender.since.and_then(timestamp),
            created: contender.created.and_then(timestamp),
            newest: contender.created.and_then(timestamp),
            session: contender.session.map(SessionId),
            token: contender.token.map(|token| token.zxid()),
            sequence: Some(contender.number),
            data: contender.data.clone(),
        }
    }
}

impl Entry {
    pub(crate) fn kind_text(&self) -> &'static str {
        match self.kind {
            Kind::Shared => "reader",
            _ => "writer",
        }
    }

    /// `holder`, or the number of contenders in front of it.
    pub(crate) fn position_text(&self) -> String {
        if self.holds { "holder".to_owned() } else { self.position.to_string() }
    }

    /// Whom it waits for, among these holders and the others of its queue.
    pub(crate) fn waits_for_text(&self, holders: usize) -> String {
        match self.waits_for {
            None => UNKNOWN.to_owned(),
            Some(nearest) if nearest >= holders => nearest.to_string(),
            Some(_) if holders == 1 => "holder".to_owned(),
            Some(_) => format!("{holders} holders"),
        }
    }

    /// The owner, or the client whose contender it is.
    pub(crate) fn owner_text(&self) -> String {
        let known = self.client.as_deref().or(self.owner.as_deref());
        known.map_or_else(|| UNKNOWN.to_owned(), text::harmless)
    }

    /// When it began to contend, and how long ago that is. The age is left out if its clock is ahead of this one. A wrong
    /// clock is told.
    pub(crate) fn since_text(&self, now: Timestamp) -> String {
        let Some(since) = self.since else { return UNKNOWN.to_owned() };
        match [self.age_text(now), self.clock_text(now)].into_iter().flatten().collect::<Vec<_>>().join("; ")
        {
            about if about.is_empty() => format!("{since:.0}"),
            about => format!("{since:.0} ({about})"),
        }
    }

    /// The same, as the end of a sentence about it.
    pub(crate) fn came_text(&self, now: Timestamp) -> String {
        let came = self.age_text(now).map(|age| format!(", who came {age} ago"));
        let clock = self.clock_text(now).map(|clock| format!(" ({clock})"));
        came.into_iter().chain(clock).collect()
    }

    fn age_text(&self, now: Timestamp) -> Option<String> {
        Duration::try_from(now.duration_since(self.since?)).ok().map(text::age)
    }

    /// How far the clock by which it came is ahead of the leader's, by which its node was created. `None` if they are close.
    pub(crate) fn clock_ahead(&self) -> Option<SignedDuration> {
        let ahead = self.since?.duration_since(self.created?);
        (ahead.abs() > APART).then_some(ahead)
    }

    /// Says that this machine's clock is behind the leader's. No node is created later than now.
    pub(crate) fn own_clock_text(&self, now: Timestamp) -> Option<String> {
        let early = self.newest?.duration_since(now);
        let said = || {
            format!(
                "this machine's clock is at least {} behind the servers'",
                duration::text(early.unsigned_abs())
            )
        };
        (early > APART).then(said)
    }

    /// Says which clock makes its age wrong. Its own was read right before its node was created.
    fn clock_text(&self, now: Timestamp) -> Option<String> {
        self.own_clock_text(now).or_else(|| {
            let ahead = self.clock_ahead()?;
            let by = duration::text(ahead.unsigned_abs());
            Some(if ahead.is_positive() {
                format!("its clock was at least {by} ahead of the servers'")
            } else {
                format!("its clock was {by} behind the servers'")
            })
        })
    }

    pub(crate) fn session_text(&self) -> String {
        known_text(self.session)
    }

    pub(crate) fn token_text(&self) -> String {
        known_text(self.token)
    }

    pub(crate) fn sequence_text(&self) -> String {
        known_text(self.sequence)
    }

    pub(crate) fn data_text(&self) -> String {
        self.data.as_deref().map_or_else(|| UNKNOWN.to_owned(), text::harmless)
    }
}

/// The value's text, or the one for an unknown value.
pub(crate) fn known_text(value: Option<impl Display>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string())
}

/// `None` beyond the year 9999. Any client may write such a time.
pub(crate) fn timestamp(time: SystemTime) -> Option<Timestamp> {
    Timestamp::try_from(time).ok()
}

pub(crate) fn time_text(time: SystemTime) -> String {
    timestamp(time).map_or_else(|| "an unknown time".to_owned(), |time| format!("{time:.0}"))
}

fn serialize_kind<S: Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(access_text(*kind))
}

/// How a lock is held, as one word.
pub(crate) fn access_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Shared => "shared",
        Kind::Permit(_) => "permit",
        Kind::Slot(_) => "slot",
        Kind::Exclusive => "exclusive",
    }
}

fn serialize_text<S: Serializer>(value: &Option<impl Display>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A contender of this name, number and token.
    pub(crate) fn entry(owner: &str, sequence: i32, token: i64) -> Entry {
        Entry {
            position: 0,
            kind: Kind::Exclusive,
            holds: false,
            waits_for: None,
            node: format!("/lock/lock-{sequence:010}"),
            client: None,
            owner: Some(owner.to_owned()),
            since: Timestamp::from_second(1_000_000_000).ok(),
            created: None,
            newest: None,
            session: Some(SessionId(0x0100_001c_4e6f_0000)),
            token: Some(token),
            sequence: Some(sequence),
            data: None,
        }
    }

    /// So many seconds after the contender came.
    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000_000 + seconds).unwrap()
    }

    #[test]
    fn a_clock_ahead_of_ours_has_no_age() {
        let entry = entry("a", 1, 7);
        assert_eq!(entry.since_text(at(200)), "2001-09-09T01:46:40Z (3m 20s)");
        assert_eq!(entry.since_text(at(-1)), "2001-09-09T01:46:40Z");
    }

    #[test]
    fn a_clock_that_is_more_than_a_minute_off_is_told() {
        let created = |seconds| {
            let created = Some(at(seconds));
            Entry { created, newest: created, ..entry("a", 1, 7) }
        };
        for (seconds, told) in [
            (-3600, "(<1s; its clock was at least 1h 0m ahead of the servers')"),
            (61, "(1m 1s; its clock was 1m 1s behind the servers')"),
            (60, "(1m 0s)"),
            (-60, "(<1s)"),
        ] {
            assert_eq!(
                created(seconds).since_text(at(seconds.max(0))),
                format!("2001-09-09T01:46:40Z {told}")
            );
        }
        let came = created(3600).came_text(at(3600));
        assert_eq!(came, ", who came 1h 0m ago (its clock was 1h 0m behind the servers')");
        let ours = "2001-09-09T01:46:40Z (this machine's clock is at least 5m 0s behind the servers')";
        assert_eq!(created(0).since_text(at(-300)), ours);
        // A contender that came later shows more.
        let newest = Entry { newest: Some(at(0)), ..created(-300) };
        assert_eq!(newest.since_text(at(-300)), ours);
    }
}
