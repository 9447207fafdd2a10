//! Elections: who leads, as text for people and as JSON.

use jiff::Timestamp;
use serde::Serialize;
use zklock::{QueryError, Session, election::Leader};
use zookeeper_client::SessionId;

use crate::failure::Failure;
use crate::queue::timestamp;
use crate::text;

/// How many elections are looked at at the same time.
pub(crate) const IN_FLIGHT: usize = 64;

/// An election that somebody leads. The fields of the JSON have the same names.
#[derive(Serialize)]
pub(crate) struct LedElection {
    pub(crate) path: String,
    /// The path of the lock in whose directory the candidates queue.
    pub(crate) queue: String,
    pub(crate) leader: Announcement,
}

/// What a leader announces. The fields of the JSON have the same names.
#[derive(Serialize)]
pub(crate) struct Announcement {
    pub(crate) value: String,
    pub(crate) token: i64,
    owner: String,
    /// When the leader announced the value, by its own clock.
    since: Option<String>,
    session: String,
}

impl From<Leader> for Announcement {
    fn from(leader: Leader) -> Self {
        Self {
            value: leader.value,
            token: leader.token.zxid(),
            owner: leader.owner,
            since: leader.since.and_then(timestamp).map(|since: Timestamp| since.to_string()),
            session: SessionId(leader.session).to_string(),
        }
    }
}

impl LedElection {
    /// The election at this path, if somebody leads one there.
    pub(crate) async fn at(session: &Session, path: &str) -> Result<Option<Self>, Failure> {
        // Such a path may be too long for an election, though not for a lock.
        let Ok(election) = session.election(path) else { return Ok(None) };
        match election.leader().await {
            Ok(leader) => Ok(leader.map(|leader| Self {
                path: path.to_owned(),
                queue: election.queue(),
                leader: leader.into(),
            })),
            // Without permission to see it there is none.
            Err(QueryError::NotAuthorized { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The election whose candidates queue for this lock, if somebody leads it.
    pub(crate) async fn of_queue(session: &Session, lock: &str) -> Result<Option<Self>, Failure> {
        let parent = lock.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty());
        let election = parent.and_then(|parent| session.election(parent).ok());
        match election.filter(|election| election.queue() == lock) {
            Some(election) => Self::at(session, election.path()).await,
            None => Ok(None),
        }
    }

    pub(crate) fn text(&self) -> String {
        let Announcement { owner, value, .. } = &self.leader;
        format!("election, led by {}: {}", text::harmless(owner), text::harmless(value))
    }
}
