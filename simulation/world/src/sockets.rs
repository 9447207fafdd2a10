//! What a simulated process does with its connections.

use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::ids::{ConnectionId, Host};
use crate::network::Connection;
use crate::{libc, state};

/// The client's end of a connection. Dropping it closes it.
#[derive(Debug)]
pub struct Socket(ConnectionId);

/// A connection that is being made.
#[derive(Debug)]
pub struct Connecting(Option<Socket>);

impl Socket {
    /// Connects with the host of this name. A name that no host has is not found.
    pub fn connect(name: &str) -> Result<Connecting> {
        let host = name.strip_prefix('h').and_then(|number| number.parse().ok()).map(Host);
        let host = host.ok_or_else(|| Error::new(ErrorKind::NotFound, "no such host"))?;
        let process = libc::current().expect("a simulated process");
        let id = state::with(|state| {
            let client = state.processes[&process].host;
            state.network.open(&mut state.heap, process, client, host)
        });
        Ok(Connecting(Some(Self(id))))
    }

    /// Reads what has arrived. No byte is read when the other end has closed.
    pub fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize>> {
        let (read, old) = self.reading(context, buffer.len(), |connection, length| {
            for (place, byte) in buffer.iter_mut().zip(connection.near.received.drain(..length)) {
                *place = byte;
            }
        });
        drop(old);
        state::with(|state| state.network.has_read(&mut state.heap, self.0));
        read
    }

    /// Reads what has arrived and leaves it there.
    pub fn poll_peek(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize>> {
        let (read, old) = self.reading(context, buffer.len(), |connection, length| {
            for (place, byte) in buffer.iter_mut().zip(connection.near.received.iter().take(length)) {
                *place = *byte;
            }
        });
        drop(old);
        read
    }

    fn reading(
        &self,
        context: &mut Context<'_>,
        room: usize,
        read: impl FnOnce(&mut Connection, usize),
    ) -> (Poll<Result<usize>>, Option<Waker>) {
        self.with(|connection| match (connection.near.received.len(), connection.near.error) {
            // A reset discards what was not read.
            (_, Some(error)) => (Poll::Ready(Err(error.into())), None),
            (0, None) if connection.near.has_ended => (Poll::Ready(Ok(0)), None),
            (0, None) => (Poll::Pending, connection.near.reader.replace(context.waker().clone())),
            (length, None) => {
                let length = length.min(room);
                read(connection, length);
                (Poll::Ready(Ok(length)), None)
            }
        })
    }

    /// Writes bytes, if the kernel has room for them.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let (written, old) = self.with(|connection| match connection.near.error {
            Some(_) => (Poll::Ready(Err(ErrorKind::BrokenPipe.into())), None),
            None if connection.has_room() => (Poll::Ready(Ok(bytes.len())), None),
            None => (Poll::Pending, connection.near.writer.replace(context.waker().clone())),
        });
        drop(old);
        if matches!(written, Poll::Ready(Ok(_))) {
            state::with(|state| state.network.write(&mut state.heap, self.0, bytes));
        }
        written
    }

    /// Ends what this end writes.
    pub fn end(&self) {
        state::with(|state| state.network.end(&mut state.heap, self.0));
    }

    fn with<T>(&self, function: impl FnOnce(&mut Connection) -> T) -> T {
        state::with(|state| function(state.network.connections.get_mut(&self.0).expect("an open connection")))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let wakers = state::with(|state| state.network.drop_near(&mut state.heap, self.0));
        drop(wakers);
    }
}

impl Future for Connecting {
    type Output = Result<Socket>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let place = &mut self.get_mut().0;
        let socket = place.as_ref().expect("it is not polled again once it is done");
        let (polled, old) = socket.with(|connection| match connection.near.error {
            Some(error) => (Poll::Ready(Err(error.into())), None),
            None if connection.near.is_open => (Poll::Ready(Ok(())), None),
            None => (Poll::Pending, connection.near.reader.replace(context.waker().clone())),
        });
        drop(old);
        polled.map_ok(|()| place.take().expect("it is there"))
    }
}
