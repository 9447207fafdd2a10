//! The leader, as its announcement shows it.

use std::sync::Arc;
use std::time::SystemTime;

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock_recipe::{Event, Footing};
use zookeeper_client::Client;

use crate::fence::FencingToken;
use crate::observe::subject::Subject;
use crate::requests::{self, Announced, Sighting};

/// The leader of an election, as its announcement shows it; see [`Election::leader`](crate::Election::leader).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The value that the leader announces.
    pub value: String,
    /// The leader's fencing token.
    pub token: FencingToken,
    /// The leader's owner text; see [`LockOptions::owner`](crate::LockOptions::owner).
    pub owner: String,
    /// When the leader announced this value, by the wall clock of its own machine.
    pub since: Option<SystemTime>,
    /// The id of the leader's ZooKeeper session.
    pub session: i64,
}

impl Leader {
    pub(super) fn new(announced: Announced) -> Self {
        let Announced { data, session, zxid: _ } = announced;
        Self {
            since: data.since(),
            token: FencingToken::new(data.token),
            value: data.value,
            owner: data.owner,
            session,
        }
    }
}

/// The announcements at this path.
pub(super) struct Announcements(pub(super) String);

impl Subject for Announcements {
    type Who = Leader;

    fn path(&self) -> &str {
        &self.0
    }

    fn look(
        self: Arc<Self>,
        client: Arc<Client>,
        footing: Footing,
    ) -> BoxFuture<'static, Result<Sighting<Leader>, Event>> {
        async move {
            let Sighting { found, changes } =
                requests::watch_announcement(client, self.0.clone(), footing).await?;
            let found = found.map(|found| found.map(|(stamp, announced)| (stamp, Leader::new(announced))));
            Ok(Sighting { found, changes })
        }
        .boxed()
    }
}
