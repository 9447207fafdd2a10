//! Closing sessions, so that none stays on the servers after the program has ended.

use std::time::Duration;

use zklock::Session;
use zookeeper_client::Client;

/// How long a server may take to confirm it. A session that is not closed expires.
const PATIENCE: Duration = Duration::from_secs(1);

/// Closes a session. Returns whether a server has confirmed it: then the session has no node any more.
pub(crate) async fn close_session(session: &Session) -> bool {
    tokio::time::timeout(PATIENCE, session.close()).await.is_ok_and(|closed| closed.is_ok())
}

/// Closes the session of a plain client. This must be the last clone of the client.
pub(crate) async fn close_client(client: Client) {
    let mut states = client.state_watcher();
    if client.state().is_terminated() {
        return;
    }
    drop(client);
    let closed = async { while !states.changed().await.is_terminated() {} };
    let _unconfirmed = tokio::time::timeout(PATIENCE, closed).await;
}
