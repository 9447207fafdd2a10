//! How the program reaches ZooKeeper: the options that all commands share, and the sessions and clients made with them.

mod kept;
#[cfg(test)]
mod tests;
mod tls;

use std::convert::Infallible;
use std::env;
use std::iter;
use std::os::unix::fs::PermissionsExt;
use std::path::{self, Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;

use clap::{Args, ValueEnum};
use futures::future::join_all;
use rustls::pki_types::ServerName;
use tokio::time::{Instant, timeout};
use zklock::session::{SaslOptions, Security, ServerAddress, ServerFailure, ServerProblem};
use zklock::{ConnectError, Session, SessionBuilder};
use zookeeper_client::{Client, Connector, Error};

use kept::Kept;
pub(crate) use tls::Tls;

use crate::console::Console;
use crate::exit::Code;
use crate::failure::{Failure, REJECTED};
use crate::number::number;
use crate::silence::Silence;
use crate::word::{self, Mode};
use crate::{closing, duration, text};

/// The environment variable with the digest credentials. Everybody on the machine can read arguments, so a secret is none.
const DIGEST: &str = "ZKLOCK_DIGEST";

const TLS: &str = "tcp+tls://";

/// How long connecting may take by default: as long as the default session timeout.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The session timeout of a plain client. Its session owns no nodes. The client takes a connection for dead after 2/5 of
/// it.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long servers may take to show why TLS fails.
const WORD: Duration = Duration::from_secs(2);

/// Longer than any session timeout that servers grant by default. Asked for it, they grant their longest.
const LONG_TIMEOUT: Duration = Duration::from_secs(3600);

/// The largest clock drift, in parts per million. With more, nothing would be left of a lease.
const MOST_DRIFT: u32 = 999_999;

/// How to reach ZooKeeper.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// ZooKeeper's connect string: host:port,host:port/chroot
    #[arg(long, short, global = true, env = "ZKLOCK_SERVERS", value_name = "SERVERS")]
    #[arg(default_value = "localhost:2181")]
    pub(crate) servers: String,

    /// How long ZooKeeper keeps a session's locks after it last heard from the session. A holder may lose its lock if a
    /// server stands still for longer than a fifth of this time, less --kill-after [default: 10s, or what the servers'
    /// limits allow]
    #[arg(long, global = true, env = "ZKLOCK_SESSION_TIMEOUT", value_name = "DURATION")]
    #[arg(value_parser = duration::parse)]
    pub(crate) session_timeout: Option<Duration>,

    /// How long connecting may take. zklock uses the last second of that time to find out why no server established a
    /// session. If a fifth of the time is shorter, it uses the last fifth [default: 10s]
    #[arg(long, global = true, env = "ZKLOCK_CONNECT_TIMEOUT", value_name = "DURATION")]
    #[arg(value_parser = duration::parse)]
    pub(crate) connect_timeout: Option<Duration>,

    /// The servers' tickTime [default: learned from a server: from its answer to `conf`, or from the session timeouts
    /// that it grants]
    #[arg(long, global = true, env = "ZKLOCK_TICK", value_name = "DURATION", value_parser = duration::parse_tick)]
    pub(crate) tick: Option<Duration>,

    /// How many parts per million a server's clock may be too fast or too slow; the default covers chrony's slews
    #[arg(long, global = true, env = "ZKLOCK_CLOCK_DRIFT", value_name = "PPM", default_value_t = SessionBuilder::DEFAULT_CLOCK_DRIFT, value_parser = number(0, MOST_DRIFT))]
    pub(crate) clock_drift: u32,

    /// A file with the digest credentials user:password, as its only line. You can also put the credentials into
    /// ZKLOCK_DIGEST, which zklock does not read if this option is given
    #[arg(long, global = true, env = "ZKLOCK_DIGEST_FILE", value_name = "FILE")]
    digest_file: Option<PathBuf>,

    /// Authenticate with SASL, by this mechanism and with the digest credentials, in place of the scheme digest
    #[arg(long, global = true, env = "ZKLOCK_SASL", value_name = "MECHANISM")]
    pub(crate) sasl: Option<Mechanism>,

    /// Connect over TLS, and trust the authorities whose certificates are in this PEM file
    #[arg(long, global = true, env = "ZKLOCK_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// A PEM file with the client's own certificate, for servers that ask for one
    #[arg(long, global = true, env = "ZKLOCK_TLS_CERT", value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_cert: Option<PathBuf>,

    /// A PEM file with the key of the client's certificate
    #[arg(long, global = true, env = "ZKLOCK_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Since when no server answers.
    #[arg(skip)]
    pub(crate) silence: Arc<Silence>,

    #[arg(skip)]
    digest: Kept<Option<String>>,

    #[arg(skip)]
    tls: Kept<Option<Tls>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mechanism {
    DigestMd5,
}

/// Credentials, and how they are shown to the servers.
enum Credentials {
    /// By the scheme digest: user:password.
    Digest(String),
    /// By SASL's DIGEST-MD5: the user, and the password.
    Sasl(String, String),
}

/// A command that looks: its session, which holds no lock, and what it needs beside that.
#[derive(Clone, Copy)]
pub(crate) struct Inquiry<'a> {
    pub(crate) session: &'a Session,
    pub(crate) connection: &'a Connection,
    pub(crate) console: Console,
}

