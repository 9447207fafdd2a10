//! A lock's queue, as text for people and as JSON.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use zklock::{Contender, ForeignContender};
use zookeeper_client::SessionId;

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

impl From<&Contender> for Entry {
    fn from(contender: &Contender) -> Self {
        Self {
            position: contender.position,
            node: contender.path.clone(),
            owner: contender.owner.clone(),
            since: contender.since.and_then(timestamp),
            session: contender.session.map(SessionId),
            token: contender.token.map(|token| token.as_i64()),
            sequence: Some(contender.number),
            data: contender.data.clone(),
        }
    }
}

impl Entry {
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
            node: format!("/lock/lock-{sequence:010}"),
            owner: Some(owner.to_owned()),
            since: Timestamp::from_second(1_000_000_000).ok(),
            session: Some(SessionId(0x0100_001c_4e6f_0000)),
            token: Some(token),
            sequence: Some(sequence),
            data: None,
        }
    }

    #[test]
    fn a_clock_ahead_of_ours_has_no_age() {
        let entry = entry("a", 1, 7);
        let at = |seconds: i64| Timestamp::from_second(1_000_000_000 + seconds).unwrap();
        assert_eq!(entry.since_text(at(200)), "2001-09-09T01:46:40Z (3m 20s)");
        assert_eq!(entry.since_text(at(-1)), "2001-09-09T01:46:40Z");
    }
}
