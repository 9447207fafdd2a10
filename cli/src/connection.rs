//! How ZooKeeper is reached: the options that all commands share, and what is connected with them.

mod address;
mod file;
#[cfg(test)]
mod tests;
mod tls;

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use zklock::lease::DEFAULT_DRIFT_PPM;
use zklock::{ConnectError, Session, SessionBuilder};
use zookeeper_client::{Client, Connector, Error};

pub(crate) use address::Address;
pub(crate) use tls::Tls;

use crate::duration;
use crate::exit::{Code, Failure};

/// The environment variable with the digest credentials; a secret is no argument, which everybody on the machine can
/// read.
const DIGEST: &str = "ZKLOCK_DIGEST";

/// How long connecting takes at most unless told otherwise: zklock's own default session timeout.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The session timeout of a plain client, whose session owns no nodes. It finds a connection dead after 2/5 of it.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// How to reach ZooKeeper.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// ZooKeeper's connect string: host:port,host:port/chroot
    #[arg(long, short, global = true, env = "ZKLOCK_SERVERS", value_name = "SERVERS")]
    #[arg(default_value = "localhost:2181")]
    pub(crate) servers: String,

    /// How long ZooKeeper keeps the locks of a session that it does not hear of [default: 10s, or what the servers'
    /// limits allow]
    #[arg(long, global = true, env = "ZKLOCK_SESSION_TIMEOUT", value_name = "DURATION")]
    #[arg(value_parser = duration::parse)]
    pub(crate) session_timeout: Option<Duration>,

    /// How long to try to connect [default: 10s]
    #[arg(long, global = true, env = "ZKLOCK_CONNECT_TIMEOUT", value_name = "DURATION")]
    #[arg(value_parser = duration::parse)]
    pub(crate) connect_timeout: Option<Duration>,

    /// The servers' tickTime [default: as a server tells it, by `conf` or by the session timeouts that it grants]
    #[arg(long, global = true, env = "ZKLOCK_TICK", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) tick: Option<Duration>,

    /// By how many parts in a million a server's clock may be too fast or too slow; the default covers chrony's slews
    #[arg(long, global = true, env = "ZKLOCK_CLOCK_DRIFT", value_name = "PPM", default_value_t = DEFAULT_DRIFT_PPM)]
    pub(crate) clock_drift: u32,

    /// A file with the digest credentials, user:password; or set ZKLOCK_DIGEST to them
    #[arg(long, global = true, env = "ZKLOCK_DIGEST_FILE", value_name = "FILE")]
    digest_file: Option<PathBuf>,

    /// Connect by TLS, and trust the authorities whose certificates are in this PEM file
    #[arg(long, global = true, env = "ZKLOCK_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// A PEM file with our own certificate, for servers that ask for one
    #[arg(long, global = true, env = "ZKLOCK_TLS_CERT", value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_cert: Option<PathBuf>,

    /// A PEM file with the key of our own certificate
    #[arg(long, global = true, env = "ZKLOCK_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl Connection {
    /// A session for locks.
    pub(crate) async fn session(&self) -> Result<Session, Failure> {
        self.builder()?.connect().await.map_err(|error| self.failure(error))
    }

    /// The same, which is given up after `patience` if that is shorter than the connect timeout.
    pub(crate) async fn session_within(&self, patience: Duration) -> Result<Session, Failure> {
        let builder = self.builder()?.connect_timeout(self.patience().min(patience));
        builder.connect().await.map_err(|error| self.failure(error))
    }

    /// How long to try to connect.
    pub(crate) fn patience(&self) -> Duration {
        self.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT)
    }

    /// What [`session`](Self::session) connects with.
    pub(crate) fn builder(&self) -> Result<SessionBuilder, Failure> {
        self.servers()?;
        let mut builder = Session::builder(self.connect_string())
            .connect_timeout(self.patience())
            .clock_drift(self.clock_drift);
        if let Some(timeout) = self.session_timeout {
            builder = builder.session_timeout(timeout);
        }
        if let Some(tick) = self.tick {
            builder = builder.tick(tick);
        }
        if let Some(digest) = self.digest()? {
            builder = builder.auth("digest", digest);
        }
        if let Some(tls) = self.tls()? {
            builder = builder.tls(tls.options);
        }
        Ok(builder)
    }

    /// Why there is no session; in the program's words where the library's are about its own options.
    pub(crate) fn failure(&self, error: ConnectError) -> Failure {
        match error {
            ConnectError::AuthFailed => self.rejected(),
            ConnectError::TickUnknown { shorter, longer } => Failure::usage(format_args!(
                "the servers' limits of session timeouts fit a tick of {} and one of {}; look at tickTime in zoo.cfg, and give \
                 it as --tick or ZKLOCK_TICK",
                duration::text(shorter),
                duration::text(longer)
            )),
            error => error.into(),
        }
    }

    /// A plain client, for what an operator does: look around, and remove nodes.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        self.servers()?;
        let servers = self.connect_string();
        let connector = self.connector()?;
        let connecting = async {
            loop {
                // The client gives up after a session timeout; our own patience may be longer.
                match connector.clone().connect(&servers).await {
                    Err(Error::Timeout) => {}
                    result => return result,
                }
            }
        };
        match tokio::time::timeout(self.patience(), connecting).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(Error::AuthFailed)) => Err(self.rejected()),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Failure::unreachable(&servers, self.patience())),
        }
    }

    /// What [`client`](Self::client) connects with.
    pub(crate) fn connector(&self) -> Result<Connector, Failure> {
        let mut connector = Client::connector().with_session_timeout(CLIENT_TIMEOUT);
        if let Some(digest) = self.digest()? {
            connector = connector.with_auth("digest", digest.as_bytes());
        }
        if let Some(tls) = self.tls()? {
            connector = connector.with_tls(tls.options);
        }
        Ok(connector)
    }

    /// The connect string, with the scheme for TLS before each server that has none.
    pub(crate) fn connect_string(&self) -> String {
        let secured = |server: &str| match self.tls_ca.is_none() || server.contains("://") {
            true => server.to_owned(),
            false => format!("{}{server}", address::TLS),
        };
        self.servers.split(',').map(str::trim).map(secured).collect::<Vec<_>>().join(",")
    }

    /// The servers, one by one. Where TLS is asked for, none is reached without: credentials would travel in clear text.
    pub(crate) fn servers(&self) -> Result<Vec<Address>, Failure> {
        let servers = address::parse(&self.connect_string())?;
        match servers.iter().find(|server| self.tls_ca.is_some() && !server.tls) {
            None => Ok(servers),
            Some(plain) => Err(Failure::usage(format_args!(
                "{plain} is to be reached without TLS, and --tls-ca asks for TLS; leave out tcp:// or --tls-ca"
            ))),
        }
    }

    /// The credentials, if there are any.
    pub(crate) fn digest(&self) -> Result<Option<String>, Failure> {
        let (source, digest) = match (&self.digest_file, env::var(DIGEST)) {
            (Some(file), _) => {
                (file.display().to_string(), file::read(file)?.trim_end_matches(['\r', '\n']).to_owned())
            }
            (None, Ok(digest)) if !digest.is_empty() => (DIGEST.to_owned(), digest),
            (None, Err(env::VarError::NotUnicode(_))) => {
                return Err(Failure::usage(format_args!("{DIGEST} is no UTF-8")));
            }
            (None, _) => return Ok(None),
        };
        // The servers would take it, and it would be nobody whom an ACL names.
        if !digest.contains(':') {
            return Err(Failure::usage(format_args!(
                "{source} has no credentials of the form user:password"
            )));
        }
        Ok(Some(digest))
    }

    /// What is needed to connect by TLS, if that is asked for.
    pub(crate) fn tls(&self) -> Result<Option<Tls>, Failure> {
        let Some(ca) = &self.tls_ca else {
            return match self.servers.contains(address::TLS) {
                true => Err(Failure::usage("TLS needs to know whom to trust; give --tls-ca")),
                false => Ok(None),
            };
        };
        let identity = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        tls::read(ca, identity).map(Some)
    }

    fn rejected(&self) -> Failure {
        let message = match self.digest() {
            Ok(None) => "the servers demand credentials; give --digest-file, or set ZKLOCK_DIGEST",
            _ => {
                "the servers reject the credentials; check --digest-file or ZKLOCK_DIGEST, and that they know digests"
            }
        };
        Failure::new(Code::NotAuthorized, message)
    }
}
