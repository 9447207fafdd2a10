//! One server, as a container or as a process, behind one interface.

pub(crate) mod container;
pub(crate) mod engine;
pub(crate) mod local;
mod log;
mod owner;

use std::sync::Arc;

use container::Container;
use local::Process;

use crate::{Error, config::Options};

/// One server, running or not.
#[derive(Debug)]
pub(crate) enum Node {
    Docker(Arc<Container>),
    Local(Box<Process>),
}

macro_rules! each {
    ($self:ident, $node:ident => $call:expr) => {
        match $self {
            Node::Docker($node) => $call,
            Node::Local($node) => $call,
        }
    };
}

impl Node {
    /// Starts the server, for the first time or again. Does not wait until it serves.
    pub(crate) async fn start(&self) -> Result<(), Error> {
        each!(self, node => node.start().await)
    }

    /// Writes the server's `zoo.cfg` anew, for its next start. Works only once the server was started.
    pub(crate) async fn configure(&self, options: &Options) -> Result<(), Error> {
        each!(self, node => node.configure(options).await)
    }

    /// Ends the server with `SIGKILL`. Its data stays.
    pub(crate) async fn kill(&self) -> Result<(), Error> {
        each!(self, node => node.kill().await)
    }

    pub(crate) async fn pause(&self) -> Result<(), Error> {
        each!(self, node => node.pause().await)
    }

    pub(crate) async fn unpause(&self) -> Result<(), Error> {
        each!(self, node => node.unpause().await)
    }

    /// Whether the server ended by itself.
    pub(crate) async fn has_exited(&self) -> bool {
        each!(self, node => node.has_exited().await)
    }

    pub(crate) async fn log(&self) -> String {
        each!(self, node => node.log().await)
    }

    pub(crate) fn client_address(&self) -> String {
        each!(self, node => node.client.address())
    }

    /// The server's quorum and election addresses, as the proxies reach them. Known once the server is started.
    pub(crate) fn peer_addresses(&self) -> Option<(String, String)> {
        each!(self, node => node.peer_addresses())
    }
}
