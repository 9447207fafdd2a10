//! The questions to one server.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::time::Instant;
use zklock::session::ServerAddress;
use zookeeper_client::{Client, Connector, Error};

use super::answers::{self, Settings, Words};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::word;

/// How often to ask for a session. A server that speaks TLS may answer the credentials before it announces the session, and
/// clients refuse that. It did so 38 of 334 times on ZooKeeper 3.9.3, and 6 of 506 times on 3.8.0.
const ATTEMPTS: usize = 10;

/// The longest session timeout of the protocol. A server that is asked for it grants its own longest.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

/// The settings for the questions.
pub(crate) struct Questioner {
    connector: Connector,
    /// For four-letter words over TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) patience: Duration,
}

impl Questioner {
    pub(crate) fn new(connection: &Connection) -> Result<Self, Failure> {
        // The client gives up a silent connection for good, and not before `patience` is over.
        let patience = connection.patience().min(LONGEST_TIMEOUT / 2);
        let connector = connection
            .connector()?
            .with_session_timeout(LONGEST_TIMEOUT)
            .with_connection_timeout(patience)
            .with_fail_eagerly();
        Ok(Self { connector, tls: connection.tls()?.map(|tls| tls.config), patience })
    }

    /// A client of this server alone.
    pub(crate) async fn client(&self, address: &ServerAddress) -> Result<Client, String> {
        let servers = address.connect_string();
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.connector.clone().connect(&servers).await {
                Err(Error::NoHosts | Error::ConnectionLoss) if attempts < ATTEMPTS => {}
                result => return result.map_err(|error| refusal_text(&error)),
            }
        }
    }
}

/// Asks a server with a four-letter word how it is. The error says why the server was not reached.
pub(crate) async fn ask_srvr(
    tls: Option<&Arc<ClientConfig>>,
    address: &ServerAddress,
    deadline: Instant,
) -> Result<Words, String> {
    Ok(match word::ask_word(address, tls, "srvr", deadline).await? {
        Ok(answer) => answers::parse_srvr(&answer),
        Err(mode) => Words { mode, ..Words::default() },
    })
}

/// Asks a server for its settings. `None` if it does not say them.
pub(crate) async fn ask_conf(
    tls: Option<&Arc<ClientConfig>>,
    address: &ServerAddress,
    deadline: Instant,
) -> Option<Settings> {
    let answer = word::ask_word(address, tls, "conf", deadline).await;
    answers::parse_conf(&answer.ok()?.ok()?)
}

/// The reason of a server that does not accept the credentials, or demands some.
pub(crate) const REJECTED: &str = "it rejects the credentials";

/// Why a server refused a session or a request.
pub(crate) fn refusal_text(error: &Error) -> String {
    match error {
        Error::NoHosts | Error::ConnectionLoss | Error::Timeout => "it closed the connection".to_owned(),
        Error::AuthFailed => REJECTED.to_owned(),
        error => error.to_string(),
    }
}
