//! One server on its own.

use crate::{Backend, Ensemble, Error};

/// One ZooKeeper server, standalone. Dropping the value ends the server and removes its data.
///
/// An [`Ensemble`] of one server can do all of this, too.
#[derive(Debug)]
pub struct ZooKeeper {
    ensemble: Ensemble,
}

impl ZooKeeper {
    /// Starts a server with default options and waits until it serves.
    ///
    /// # Errors
    /// When neither backend works on this machine, or the server does not serve within a minute.
    pub async fn start() -> Result<Self, Error> {
        Ensemble::start(1).await.map(Self::new)
    }

    pub(crate) fn new(ensemble: Ensemble) -> Self {
        Self { ensemble }
    }

    /// The address for clients to connect to, as `host:port`. It stays the same for as long as this value lives.
    pub fn connect_string(&self) -> String {
        self.ensemble.connect_string()
    }

    /// How the server is run.
    pub fn backend(&self) -> Backend {
        self.ensemble.backend()
    }

    /// Ends the server without notice, as `kill -9` does. Its data stays.
    pub async fn kill(&self) -> Result<(), Error> {
        self.ensemble.kill(0).await
    }

    /// Kills the server if it still runs, and starts it again, with its data, at its old address. Returns once it serves.
    pub async fn restart(&self) -> Result<(), Error> {
        self.ensemble.restart(0).await
    }

    /// Returns true if the server has ended by itself; see [`Ensemble::has_exited`].
    pub async fn has_exited(&self) -> Result<bool, Error> {
        self.ensemble.has_exited(0).await
    }

    /// Changes a line of the server's `zoo.cfg`, or adds it, for its next restart; see [`Ensemble::reconfigure`].
    ///
    /// # Errors
    /// When the line cannot be one of `zoo.cfg`.
    pub async fn reconfigure(&self, key: impl Into<String>, value: impl Into<String>) -> Result<(), Error> {
        self.ensemble.reconfigure(0, key, value).await
    }

    /// Freezes the server: its connections stay open, and it does nothing.
    pub async fn pause(&self) -> Result<(), Error> {
        self.ensemble.pause(0).await
    }

    /// Lets a paused server go on, as if no time had passed for it.
    pub async fn unpause(&self) -> Result<(), Error> {
        self.ensemble.unpause(0).await
    }

    /// Ends a client's session as an operator would; see [`Ensemble::close_session`].
    ///
    /// # Errors
    /// When there is no such session, or the server does not answer within a minute.
    pub async fn close_session(&self, id: i64) -> Result<(), Error> {
        self.ensemble.close_session(id).await
    }

    /// Asks a four-letter word: `srvr`, `mntr`, `wchs`, `cons`, `dump`, `ruok`; all are enabled. The server has
    /// half a minute to answer.
    pub async fn admin(&self, word: &str) -> Result<String, Error> {
        self.ensemble.admin(0, word).await
    }
}
