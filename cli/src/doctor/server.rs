//! The questions to one server.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join3;
use rustls::ClientConfig;
use tokio::time::{Instant, timeout_at};
use zookeeper_client::{Client, Connector, Error};

use super::answers;
use super::seen::{Server, Visit, Words};
use super::word;
use crate::closing;
use crate::connection::{Address, Connection};
use crate::duration;
use crate::failure::Failure;

/// How many round trips the median is taken of.
const SAMPLES: usize = 7;

/// How often to ask for a session. A server that speaks TLS may answer the credentials before it announces the session, and
/// clients refuse that. It did so 38 of 334 times on ZooKeeper 3.9.3, and 6 of 506 times on 3.8.0.
const ATTEMPTS: usize = 10;

/// The longest session timeout of the protocol. A server that is asked for it grants its own longest.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

/// The settings for the questions.
pub(super) struct Questioner {
    connector: Connector,
    tls: Option<Arc<ClientConfig>>,
    patience: Duration,
}

impl Questioner {
    pub(super) fn new(connection: &Connection) -> Result<Self, Failure> {
        // The client gives up a silent connection for good, and not before `patience` is over.
        let patience = connection.patience().min(LONGEST_TIMEOUT / 2);
        let connector = connection
            .connector()?
            .with_session_timeout(LONGEST_TIMEOUT)
            .with_connection_timeout(patience)
            .with_fail_eagerly();
        Ok(Self { connector, tls: connection.tls()?.map(|tls| tls.config), patience })
    }

    /// Asks one server.
    pub(super) async fn ask(&self, address: Address) -> Server {
        let deadline = Instant::now() + self.patience;
        let visit = async {
            let late = |_| Err(format!("no answer within {}", duration::text(self.patience)));
            timeout_at(deadline, self.visit(&address)).await.unwrap_or_else(late)
        };
        let (hosts, mut words, visit) =
            join3(hosts(&address, deadline), self.words(&address, deadline), visit).await;
        // A proxy on the way may let sessions pass, and no words.
        if visit.is_ok() && !words.as_ref().is_ok_and(|words| words.mode.problem().is_none()) {
            words = Ok(Words::default());
        }
        Server { address, hosts, words, visit }
    }

    async fn words(&self, address: &Address, deadline: Instant) -> Result<Words, String> {
        let mut words = srvr(self.tls.as_ref(), address, deadline).await?;
        if words.mode.problem().is_none() {
            let conf = word::ask(address, self.tls.as_ref(), "conf", deadline).await.ok();
            words.settings = conf.and_then(Result::ok).and_then(|answer| answers::conf(&answer));
        }
        Ok(words)
    }

    /// The settings for four-letter words over TLS.
    pub(super) fn tls(&self) -> Option<&Arc<ClientConfig>> {
        self.tls.as_ref()
    }

    /// A client of this server alone.
    pub(super) async fn client(&self, address: &Address) -> Result<Client, String> {
        let servers = address.connect_string();
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.connector.clone().connect(&servers).await {
                Err(Error::NoHosts | Error::ConnectionLoss) if attempts < ATTEMPTS => {}
                result => return result.map_err(|error| refusal(&error)),
            }
        }
    }

    /// A session with this server alone.
    async fn visit(&self, address: &Address) -> Result<Visit, String> {
        let client = self.client(address).await?;
        let visit = look_around(&client).await.map_err(|error| refusal(&error));
        closing::client(client).await;
        visit
    }
}

/// Asks a server with a four-letter word how it is. The error says why the server was not reached.
pub(crate) async fn srvr(
    tls: Option<&Arc<ClientConfig>>,
    address: &Address,
    deadline: Instant,
) -> Result<Words, String> {
    Ok(match word::ask(address, tls, "srvr", deadline).await? {
        Ok(answer) => answers::srvr(&answer),
        Err(mode) => Words { mode, ..Words::default() },
    })
}

async fn look_around(client: &Client) -> Result<Visit, Error> {
    let config = client.get_config().await.ok();
    let identities = client.list_auth_users().await.unwrap_or_default();
    Ok(Visit {
        longest_timeout: client.session_timeout(),
        read: median(async || client.check_stat("/").await.map(|_| ())).await?,
        // This transaction only checks the root, but the servers handle it as a write.
        write: median(async || {
            client.new_check_writer("/", None)?.commit().await.map(|_| ()).map_err(Error::from)
        })
        .await?,
        members: config.map(|(config, _)| answers::members(&String::from_utf8_lossy(&config))),
        identities: identities.iter().map(|user| format!("{}:{}", user.scheme(), user.user())).collect(),
    })
}

/// The median round trip of a request. A refusal is an answer, too.
async fn median(mut request: impl AsyncFnMut() -> Result<(), Error>) -> Result<Duration, Error> {
    let mut lengths = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let sent = Instant::now();
        match request().await {
            Ok(()) | Err(Error::NoAuth) => lengths.push(sent.elapsed()),
            Err(error) => return Err(error),
        }
    }
    lengths.sort();
    Ok(lengths[SAMPLES / 2])
}

async fn hosts(address: &Address, deadline: Instant) -> Vec<IpAddr> {
    let named = tokio::net::lookup_host((address.host.as_str(), address.port));
    match timeout_at(deadline, named).await {
        Ok(Ok(hosts)) => hosts.map(|host| host.ip()).collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

fn refusal(error: &Error) -> String {
    match error {
        Error::NoHosts | Error::ConnectionLoss | Error::Timeout => "it closed the connection".to_owned(),
        Error::AuthFailed => "it rejects the credentials".to_owned(),
        error => error.to_string(),
    }
}
