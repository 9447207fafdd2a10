//! The directory of a drill: a fresh one below the user's path, which the drill removes.

use std::time::Duration;

use futures::future::try_join;
use jiff::Timestamp;
use tokio::time::{sleep, timeout};
use zklock::Session;
use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::fault::Fault;
use crate::closing;
use crate::connection::Connection;
use crate::election::Election;
use crate::failure::Failure;
use crate::pool::Pool;
use crate::queue;
use crate::text::harmless;

/// How long the removal may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause between two looks whether a lock's directory is empty.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Place {
    pub(super) directory: String,
    /// The nodes that the drill has created, the deepest first, and the transaction that created each.
    created: Vec<(String, i64)>,
}

impl Place {
    /// Makes a directory below this path. It fails if the path is used for a lock, an election, a semaphore or slots.
    pub(super) async fn make(
        connection: &Connection,
        session: &Session,
        path: &str,
    ) -> Result<Self, Failure> {
        let parent = path.trim_end_matches('/');
        let directory =
            format!("{parent}/drill-{}-{}", Timestamp::now().as_millisecond(), std::process::id());
        // The library checks the path, too.
        session.lock(&format!("{directory}/black-hole"))?;
        if !parent.is_empty() {
            unused(session, parent).await?;
        }
        let client = connection.client().await?;
        let mut place = Self { directory, created: Vec::new() };
        let made = place.create(&client).await;
        closing::client(client).await;
        if let Err(error) = made {
            let _left = place.clear(connection).await;
            return Err(error.into());
        }
        Ok(place)
    }

    /// Creates the directory, and what is missing above it, as locks do.
    async fn create(&mut self, client: &Client) -> Result<(), Error> {
        let options = CreateMode::Container.with_acls(Acls::anyone_all());
        let ends = self.directory.match_indices('/').skip(1).map(|(end, _)| end);
        for end in ends.chain([self.directory.len()]) {
            let path = &self.directory[..end];
            match client.create(path, b"", &options).await {
                Ok((stat, _)) => self.created.insert(0, (path.to_owned(), stat.czxid)),
                Err(Error::NodeExists) if end < self.directory.len() => {}
                // A server may refuse a create before it looks whether the node exists.
                Err(Error::NoAuth)
                    if end < self.directory.len() && client.check_stat(path).await?.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The path of a lock.
    pub(super) fn lock(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// Removes what the drill has made, once its sessions are closed. A node in which somebody else has one stays. The error
    /// says what is left.
    pub(super) async fn clear(&self, connection: &Connection) -> Result<(), String> {
        let left = |why: &str| {
            format!(
                "zklock did not remove {} ({why}). Its contenders go with their sessions, and ZooKeeper removes each container that has had a child once it is empty",
                self.directory
            )
        };
        let removal = async {
            let client = connection.client().await.map_err(|failure| left(&failure.to_string()))?;
            let removed = self.remove(&client).await;
            closing::client(client).await;
            removed.map_err(|error| left(&error.to_string()))
        };
        timeout(PATIENCE, removal)
            .await
            .unwrap_or_else(|_| Err(left("its contenders are still there, or no answer came in time")))
    }

    async fn remove(&self, client: &Client) -> Result<(), Error> {
        let is_made = self.created.first().is_some_and(|(path, _)| *path == self.directory);
        for lock in Fault::ALL.into_iter().filter(|_| is_made).map(|fault| self.lock(fault.name())) {
            // The contenders of a session that was not closed go when it expires.
            while let Err(Error::NotEmpty) = client.delete(&lock, None).await {
                sleep(PAUSE).await;
            }
        }
        for (path, czxid) in &self.created {
            if client.check_stat(path).await?.is_some_and(|stat| stat.czxid == *czxid) {
                match client.delete(path, None).await {
                    Err(Error::NoNode) => {}
                    // Somebody else may use a node above by now.
                    Err(Error::NotEmpty) if *path != self.directory => {}
                    deleted => deleted?,
                }
            }
        }
        Ok(())
    }
}

async fn unused(session: &Session, path: &str) -> Result<(), Failure> {
    let lock = session.lock(path)?;
    let ((contenders, foreign), pool) =
        try_join(async { queue::seen(&lock).await.map_err(Failure::from) }, Pool::at(session, path)).await?;
    let election = Election::at(session, path).await?;
    if contenders.is_empty() && foreign.is_empty() && pool.is_none() && election.is_none() {
        return Ok(());
    }
    Err(Failure::usage(format_args!(
        "{0} is in use, as `zklock show {0}` shows; give the drill a path of its own",
        harmless(path)
    )))
}
