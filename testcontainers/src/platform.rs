//! Which of the two ways to run servers works on this machine.

use std::{net::Ipv4Addr, sync::Arc};

use tokio::sync::OnceCell;

use crate::config::{Member, Options};
use crate::node::{
    Node,
    container::{self, Container},
    engine::Engine,
    local::{Installation, Process},
};
use crate::{Backend, Error, image};

const CHOICE: &str = "ZKLOCK_TEST_BACKEND";

/// A backend that was found to work.
#[derive(Clone, Debug)]
pub(crate) enum Platform {
    Docker(Engine),
    Local(Installation),
}

impl Platform {
    /// Takes the backend of the builder, else that of the environment, else the first one that works.
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
        let Some(backend) = asked else { return Self::whatever_works().await };
        let found = match backend {
            Backend::Docker => engine().await.map(Self::Docker),
            Backend::Local => Installation::find().map(Self::Local),
        };
        let unavailable = |reason| format!("The {backend} backend was asked for and does not work: {reason}");
        found.map_err(|reason| Error::NoBackend(unavailable(reason)))
    }

    async fn whatever_works() -> Result<Self, Error> {
        static SAID: OnceCell<()> = OnceCell::const_new();
        let image = image::descriptor();
        let docker = engine().await;
        let local = Installation::find();
        let (platform, reason) = match (docker, local) {
            (Ok(engine), _) if engine.has_image => {
                (Self::Docker(engine), format!("the engine answers and has {image}"))
            }
            (Ok(_), Ok(installation)) => {
                (Self::Local(installation), format!("docker has no image {image}; `make image` makes it"))
            }
            (Ok(engine), Err(_)) => {
                (Self::Docker(engine), format!("the engine answers and will pull {image}"))
            }
            (Err(docker), Ok(installation)) => (Self::Local(installation), docker),
            (Err(docker), Err(local)) => {
                return Err(Error::NoBackend(format!(
                    "Docker: {docker}. Local: {local}. Install one of them: `apt-get install zookeeper` for local processes, or a \
                     Docker engine and `make image`"
                )));
            }
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

    /// The address of this machine on which proxies between servers listen.
    pub(crate) fn proxy_host(&self) -> Ipv4Addr {
        match self {
            Self::Docker(engine) => engine.proxy_host(),
            Self::Local(_) => Ipv4Addr::LOCALHOST,
        }
    }

    /// How servers name the host of the proxies.
    pub(crate) fn proxy_name(&self) -> &'static str {
        match self {
            Self::Docker(_) => container::PROXY_NAME,
            Self::Local(_) => "127.0.0.1",
        }
    }

    /// Prepares server `index`, not yet running. `peers` are the other members, as this server is to see them.
    pub(crate) fn node(&self, index: usize, peers: &[Member], options: &Options) -> Result<Node, Error> {
        Ok(match self {
            Self::Docker(engine) => Node::Docker(Arc::new(Container::new(engine, index, peers, options)?)),
            Self::Local(installation) => {
                Node::Local(Box::new(Process::new(installation, index, peers, options)?))
            }
        })
    }
}

/// Finds the engine once. An engine that answered is not asked again.
async fn engine() -> Result<Engine, String> {
    static ENGINE: OnceCell<Engine> = OnceCell::const_new();
    ENGINE.get_or_try_init(Engine::find).await.cloned()
}
