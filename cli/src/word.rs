//! ZooKeeper's four-letter words, over TCP or TLS. They need no session.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use zklock::session::ServerAddress;

/// The longest answer of a ZooKeeper server: `cons` has 200 bytes for each connection. The rest of a longer one is not read.
pub(crate) const LONGEST: u64 = 4 * 1024 * 1024;

/// How long to wait whether a server closes a connection before it has been sent anything.
const CLOSING: Duration = Duration::from_millis(300);
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    Leader,
    Follower,
    Observer,
    Standalone,
    ReadOnly,
    /// The server runs, but has no quorum.
    NotServing,
    /// The server was reached, but does not answer.
    Silent(String),
    Http,
    /// The server closes each connection before it has been sent anything.
    Closes,
    /// The server was reached, but TLS failed: it speaks none, its certificate is not trusted, or it does not trust the
    /// client's.
    TlsFailed(String),
    /// The server does not say.
    #[default]
    Unknown,
}

impl Mode {
    /// Whether the server has said that it serves clients.
    pub(crate) fn serves(&self) -> bool {
        match self {
            Self::Leader | Self::Follower | Self::Observer | Self::Standalone => true,
            // A server whose whitelist lacks the word has answered all the same.
            Self::Unknown => true,
            Self::ReadOnly
            | Self::NotServing
            | Self::Silent(_)
            | Self::Http
            | Self::Closes
            | Self::TlsFailed(_) => false,
        }
    }

    /// Why a server that was reached does not answer.
    pub(crate) fn problem(&self) -> Option<&str> {
        match self {
            Self::Silent(why) | Self::TlsFailed(why) => Some(why),
            Self::Http => Some("it speaks HTTP"),
            Self::Closes => Some("it closes connections at once"),
            _ => None,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Observer => "observer",
            Self::Standalone => "standalone",
            Self::ReadOnly => "read-only",
            Self::NotServing => "not serving",
            Self::Silent(_) => "silent",
            Self::Http => "http",
            Self::Closes => "closes",
            Self::TlsFailed(_) => "tls failed",
            Self::Unknown => "unknown",
        })
    }
}

/// Sends a word to a server, and returns the answer, or the mode of a server that was reached and gives none. The error says
/// why the server was not reached.
pub(crate) async fn ask_word(
    address: &ServerAddress,
    tls: Option<&Arc<ClientConfig>>,
    word: &str,
    deadline: Instant,
) -> Result<Result<String, Mode>, String> {
    let plain = match connect(address, deadline).await {
        Ok(plain) => plain,
        Err(error) if is_of_closing(&error) => return Ok(Err(Mode::Closes)),
        Err(error) => return Err(error_text(&error)),
    };
    match exchange_on(plain, address, tls, word, deadline).await {
        Err(Mode::Silent(_) | Mode::TlsFailed(_)) if closes_connections(address, deadline).await => {
            Ok(Err(Mode::Closes))
        }
        Err(Mode::Silent(_)) if speaks_http(address).await => Ok(Err(Mode::Http)),
        answer => Ok(answer),
    }
}

async fn connect(address: &ServerAddress, deadline: Instant) -> io::Result<TcpStream> {
    within_deadline(deadline, TcpStream::connect((address.host.as_str(), address.port))).await
}

/// Whether a server closes connections by itself. One that serves waits for the client's first bytes.
async fn closes_connections(address: &ServerAddress, deadline: Instant) -> bool {
    match connect(address, deadline).await {
        Ok(open) => timeout(CLOSING, open.peek(&mut [0])).await.is_ok_and(|read| !matches!(read, Ok(1..))),
        Err(error) => is_of_closing(&error),
    }
}

/// Whether a server that answers no word answers a request of HTTP, for which it waits.
async fn speaks_http(address: &ServerAddress) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        let mut begin = [0; 5];
        stream.read_exact(&mut begin).await?;
        Ok::<_, io::Error>(begin == *b"HTTP/")
    };
    timeout(CLOSING, asked).await.is_ok_and(|answer| answer.is_ok_and(|is_http| is_http))
}

/// Whether a server has accepted a connection, and has closed it before the client knew that it was made.
fn is_of_closing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

async fn exchange_on(
    plain: TcpStream,
    address: &ServerAddress,
    tls: Option<&Arc<ClientConfig>>,
    word: &str,
    deadline: Instant,
) -> Result<String, Mode> {
    let Some(config) = tls.filter(|_| address.tls) else {
        return within_deadline(deadline, exchange(plain, word))
            .await
            .map_err(|error| Mode::Silent(error_text(&error)));
    };
    let secure = async {
        let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
        TlsConnector::from(config.clone()).connect(name, plain).await
    };
    let answer = match within_deadline(deadline, secure).await {
        // A server that wants a certificate may refuse the client only now.
        Ok(secure) => within_deadline(deadline, exchange(secure, word))
            .await
            .map_err(|error| (error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()), error)),
        Err(error) => Err((error.kind() != io::ErrorKind::TimedOut, error)),
    };
    answer.map_err(|(is_of_tls, error)| {
        let mode = if is_of_tls { Mode::TlsFailed } else { Mode::Silent };
        mode(error_text(&error))
    })
}

async fn within_deadline<T>(deadline: Instant, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout_at(deadline, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, word: &str) -> io::Result<String> {
    stream.write_all(word.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    match stream.take(LONGEST).read_to_end(&mut answer).await {
        // A server may close the connection without the end that TLS asks for.
        Err(error) if answer.is_empty() => return Err(error),
        _ => {}
    }
    if answer.is_empty() {
        return Err(io::Error::other("it closed the connection"));
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The text of the error, without the system's error number.
fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    match (error.kind(), text.find(" (os error")) {
        (io::ErrorKind::TimedOut, _) => "no answer in time".to_owned(),
        (io::ErrorKind::UnexpectedEof, _) => "it closed the connection".to_owned(),
        (_, Some(end)) => text[..end].to_lowercase(),
        (_, None) => text,
    }
}
