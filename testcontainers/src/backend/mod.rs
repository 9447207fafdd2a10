//! The two ways to run a server, behind one interface.

mod docker;
mod local;
mod owner;

use std::{fmt, net::Ipv4Addr, sync::Arc};

use tokio::sync::OnceCell;

use crate::{
    Error,
    config::{Member, Options},
};

/// How servers are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Containers of the image `zookeeper:3.9`.
    Docker,
    /// Processes on loopback, from the distribution's `zookeeper` package or an unpacked release in `ZOOKEEPER_HOME`.
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

const CHOICE: &str = "ZKLOCK_TEST_BACKEND";

/// A backend that was found to work.
#[derive(Clone, Debug)]
pub(crate) enum Platform {
    Docker(docker::Engine),
    Local(local::Installation),
}

impl Platform {
    /// The builder's choice, else that of the environment, else whatever works.
    pub(crate) async fn choose(asked: Option<Backend>) -> Result<Self, Error> {
        let asked = match (asked, std::env::var(CHOICE)) {
            (Some(backend), _) => Some(backend),
            (None, Ok(name)) => match name.as_str() {
                "docker" => Some(Backend::Docker),
                "local" => Some(Backend::Local),
                "" => None,
                _ => return Err(Error::InvalidOption(format!("{CHOICE}={name}: write docker or local"))),
            },
            (None, Err(_)) => None,
        };
        let unavailable = |backend| move |reason| Error::Unavailable { backend, reason };
        match asked {
            Some(backend @ Backend::Docker) => docker().await.map(Self::Docker).map_err(unavailable(backend)),
            Some(backend @ Backend::Local) => {
                local::Installation::find().map(Self::Local).map_err(unavailable(backend))
            }
            None => Self::whatever_works().await,
        }
    }

    async fn whatever_works() -> Result<Self, Error> {
        static SAID: OnceCell<()> = OnceCell::const_new();
        let docker = docker().await;
        let local = local::Installation::find();
        let (platform, reason) = match (docker, local) {
            (Ok(engine), _) if engine.has_image() => {
                (Self::Docker(engine), format!("the engine answers and has {}", docker::IMAGE))
            }
            (Ok(_), Ok(installation)) => (
                Self::Local(installation),
                format!("docker has no image {}; `make image` makes it", docker::IMAGE),
            ),
            (Ok(engine), Err(_)) => {
                (Self::Docker(engine), format!("the engine answers and will pull {}", docker::IMAGE))
            }
            (Err(docker), Ok(installation)) => (Self::Local(installation), docker),
            (Err(docker), Err(local)) => return Err(Error::NoBackend { docker, local }),
        };
        SAID.get_or_init(|| async {
            let backend = platform.backend();
            eprintln!("zklock-testcontainers: running ZooKeeper on the {backend} backend: {reason}");
        })
        .await;
        Ok(platform)
    }

    pub(crate) fn backend(&self) -> Backend {
        match self {
            Self::Docker(_) => Backend::Docker,
            Self::Local(_) => Backend::Local,
        }
    }

    /// The host address proxies between servers listen on.
    pub(crate) fn proxy_host(&self) -> Ipv4Addr {
        match self {
            Self::Docker(engine) => engine.proxy_host(),
            Self::Local(_) => Ipv4Addr::LOCALHOST,
        }
    }

    /// How servers name the host of the proxies.
    pub(crate) fn proxy_name(&self) -> &'static str {
        match self {
            Self::Docker(_) => docker::PROXY_NAME,
            Self::Local(_) => "127.0.0.1",
        }
    }

    /// Prepares server `index`, not yet running. `peers` are the other members as it is to see them.
    pub(crate) fn node(&self, index: usize, peers: &[Member], options: &Options) -> Result<Node, Error> {
        Ok(match self {
            Self::Docker(engine) => {
                Node::Docker(Arc::new(docker::Container::new(engine, index, peers, options)?))
            }
            Self::Local(installation) => {
                Node::Local(Box::new(local::Process::new(installation, index, peers, options)?))
            }
        })
    }
}

/// A container engine that answered once is not asked again.
async fn docker() -> Result<docker::Engine, String> {
    static ENGINE: OnceCell<docker::Engine> = OnceCell::const_new();
    ENGINE.get_or_try_init(docker::Engine::find).await.cloned()
}

/// One server, running or not.
#[derive(Debug)]
pub(crate) enum Node {
    Docker(Arc<docker::Container>),
    Local(Box<local::Process>),
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
    /// Starts it, for the first time or again; does not wait until it serves.
    pub(crate) async fn start(&self) -> Result<(), Error> {
        each!(self, node => node.start().await)
    }

    /// Writes its `zoo.cfg` anew, for its next start. Only once it was started.
    pub(crate) async fn configure(&self, options: &Options) -> Result<(), Error> {
        each!(self, node => node.configure(options).await)
    }

    /// Ends it the hard way. Its data stays.
    pub(crate) async fn kill(&self) -> Result<(), Error> {
        each!(self, node => node.kill().await)
    }

    pub(crate) async fn pause(&self) -> Result<(), Error> {
        each!(self, node => node.pause().await)
    }

    pub(crate) async fn unpause(&self) -> Result<(), Error> {
        each!(self, node => node.unpause().await)
    }

    /// Whether it ended by itself.
    pub(crate) async fn has_exited(&self) -> bool {
        each!(self, node => node.has_exited().await)
    }

    /// The last lines it logged.
    pub(crate) async fn log(&self) -> String {
        each!(self, node => node.log().await)
    }

    /// Its client address on the host.
    pub(crate) fn client_address(&self) -> String {
        each!(self, node => node.client_address())
    }

    /// Its quorum and election addresses, as the proxies reach them. Known once it is started.
    pub(crate) fn peer_addresses(&self) -> Option<(String, String)> {
        each!(self, node => node.peer_addresses())
    }
}

/// The last lines of a log.
fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines.get(lines.len().saturating_sub(30)..).unwrap_or_default().join("\n")
}
