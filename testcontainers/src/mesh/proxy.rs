//! One proxy between two servers: a port of the host that leads to one port of one server.

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use super::first_message;
use crate::link::{Connection, Framer, Link, Shared, Toward};

/// How long a proxy tries to reach a server that does not listen. A new leader opens its quorum port at about the time
/// when its followers connect to it. A follower that is refused tries again; one that is hung up on starts another
/// election.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// How long a published port may take to hang up on behalf of a server that does not listen. The tests hang up themselves.
const HANG_UP: Duration = Duration::from_millis(if cfg!(test) { 10_000 } else { 100 });

#[derive(Debug)]
pub(super) struct Proxy {
    /// It leads nowhere until it is redirected. What servers say to each other is not framed.
    pub(super) link: Link,
    /// The address that the first message of a connection is to announce. Set for election proxies only.
    pub(super) announce: Arc<OnceLock<String>>,
}

impl Proxy {
    /// Opens a proxy on a free port of `host`.
    pub(super) fn start(host: Ipv4Addr) -> io::Result<Self> {
        let announce = Arc::<OnceLock<String>>::default();
        let link = Link::open(host, String::new(), Framer::unframed(), {
            let announce = announce.clone();
            move |link, connection| {
                // A proxy listens on every address only if its servers are elsewhere.
                let server = connect(link, connection, host.is_unspecified())?;
                if let (Some(address), Some(client)) = (announce.get(), connection.source(Toward::Server)) {
                    let message = first_message::read_and_replace(client, address)?;
                    if link.wait_open(connection, Toward::Server) {
                        (&server).write_all(&message)?;
                    }
                }
                Ok(server)
            }
        })?;
        Ok(Self { link, announce })
    }
}

fn connect(link: &Shared, connection: &Connection, published: bool) -> io::Result<TcpStream> {
    let start = Instant::now();
    loop {
        let upstream = link.lock().upstream.clone();
        let attempt = TcpStream::connect(upstream);
        match if published { attempt.and_then(taken) } else { attempt } {
            Err(_) if !connection.is_closed() && start.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(20));
            }
            result => return result,
        }
    }
}

/// Makes sure that the server itself took the connection. A published port takes every connection, and hangs up if the
/// server does not listen. A leader that is about to listen would lose its followers by that, and wait `initLimit` for
/// them.
fn taken(server: TcpStream) -> io::Result<TcpStream> {
    server.set_read_timeout(Some(HANG_UP))?;
    match server.peek(&mut [0]) {
        Ok(0) => return Err(io::ErrorKind::ConnectionRefused.into()),
        Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            return Err(error);
        }
        _ => server.set_read_timeout(None)?,
    }
    Ok(server)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{io::Read, net::TcpListener};

    use super::*;

    #[test]
    fn a_published_port_that_hangs_up_is_tried_again() {
        let proxy = Proxy::start(Ipv4Addr::UNSPECIFIED).unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        proxy.link.redirect(server.local_addr().unwrap().to_string());

        let mut client = TcpStream::connect(("127.0.0.1", proxy.link.port())).unwrap();
        client.write_all(b"follower").unwrap();
        drop(server.accept().unwrap());
        let mut seen = [0; 8];
        let mut taken = server.accept().unwrap().0;
        // It is not about to hang up.
        taken.write_all(b"leader").unwrap();
        taken.read_exact(&mut seen).unwrap();
        assert_eq!(&seen, b"follower");
    }
}