/// An attempt to establish a session, and the option that bounds it.
struct Attempt {
    began: Instant,
    option: &'static str,
    bound: Duration,
}

impl Connection {
    /// A session for locks. `timeout` bounds the attempt if it is shorter than the connect timeout. If the chroot does not
    /// exist, `creates_chroot` has the first lock create it.
    pub(crate) async fn session_within(
        &self,
        timeout: Duration,
        creates_chroot: bool,
    ) -> Result<Session, Failure> {
        let attempt = self.new_attempt(timeout);
        let mut builder = self.builder()?.connect_timeout(attempt.bound);
        if creates_chroot {
            builder = builder.create_chroot();
        }
        let connected = self.tell_if_late(&attempt, builder.connect()).await;
        self.with_identity(connected, &attempt).await
    }

    /// The same, with the session timeout that the servers grant if they do not grant the one that was asked for.
    pub(crate) async fn session_as_granted(&self) -> Result<Session, Failure> {
        let attempt = self.new_attempt(Duration::MAX);
        let connected = self.tell_if_late(&attempt, connect_as_granted(|| self.builder())).await?;
        self.with_identity(connected, &attempt).await
    }

    /// Looks, in a session that holds no lock, so that any session timeout will do, and any tick.
    pub(crate) async fn in_session<T>(
        &self,
        console: Console,
        look: impl AsyncFnOnce(Inquiry<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.in_this_session(self.session_to_look().await?, console, look).await
    }

    /// Looks in this session, and closes it. Meanwhile it says so if no server answers.
    pub(crate) async fn in_this_session<T>(
        &self,
        session: Session,
        console: Console,
        look: impl AsyncFnOnce(Inquiry<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.silence.note_answer("", console);
        let seen = tokio::select! {
            seen = look(Inquiry { session: &session, connection: self, console }) => seen,
            never = self.watch_silence(&session, "", console) => match never {},
        };
        closing::close_session(&session).await;
        seen
    }

    /// Tells the user if the servers of this session do not answer, and why if it is TLS.
    pub(crate) async fn watch_silence(
        &self,
        session: &Session,
        waiting: &str,
        console: Console,
    ) -> Infallible {
        self.silence.watch_session(session, waiting, console, || self.tls_failures()).await
    }

    pub(crate) async fn session_to_look(&self) -> Result<Session, Failure> {
        let attempt = self.new_attempt(Duration::MAX);
        let connecting = async {
            match connect_as_granted(|| self.builder()).await {
                // No lease is possible with the longer tick and the session timeout that was asked for. With the longest session
                // timeout one is. What is said of other sessions is right with the longer tick.
                Ok(Err(ConnectError::TickUnknown { longer, .. })) => {
                    connect_as_granted(|| Ok(self.builder()?.tick(longer).session_timeout(LONG_TIMEOUT)))
                        .await
                }
                connected => connected,
            }
        };
        let connected = self.tell_if_late(&attempt, connecting).await?;
        self.with_identity(connected, &attempt).await
    }

    /// The session, if its server knows the client as the options ask for.
    ///
    /// A server without SASL answers its first message as if no more were to come (`ZooKeeperServer.processSasl`), and serves
    /// the client without an identity. So does a server that allows clients whose credentials are wrong.
    async fn with_identity(
        &self,
        connected: Result<Session, ConnectError>,
        attempt: &Attempt,
    ) -> Result<Session, Failure> {
        let session = connected.map_err(|error| self.connect_failure(error, attempt))?;
        if self.sasl.is_none() {
            return Ok(session);
        }
        // Servers before 3.7 do not say it.
        let left = attempt.bound.saturating_sub(attempt.began.elapsed());
        let users = match timeout(left, session.identities()).await {
            Ok(Ok(users)) => users,
            Ok(Err(_)) | Err(_) => return Ok(session),
        };
        let Some(problem) = sasl_problem(&users) else { return Ok(session) };
        closing::close_session(&session).await;
        let users = users.join(" and ");
        Err(Failure::new(
            Code::NotAuthorized,
            format_args!(
                "the server of this session {problem}, and knows this client as {users}; `zklock doctor` looks at each \
                 server; mend it, or leave out --sasl"
            ),
        ))
    }

    /// Awaits a session. If none comes, it says so once, also to a quiet user.
    async fn tell_if_late<T>(&self, attempt: &Attempt, servers: impl Future<Output = T>) -> T {
        let lacks = format!("no server of {:?} has established a session", self.connect_string());
        let bound = format!(" ({} is {})", attempt.option, duration::text(attempt.bound));
        self.silence.await_answer(servers, &lacks, &bound, || self.tls_failures()).await
    }

    fn new_attempt(&self, timeout: Duration) -> Attempt {
        let patience = self.patience();
        let option = if timeout < patience { "--timeout" } else { "--connect-timeout" };
        Attempt { began: Instant::now(), option, bound: timeout.min(patience) }
    }

    pub(crate) fn patience(&self) -> Duration {
        self.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT)
    }

    fn builder(&self) -> Result<SessionBuilder, Failure> {
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
        let first = self.security()?;
        let connection = self.clone();
        Ok(builder.secured_by(move || connection.security().unwrap_or_else(|_| first.clone())))
    }

    /// What secures the next connection. Its files are read again each time, because somebody may renew them while the program runs.
    fn security(&self) -> Result<Security, Failure> {
        let security = match self.credentials()? {
            Some(Credentials::Digest(digest)) => Security::new().auth("digest", digest),
            Some(Credentials::Sasl(user, password)) => {
                Security::new().sasl(SaslOptions::digest_md5(user, password))
            }
            None => Security::new(),
        };
        Ok(match self.tls()? {
            Some(tls) => security.tls(tls.session),
            None => security,
        })
    }

    fn connect_failure(&self, error: ConnectError, attempt: &Attempt) -> Failure {
        match error {
            ConnectError::AuthFailed => self.rejection(),
            ConnectError::Unreachable { servers, causes, .. } => {
                let option = attempt.option;
                let bound = duration::text(attempt.bound);
                let causes = causes_text(&causes);
                let message =
                    format!("no server of {servers:?} established a session ({option} is {bound}){causes}");
                Failure::new(Code::Unreachable, message)
            }
            error => error.into(),
        }
    }

    /// A plain client, to do as an operator does: look around, and delete nodes.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        self.servers()?;
        let servers = self.connect_string();
        let connector = self.connector()?;
        let connecting = async {
            loop {
                // The client gives up after its session timeout. The connect timeout may be longer.
                match connector.clone().connect(&servers).await {
                    Err(Error::Timeout) => {}
                    result => return result,
                }
            }
        };
        let connecting = timeout(self.patience(), connecting);
        match self.tell_if_late(&self.new_attempt(Duration::MAX), connecting).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(Error::AuthFailed)) => Err(self.rejection()),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Failure::new(
                Code::Unreachable,
                format_args!(
                    "no server of {servers:?} answered within {} (--connect-timeout)",
                    duration::text(self.patience())
                ),
            )),
        }
    }

    pub(crate) fn connector(&self) -> Result<Connector, Failure> {
        let mut connector = Client::connector().with_session_timeout(CLIENT_TIMEOUT);
        connector = match self.credentials()? {
            Some(Credentials::Digest(digest)) => connector.with_auth("digest", digest.as_bytes()),
            Some(Credentials::Sasl(user, password)) => {
                connector.with_sasl(zookeeper_client::SaslOptions::digest_md5(user, password))
            }
            None => connector,
        };
        if let Some(tls) = self.tls()? {
            connector = connector.with_tls(tls.client);
        }
        Ok(connector)
    }

    /// The connect string, with the scheme for TLS before each server that has none.
    pub(crate) fn connect_string(&self) -> String {
        let secured = |server: &str| {
            let scheme = if self.tls_ca.is_none() || server.contains("://") { "" } else { TLS };
            format!("{scheme}{server}")
        };
        self.servers.split(',').map(str::trim).map(secured).collect::<Vec<_>>().join(",")
    }

    /// What a zklock within the command needs to reach the same servers. The command may change its directory, so the names of
    /// files are absolute. A pipe can be read only once, so its name is left out.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let files = [
            ("ZKLOCK_DIGEST_FILE", &self.digest_file),
            ("ZKLOCK_TLS_CA", &self.tls_ca),
            ("ZKLOCK_TLS_CERT", &self.tls_cert),
            ("ZKLOCK_TLS_KEY", &self.tls_key),
        ];
        let files = files.into_iter().filter_map(|(variable, file)| {
            let file = file.as_ref().filter(|file| file.is_file())?;
            Some((variable, path::absolute(file).ok()?.to_str()?.to_owned()))
        });
        let sasl = self.sasl.and_then(|mechanism| mechanism.to_possible_value());
        let sasl = sasl.map(|mechanism| ("ZKLOCK_SASL", mechanism.get_name().to_owned()));
        iter::once(("ZKLOCK_SERVERS", self.servers.clone())).chain(sasl).chain(files).collect()
    }

    /// The command that examines the same servers in the same way.
    pub(crate) fn doctor_command(&self) -> String {
        let has_options = self.tls_ca.is_some() || self.digest_file.is_some() || self.sasl.is_some();
        let options = if has_options { ", with the same options for TLS and credentials" } else { "" };
        format!("`zklock doctor -s {}`{options}", self.servers)
    }

    /// The chroot; `/` if the connect string has none.
    pub(crate) fn chroot(&self) -> String {
        match ServerAddress::parse(&self.servers, false) {
            Ok((_, chroot)) if !chroot.is_empty() => chroot,
            _ => "/".to_owned(),
        }
    }

    /// The servers, one by one. If TLS is asked for, a server without TLS is an error: credentials would travel in clear
    /// text.
    pub(crate) fn servers(&self) -> Result<Vec<ServerAddress>, Failure> {
        let (servers, _) = ServerAddress::parse(&self.connect_string(), false)?;
        // The client does not check that a certificate can have such a name.
        let is_unnamed = |server: &&ServerAddress| server.tls && ServerName::try_from(&*server.host).is_err();
        if let Some(unnamed) = servers.iter().find(is_unnamed) {
            return Err(Failure::usage(format_args!("a certificate cannot have the host name of {unnamed}")));
        }
        match servers.iter().find(|server| self.tls_ca.is_some() && !server.tls) {
            None => Ok(servers),
            Some(plain) => Err(Failure::usage(format_args!(
                "the address {plain} excludes TLS, but --tls-ca demands TLS; leave out tcp:// or --tls-ca"
            ))),
        }
    }

    /// Whether a password is sent to the servers as it is. By SASL's DIGEST-MD5 it is not.
    pub(crate) fn sends_password(&self) -> Result<bool, Failure> {
        Ok(matches!(self.credentials()?, Some(Credentials::Digest(_))))
    }

    fn credentials(&self) -> Result<Option<Credentials>, Failure> {
        match (self.digest()?, self.sasl) {
            (None, Some(Mechanism::DigestMd5)) => Err(Failure::usage(
                "--sasl digest-md5 needs credentials; give --digest-file, or set ZKLOCK_DIGEST",
            )),
            (Some(digest), Some(Mechanism::DigestMd5)) => {
                let (user, password) = digest.split_once(':').unwrap_or((&digest, ""));
                Ok(Some(Credentials::Sasl(user.to_owned(), password.to_owned())))
            }
            (digest, None) => Ok(digest.map(Credentials::Digest)),
        }
    }

    fn digest(&self) -> Result<Option<String>, Failure> {
        self.digest.read_again([&self.digest_file], || self.read_digest())
    }

    fn read_digest(&self) -> Result<Option<String>, Failure> {
        let (source, digest) = match (&self.digest_file, env::var(DIGEST)) {
            (Some(file), _) => {
                warn_of_readers(file);
                (file.display().to_string(), tls::read_text(file)?)
            }
            (None, Ok(digest)) if !digest.is_empty() => (DIGEST.to_owned(), digest),
            (None, Err(env::VarError::NotUnicode(_))) => {
                return Err(Failure::usage(format_args!("{DIGEST} is not UTF-8")));
            }
            (None, _) => return Ok(None),
        };
        // An editor may write a mark of the byte order, which is no part of the name.
        let digest = digest.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n']);
        // The servers would accept each of these, and no ACL names such an identity.
        if digest.contains(['\r', '\n']) {
            return Err(Failure::usage(format_args!(
                "{source} has more than one line; write user:password as its only line"
            )));
        }
        match digest.split_once(':') {
            None => Err(Failure::usage(format_args!("{source} does not have the form user:password"))),
            Some(("", _)) => Err(Failure::usage(format_args!(
                "{source} has no user before the colon; write user:password"
            ))),
            Some(_) => Ok(Some(digest.to_owned())),
        }
    }

    pub(crate) fn tls(&self) -> Result<Option<Tls>, Failure> {
        self.tls.read_again([&self.tls_ca, &self.tls_cert, &self.tls_key], || self.read_tls())
    }

    fn read_tls(&self) -> Result<Option<Tls>, Failure> {
        let identity = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        match &self.tls_ca {
            Some(ca) => tls::read_settings(ca, identity).map(Some),
            None if self.servers.contains(TLS) => Err(Failure::usage(
                "TLS needs certificate authorities to trust; name their file with --tls-ca",
            )),
            None => Ok(None),
        }
    }

    pub(crate) async fn with_tls_failures(&self, failure: Failure) -> Failure {
        match failure.code {
            Code::Unreachable => self.tls_failures().await.into_iter().fold(failure, Failure::with_fact),
            _ => failure,
        }
    }

    /// Why TLS with its servers fails, as their answers to a four-letter word show it. A session does not show it.
    async fn tls_failures(&self) -> Vec<String> {
        let (Ok(Some(tls)), Ok(servers)) = (self.tls(), self.servers()) else { return Vec::new() };
        let deadline = Instant::now() + WORD;
        let asked = servers.iter().map(async |address| {
            match word::ask_word(address, Some(&tls.config), "srvr", deadline).await {
                Ok(Err(Mode::TlsFailed(why))) => {
                    Some(text::harmless(&format!("TLS with {address} failed: {why}")))
                }
                Ok(_) | Err(_) => None,
            }
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// The failure of a client whose credentials the servers do not accept.
    fn rejection(&self) -> Failure {
        let message = match self.credentials() {
            Ok(None) => {
                "the servers demand credentials; give --digest-file, or set ZKLOCK_DIGEST; if the servers demand SASL, add \
                 --sasl digest-md5"
            }
            Ok(Some(Credentials::Sasl(..))) => {
                "the servers reject the credentials; check --digest-file or ZKLOCK_DIGEST, and the users in the section \
                 Server of the servers' JAAS file (DigestLoginModule)"
            }
            _ => REJECTED,
        };
        Failure::new(Code::NotAuthorized, message)
    }
}

/// Warns once of a file with a secret that everybody on the machine can read. The command line has a file for it lest they can.
fn warn_of_readers(file: &Path) {
    static TOLD: Once = Once::new();
    if file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o004 != 0) {
        TOLD.call_once(|| {
            Console::Normal.warn(format_args!(
                "everybody on this machine can read the credentials in {0}; run `chmod 600 {0}`",
                file.display()
            ));
        });
    }
}

/// What a server has made of the client's SASL credentials, if the client has no identity there, to judge by those it has.
pub(crate) fn sasl_problem(users: &[String]) -> Option<&'static str> {
    let named = users.iter().find_map(|user| user.strip_prefix("sasl:"));
    match named {
        Some("") => Some(
            "gives SASL clients no name, so no ACL admits them (set its \
             authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider)",
        ),
        None if !users.is_empty() => Some(
            "took no SASL credentials (it has no JAAS file with a section Server; or they are wrong, and it sets \
             allowSaslFailedClients)",
        ),
        _ => None,
    }
}

/// Connects with the session timeout that the servers grant if they do not grant the one that was asked for.
async fn connect_as_granted(
    builder: impl Fn() -> Result<SessionBuilder, Failure>,
) -> Result<Result<Session, ConnectError>, Failure> {
    Ok(match builder()?.connect().await {
        Err(ConnectError::TimeoutNotGranted { granted, .. }) => {
            builder()?.session_timeout(granted).connect().await
        }
        connected => connected,
    })
}

/// The causes, and what to check if they do not say it.
fn causes_text(causes: &[ServerFailure]) -> String {
    let is_away = |failure: &ServerFailure| matches!(failure.cause, ServerProblem::NoConnection(_));
    let advice = if causes.is_empty() || causes.iter().any(is_away) {
        "; check their names and ports, that they run, and that they can be reached from here"
    } else {
        ""
    };
    let causes = causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let colon = if causes.is_empty() { "" } else { ": " };
    format!("{colon}{}{advice}", text::message(&causes))
}
