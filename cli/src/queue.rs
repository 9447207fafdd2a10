//! A lock's queue, as text for people and as JSON.

use std::fmt::Display;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use zklock::recipe::Sequence;
use zklock::{Contender, ForeignContender};
use zookeeper_client::{SessionId, Stat};

use crate::text;

/// The text for an unknown value.
const UNKNOWN: &str = "-";

/// One contender. The fields of the JSON have the same names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Entry {
    /// The contender at 0 holds the lock, or is about to hold it.
    pub(crate) position: usize,
    /// The path of its node.
    pub(crate) node: String,
    /// `None` if an ACL hides the data, or if the data is not zklock's.
    pub(crate) owner: Option<String>,
    /// When it began to contend, by its own clock.
    #[serde(serialize_with = "written")]
    pub(crate) since: Option<Timestamp>,
    /// The session and the token are `None` if an ACL hides the node.
    #[serde(serialize_with = "written")]
    pub(crate) session: Option<SessionId>,
    pub(crate) token: Option<i64>,
    pub(crate) sequence: Option<i32>,
    pub(crate) data: Option<String>,
}

/// A contender of another client. The fields of the JSON have the same names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Stranger {
    /// The path of its node.
    pub(crate) node: String,
    /// The client, as the node's name suggests.
    pub(crate) client: String,
    /// `None` if an ACL hides the node, or if the node is not ephemeral.
    #[serde(serialize_with = "written")]
    pub(crate) session: Option<SessionId>,
}

impl From<&ForeignContender> for Stranger {
    fn from(contender: &ForeignContender) -> Self {
        Self {
            node: contender.path.clone(),
            client: contender.client.to_string(),
            session: contender.session.map(SessionId),
        }
    }
}

impl Stranger {
    /// The name of its node.
    pub(crate) fn name_text(&self) -> String {
        text::harmless(self.node.rsplit('/').next().unwrap_or_default())
    }

    pub(crate) fn session_text(&self) -> String {
        known(self.session)
    }
}

/// The data of a contender's node, as zklock writes it.
#[derive(Deserialize)]
struct Data {
    /// A UUID. The data of other clients has none.
    id: String,
    #[serde(default)]
    owner: String,
    /// Milliseconds since the Unix epoch.
    #[serde(default)]
    since: u64,
    data: Option<String>,
}

impl Data {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let is_uuid = |id: &str| id.chars().filter(char::is_ascii_hexdigit).count() == 32;
        serde_json::from_slice::<Self>(bytes).ok().filter(|data| is_uuid(&data.id))
    }
}

impl From<&Contender> for Entry {
    fn from(contender: &Contender) -> Self {
        let name = contender.path.rsplit('/').next().unwrap_or_default();
        Self {
            position: contender.position,
            node: contender.path.clone(),
            owner: contender.owner.clone(),
            since: contender.since.and_then(timestamp),
            session: contender.session.map(SessionId),
            token: contender.token.map(|token| token.as_i64()),
            sequence: Sequence::parse(name).map(|sequence| sequence.0),
            data: contender.data.clone(),
        }
    }
}

impl Entry {
    /// The first contender of a queue, from its node. `read` is `None` if an ACL hides the node.
    pub(crate) fn first(node: String, sequence: Sequence, read: Option<(Vec<u8>, Stat)>) -> Self {
        let stat = read.as_ref().map(|(_, stat)| stat);
        let (session, token) =
            (stat.map(|stat| SessionId(stat.ephemeral_owner)), stat.map(|stat| stat.czxid));
        let data = read.and_then(|(bytes, _)| Data::decode(&bytes));
        let since = data.as_ref().and_then(|data| UNIX_EPOCH.checked_add(Duration::from_millis(data.since)));
        Self {
            position: 0,
            node,
            owner: data.as_ref().map(|data| data.owner.clone()),
            since: since.and_then(timestamp),
            session,
            token,
            sequence: Some(sequence.0),
            data: data.and_then(|data| data.data),
        }
    }

