//! Connections of a simulated process, in the place of async-net's.

use std::future::poll_fn;
use std::io::{IoSlice, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::io::{AsyncRead, AsyncWrite};
use world::Socket;

/// Returns the addresses of a host. Each host of the simulated world has one.
#[allow(clippy::unused_async)]
pub async fn resolve((_name, port): (&str, u16)) -> Result<Vec<SocketAddr>> {
    Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))])
}

/// See async-net's.
#[derive(Debug)]
pub struct TcpStream(Socket);

impl TcpStream {
    /// Connects with a host by its name and any port.
    pub async fn connect((name, _port): (&str, u16)) -> Result<Self> {
        Socket::connect(name)?.await.map(Self)
    }

    /// Reads what has arrived and leaves it there.
    pub async fn peek(&self, buffer: &mut [u8]) -> Result<usize> {
        poll_fn(|context| self.0.poll_peek(context, buffer)).await
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize>> {
        self.0.poll_read(context, buffer)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.0.poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.0.poll_write(context, &slices.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<_>>())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.end();
        Poll::Ready(Ok(()))
    }
}
