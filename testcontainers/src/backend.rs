//! The name of a way to run servers.

use std::fmt;

/// How servers are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Servers are containers of the image `zookeeper:3.9`.
    Docker,
    /// Servers are processes on loopback, from the distribution's `zookeeper` package, or from an unpacked release in
    /// `ZOOKEEPER_HOME`.
    Local,
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Docker => "docker",
            Self::Local => "local",
        })
    }
}
