//! The servers: our own ones, which the demo may kill, or somebody else's, which it leaves alone.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use zklock::Session;
use zklock_testcontainers::Ensemble;

/// How many servers the demo starts.
const SERVERS: usize = 3;

pub(crate) enum Servers {
    Ours(Arc<Ensemble>),
    Theirs(String),
}

impl Servers {
    /// Starts servers, or makes sure that the servers at `connect` accept a session.
    pub(crate) async fn open(connect: Option<&str>, session_timeout: Duration) -> anyhow::Result<Self> {
        match connect {
            Some(servers) => {
                let session = Session::builder(servers).session_timeout(session_timeout).connect().await?;
                session.close().await?;
                Ok(Self::Theirs(servers.to_owned()))
            }
            None => {
                let ensemble = Ensemble::start(SERVERS).await.context("cannot start an ensemble")?;
                Ok(Self::Ours(Arc::new(ensemble)))
            }
        }
    }

    pub(crate) fn connect_string(&self) -> String {
        match self {
            Self::Ours(ensemble) => ensemble.connect_string(),
            Self::Theirs(servers) => servers.clone(),
        }
    }

    /// Returns our own ensemble, if the demo started one.
    pub(crate) fn ours(&self) -> Option<&Arc<Ensemble>> {
        match self {
            Self::Ours(ensemble) => Some(ensemble),
            Self::Theirs(_) => None,
        }
    }
}

/// Returns the server to which a session is connected, if it is connected.
pub(crate) async fn server_of(ensemble: &Ensemble, session: i64) -> anyhow::Result<Option<usize>> {
    let needle = format!("sid={session:#x},");
    for server in 0..ensemble.len() {
        if ensemble.admin(server, "cons").await?.contains(&needle) {
            return Ok(Some(server));
        }
    }
    Ok(None)
}
