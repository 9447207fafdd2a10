//! The names of what is in the world.

/// A machine in the network. Its name is `h` with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host(pub u16);

/// One connection. No two have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// A simulated process. No two have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId(pub u32);

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// What the caller of [`World::advance`](crate::World::advance) acts upon.
#[derive(Debug)]
pub enum Happening {
    /// A client's connection has reached this host.
    Accepted(Host, ConnectionId),
    /// Bytes have reached this host.
    Received(Host, ConnectionId, Vec<u8>),
    /// The client's end of a connection is closed, or the connection was reset.
    Closed(Host, ConnectionId),
    /// A process has run, and has taken in bytes that had come for it.
    Read(ProcessId),
    /// What somebody has asked for by [`at`](crate::at).
    Custom(u64),
}
