//! The accepting half of every proxy: a port of this machine, a thread that accepts, an end on drop.
//!
//! Proxies run on threads of their own, and not on the test's runtime. A test that blocks its runtime must not change what
//! the network does, nor must several tests with a runtime each.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::{io, thread};

const STACK: usize = 128 * 1024;

/// Accepts connections until it is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    ending: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Listener {
    /// Accepts on a free port of `host` and calls `accepted` for each connection, on the accepting thread.
    pub(crate) fn start(
        host: Ipv4Addr,
        mut accepted: impl FnMut(TcpStream) + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((host, 0))?;
        let address = listener.local_addr()?;
        let ending = Arc::new(AtomicBool::new(false));
        let thread = spawn("zk-accept", {
            let ending = ending.clone();
            move || {
                loop {
                    let connection = listener.accept();
                    if ending.load(Ordering::SeqCst) {
                        return;
                    }
                    if let Ok((stream, _)) = connection {
                        // Requests are small and latency is what tests measure.
                        let _ = stream.set_nodelay(true);
                        accepted(stream);
                    }
                }
            }
        })?;
        Ok(Self { address, ending, thread: Some(thread) })
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        // `accept` returns only for a connection, so make one.
        let host =
            if self.address.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { self.address.ip() };
        if TcpStream::connect((host, self.address.port())).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// Starts a thread with a small stack: an ensemble with its proxies has dozens of threads.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.into()).stack_size(STACK).spawn(body)
}

/// Ends a connection for both sides at once. Threads that read from it or write to it wake up.
pub(crate) fn abort(stream: &TcpStream) {
    // Zero linger makes the final close a reset, as when a host dies or a firewall gives up on a connection.
    let _ = rustix::net::sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO));
    let _ = stream.shutdown(std::net::Shutdown::Both);
}
