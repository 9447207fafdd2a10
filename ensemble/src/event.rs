//! What happens to a server, and what it does.

use crate::election::Appointment;
use crate::id::{ConnectionId, ServerId};
use crate::message::PeerMessage;

/// Something happens to a server.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client has connected.
    Accepted(ConnectionId),
    /// Bytes have come from a client, in the order in which it sent them. Frames may be split anywhere.
    Received(ConnectionId, Vec<u8>),
    /// A client's connection is over.
    Closed(ConnectionId),
    /// A message has come from another server. Messages of one server come in the order in which it sent them.
    FromPeer(ServerId, PeerMessage),
    /// The connection to another server is over: what was not delivered is lost.
    PeerGone(ServerId),
    /// The servers have elected: see [`elect`](crate::elect).
    Elected(Appointment),
    /// A session expires now, if this server leads and serves, and the session lives. No real server is asked to.
    Expire(i64),
    /// These nodes are deleted now, in one transaction, if this server leads and serves: as by a client that may do so, and whose request
    /// takes no time.
    Delete(Vec<String>),
    /// From now on the server does nothing that its clients ask for, and says so, or serves them again: (q).
    Throttle(bool),
    /// Sessions and connections expire whose time has come, though more has arrived than was delivered.
    Expiry,
    /// The time has come that [`next_wake`](crate::Server::next_wake) said. Any other time does no harm. The driver
    /// delivers first whatever has arrived: a server reads what other servers have sent, however late, before it gives them up.
    Wake,
}

/// Something that a server does. The driver carries effects out in their order.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send these bytes to a client: whole frames.
    Send(ConnectionId, Vec<u8>),
    /// Close a client's connection, once everything has been sent. The server has forgotten it.
    Close(ConnectionId),
    /// Send a message to another server.
    ToPeer(ServerId, PeerMessage),
}