    pub(crate) fn owner_text(&self) -> String {
        self.owner.as_deref().map_or_else(|| UNKNOWN.to_owned(), text::harmless)
    }

    /// When it began to contend, and how long ago that is. The age is left out if its clock is ahead of this one.
    pub(crate) fn since_text(&self, now: Timestamp) -> String {
        let Some(since) = self.since else { return UNKNOWN.to_owned() };
        match self.age(now) {
            Some(age) => format!("{since:.0} ({})", text::age(age)),
            None => format!("{since:.0}"),
        }
    }

    /// How long it has contended.
    pub(crate) fn age(&self, now: Timestamp) -> Option<Duration> {
        Duration::try_from(now.duration_since(self.since?)).ok()
    }

    pub(crate) fn session_text(&self) -> String {
        known(self.session)
    }

    pub(crate) fn token_text(&self) -> String {
        known(self.token)
    }

    pub(crate) fn sequence_text(&self) -> String {
        known(self.sequence)
    }

    pub(crate) fn data_text(&self) -> String {
        self.data.as_deref().map_or_else(|| UNKNOWN.to_owned(), text::harmless)
    }
}

/// The value's text, or the one for an unknown value.
pub(crate) fn known(value: Option<impl Display>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string())
}

/// `None` beyond the year 9999. Any client may write such a time.
fn timestamp(time: SystemTime) -> Option<Timestamp> {
    Timestamp::try_from(time).ok()
}

fn written<S: Serializer>(value: &Option<impl Display>, serializer: S) -> Result<S::Ok, S::Error> {
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
            node: format!("/lock/{}", Sequence(sequence)),
            owner: Some(owner.to_owned()),
            since: Timestamp::from_second(1_000_000_000).ok(),
            session: Some(SessionId(0x0100_001c_4e6f_0000)),
            token: Some(token),
            sequence: Some(sequence),
            data: None,
        }
    }

    const ID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    fn from_bytes(bytes: &[u8]) -> Entry {
        let stat = Stat {
            czxid: 7,
            mzxid: 7,
            pzxid: 7,
            ctime: 0,
            mtime: 0,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: -1,
            data_length: 0,
            num_children: 0,
        };
        Entry::first("/a/lock-0000000001".to_owned(), Sequence(1), Some((bytes.to_vec(), stat)))
    }

    #[test]
    fn a_session_is_written_as_zookeeper_prints_it() {
        let json = serde_json::to_value(from_bytes(b"")).unwrap();
        assert_eq!(json["session"], "0xffffffffffffffff");
        assert_eq!(json["token"], 7);
        assert_eq!(json["owner"], serde_json::Value::Null);
    }

    #[test]
    fn data_of_others_tells_no_owner() {
        for bytes in
            ["", "10.0.0.1", r#"{"owner":"o"}"#, r#"{"id":"7","owner":"o"}"#, r#"{"id":7,"owner":"o"}"#]
        {
            assert_eq!(from_bytes(bytes.as_bytes()).owner, None, "{bytes}");
        }
        let bytes = format!(r#"{{"id":"{ID}","owner":"o","later":true}}"#);
        assert_eq!(from_bytes(bytes.as_bytes()).owner.as_deref(), Some("o"));
    }

    #[test]
    fn times_out_of_this_world_are_unknown() {
        let bytes = format!(r#"{{"id":"{ID}","owner":"o","since":{}}}"#, u64::MAX);
        let entry = from_bytes(bytes.as_bytes());
        assert_eq!((entry.owner.as_deref(), entry.since), (Some("o"), None));
        assert_eq!(entry.since_text(Timestamp::UNIX_EPOCH), "-");
    }

    #[test]
    fn a_clock_ahead_of_ours_has_no_age() {
        let entry = entry("a", 1, 7);
        let at = |seconds: i64| Timestamp::from_second(1_000_000_000 + seconds).unwrap();
        assert_eq!(entry.since_text(at(200)), "2001-09-09T01:46:40Z (3m 20s)");
        assert_eq!(entry.since_text(at(-1)), "2001-09-09T01:46:40Z");
    }
}
