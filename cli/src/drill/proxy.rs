//! A way from a holder of the drill to one server: a TCP proxy on loopback that can fail.
//!
//! To a server that speaks TLS, the proxy speaks TLS, too: it checks the server's certificate by the name in the connect
//! string, and presents the client's certificate. So the holder's bytes travel in clear text between two sockets of this
//! process, and the proxy admits no other process.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::pending;
use rustix::net::sockopt::set_socket_linger;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_rustls::TlsConnector;

use crate::connection::Address;

/// Most messages of ZooKeeper's protocol are shorter.
const CHUNK: usize = 16 * 1024;

/// What becomes of the bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Free,
    /// None passes, and nobody is told.
    Stopped,
    /// Each is late by half the time since then, up to the limit.
    Later {
        since: Instant,
        limit: Duration,
    },
}

/// The state of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weather {
    /// Whether a new connection is accepted.
    pub(super) admits: bool,
    pub(super) to_server: Flow,
    pub(super) to_client: Flow,
    /// How often every connection was cut.
    cuts: u32,
}

/// The proxy. Dropping it cuts its connections.
pub(super) struct Proxy {
    pub(super) address: String,
    weather: watch::Sender<Weather>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy that refuses connections at first.
    pub(super) async fn start(server: Address, tls: Option<Arc<ClientConfig>>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let calm = Weather { admits: false, to_server: Flow::Free, to_client: Flow::Free, cuts: 0 };
        let (weather, mut accepting) = (watch::Sender::new(calm), JoinSet::new());
        let seen = weather.clone();
        accepting.spawn(async move {
            // They end with this task.
            let mut connections = JoinSet::new();
            while let Ok((client, peer)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                if seen.borrow().admits && is_ours(peer, address) {
                    connections.spawn(serve(client, server.clone(), tls.clone(), seen.subscribe()));
                }
            }
        });
        Ok(Self { address: address.to_string(), weather, _accepting: accepting })
    }

    /// Lets connections in, and everything pass.
    pub(super) fn open(&self) {
        self.change(|weather| {
            *weather = Weather { admits: true, to_server: Flow::Free, to_client: Flow::Free, ..*weather };
        });
    }

    /// Cuts every connection with a reset, for both ends.
    pub(super) fn cut(&self) {
        self.change(|weather| weather.cuts = weather.cuts.wrapping_add(1));
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Weather)) {
        self.weather.send_modify(change);
    }
}

/// Serves one connection until an end closes it or it is cut.
async fn serve(
    client: TcpStream,
    server: Address,
    tls: Option<Arc<ClientConfig>>,
    mut weather: watch::Receiver<Weather>,
) {
    let cuts = weather.borrow().cuts;
    let mut cut = weather.clone();
    let relaying = async {
        // In a real network nothing of this would reach the server.
        let opened = weather.wait_for(|weather| weather.to_server != Flow::Stopped).await.is_ok();
        if opened && let Ok(server) = connect(&client, &server, tls).await {
            relay(client, server, &weather).await;
        }
    };
    tokio::select! {
        () = relaying => {}
        _ = cut.wait_for(|weather| weather.cuts != cuts) => {}
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection to the server. Both ends are told by a reset when the sockets are dropped.
async fn connect(
    client: &TcpStream,
    server: &Address,
    tls: Option<Arc<ClientConfig>>,
) -> io::Result<Box<dyn Stream>> {
    let plain = TcpStream::connect((server.host.as_str(), server.port)).await?;
    for socket in [client, &plain] {
        set_socket_linger(socket, Some(Duration::ZERO))?;
        socket.set_nodelay(true)?;
    }
    let Some(config) = tls.filter(|_| server.tls) else { return Ok(Box::new(plain)) };
    let name = ServerName::try_from(server.host.clone()).map_err(io::Error::other)?;
    Ok(Box::new(TlsConnector::from(config).connect(name, plain).await?))
}

async fn relay(client: TcpStream, server: Box<dyn Stream>, weather: &watch::Receiver<Weather>) {
    let ((from_client, to_client), (from_server, to_server)) = (split(client), split(server));
    tokio::select! {
        () = pump(from_client, to_server, weather.clone(), |weather| weather.to_server) => {}
        () = pump(from_server, to_client, weather.clone(), |weather| weather.to_client) => {}
    }
}

/// Passes bytes on in their order, each when it is due. Any number may be under way at once.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut weather: watch::Receiver<Weather>,
    flow: impl Fn(&Weather) -> Flow,
) {
    let (underway, mut arriving) = mpsc::unbounded_channel();
    let present = weather.clone();
    let reading = async {
        let mut chunk = vec![0; CHUNK];
        while let Ok(read @ 1..) = from.read(&mut chunk).await {
            let now = Instant::now();
            let due = match flow(&present.borrow()) {
                Flow::Later { since, limit } => now + ((now - since) / 2).min(limit),
                Flow::Free | Flow::Stopped => now,
            };
            let _writing_has_ended = underway.send((due, chunk[..read].to_vec()));
        }
        drop(underway);
        pending::<()>().await;
    };
    let writing = async {
        while let Some((due, bytes)) = arriving.recv().await {
            sleep_until(due).await;
            let passes = weather.wait_for(|weather| flow(weather) != Flow::Stopped).await.is_ok();
            if !passes || to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
                return;
            }
        }
        // An end that stops sending is told to the other one, unless nothing passes.
        if weather.wait_for(|weather| flow(weather) != Flow::Stopped).await.is_err() {
            pending::<()>().await;
        }
        let _gone = to.shutdown().await;
    };
    tokio::select! {
        () = reading => {}
        () = writing => {}
    }
}

/// Whether the client's end of a connection is a socket of this process.
fn is_ours(client: SocketAddr, proxy: SocketAddr) -> bool {
    let Ok(connections) = fs::read_to_string("/proc/net/tcp") else { return false };
    let Some(socket) = connections.lines().find_map(|line| socket_of(line, client, proxy)) else {
        return false;
    };
    let link = format!("socket:[{socket}]");
    let Ok(files) = fs::read_dir("/proc/self/fd") else { return false };
    files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == &*link))
}

/// The number of the socket that a line of `/proc/net/tcp` is about, if it is the one between these two.
fn socket_of(line: &str, local: SocketAddr, remote: SocketAddr) -> Option<&str> {
    let port = |field: &str| u16::from_str_radix(field.rsplit(':').next()?, 16).ok();
    let fields = line.split_whitespace().collect::<Vec<_>>();
    let is_it = port(fields.get(1)?)? == local.port() && port(fields.get(2)?)? == remote.port();
    is_it.then(|| fields.get(9).copied()).flatten()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_this_process_is_admitted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = listener.local_addr().unwrap();
        let client = TcpStream::connect(proxy).unwrap();
        let peer = client.local_addr().unwrap();
        assert!(is_ours(peer, proxy));
        // The socket becomes that of another process.
        let mut other = Command::new("cat").stdin(Stdio::from(OwnedFd::from(client))).spawn().unwrap();
        assert!(!is_ours(peer, proxy));
        drop(listener);
        other.wait().unwrap();
    }
}
