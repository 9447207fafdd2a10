//! ZooKeeper in containers.
//!
//! The engine is spoken to from a runtime of this module's own. Its client keeps connections that belong to a runtime,
//! and an ensemble may well outlive the test, and with it the runtime, that first used it; and removing a container on
//! drop needs a runtime even where the test has none any more.
//!
//! Proxies between servers are reached at the bridge's host address and reach the servers at their container addresses
//! where the bridge is this machine's. Where it is not (an engine in a virtual machine), they listen on every address
//! and reach the servers at published ports.

use std::{
    net::{IpAddr, Ipv4Addr, TcpListener},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use testcontainers::{
    ContainerAsync, CopyTargetOptions, GenericImage, ImageExt, TestcontainersError,
    bollard::{
        Docker, body_full,
        models::{HostConfig, PortBinding},
        query_parameters::{
            InspectContainerOptions, InspectNetworkOptions, KillContainerOptionsBuilder,
            UploadToContainerOptionsBuilder,
        },
    },
    core::{Host, IntoContainerPort, client::docker_client_instance},
    runners::AsyncRunner,
};
use tokio::runtime::{Builder, Runtime};

use super::{
    owner::{self, OWNER},
    tail,
};
use crate::{
    Error,
    config::{Layout, Member, Options},
    ports::Port,
};

pub(super) const IMAGE: &str = "zookeeper:3.9";
/// What containers call the host.
pub(super) const PROXY_NAME: &str = "zookeeper-peers";

const CONF: &str = "/conf";
const CONFIG: &str = "zoo.cfg";

const CLIENT: u16 = 2181;
const QUORUM: u16 = 2888;
const ELECTION: u16 = 3888;

/// How often a container is frozen again that the engine could not freeze.
const FREEZES: u32 = 3;

/// How long the engine may take to say it is there, and to remove a container.
const PATIENCE: Duration = Duration::from_secs(30);

/// A container engine that answers.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    /// The host's address on the engine's bridge, if that bridge is this machine's.
    bridge: Option<Ipv4Addr>,
    has_image: bool,
}

impl Engine {
    /// Asks for an engine; the error says why there is none.
    pub(crate) async fn find() -> Result<Self, String> {
        let search = async {
            let client = docker_client_instance().await.map_err(|error| format!("no engine: {error}"))?;
            client.ping().await.map_err(|error| format!("the engine does not answer: {error}"))?;
            let bridge = bridge(&client).await;
            owner::sweep(&client).await;
            owner::watch();
            Ok(Self { bridge, has_image: client.inspect_image(IMAGE).await.is_ok() })
        };
        let search = async {
            match tokio::time::timeout(PATIENCE, search).await {
                Ok(found) => found,
                Err(_) => Err(format!("the engine does not answer within {PATIENCE:?}")),
            }
        };
        match on_runtime("find an engine", search).await {
            Ok(found) => found,
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) fn has_image(&self) -> bool {
        self.has_image
    }

    pub(crate) fn proxy_host(&self) -> Ipv4Addr {
        self.bridge.unwrap_or(Ipv4Addr::UNSPECIFIED)
    }
}

async fn bridge(client: &Docker) -> Option<Ipv4Addr> {
    let network = client.inspect_network("bridge", None::<InspectNetworkOptions>).await.ok()?;
    let gateway = network.ipam?.config?.into_iter().find_map(|config| config.gateway?.parse().ok())?;
    TcpListener::bind((gateway, 0)).is_ok().then_some(gateway)
}

/// One server's container, made when it is first started.
#[derive(Debug)]
pub(crate) struct Container {
    index: usize,
    direct: bool,
    layout: Layout,
    /// `zoo.cfg`, what it names, and the files to start from, by path in the container.
    files: Vec<(String, Vec<u8>)>,
    jvm_flags: String,
    client: Port,
    quorum: Port,
    election: Port,
    made: Mutex<Option<Made>>,
}

#[derive(Clone, Debug)]
struct Made {
    container: Arc<ContainerAsync<GenericImage>>,
    /// Where the host reaches the container itself.
    address: Option<IpAddr>,
}

impl Container {
    pub(crate) fn new(
        engine: &Engine,
        index: usize,
        peers: &[Member],
        options: &Options,
    ) -> Result<Self, Error> {
        let mut members = peers.to_vec();
        if !peers.is_empty() {
            members.push(Member {
                id: index + 1,
                host: "0.0.0.0".into(),
                quorum_port: QUORUM,
                election_port: ELECTION,
            });
            members.sort_by_key(|member| member.id);
        }
        let layout = Layout {
            conf: CONF.into(),
            data: "/data".into(),
            data_log: "/datalog".into(),
            client_host: "0.0.0.0".into(),
            client_port: CLIENT,
            members,
        };
        // The image leaves a configuration alone that is there already.
        let mut files = vec![(format!("{CONF}/{CONFIG}"), options.zoo_cfg(&layout).into_bytes())];
        files.extend(options.conf_files().map(|(name, bytes)| (format!("{CONF}/{name}"), bytes.to_owned())));
        for (name, bytes) in &options.data_files {
            let directory = if name.starts_with("log.") { "/datalog" } else { "/data" };
            files.push((format!("{directory}/version-2/{name}"), bytes.clone()));
        }
        Ok(Self {
            index,
            direct: engine.bridge.is_some(),
            layout,
            files,
            jvm_flags: options.jvm_flags().join(" "),
            client: Port::reserve()?,
            quorum: Port::reserve()?,
            election: Port::reserve()?,
            made: Mutex::default(),
        })
    }

    pub(crate) async fn start(self: &Arc<Self>) -> Result<(), Error> {
        let this = self.clone();
        on_runtime("start a container", async move {
            let container = match this.made() {
                Ok(made) => {
                    made.container.start().await.map_err(refused("start a container again"))?;
                    made.container
                }
                Err(_) => Arc::new(this.make().await?),
            };
            // The engine may give it another address each time.
            let address = if this.direct { address(container.id()).await? } else { None };
            *this.lock() = Some(Made { container, address });
            Ok(())
        })
        .await?
    }

    async fn make(&self) -> Result<ContainerAsync<GenericImage>, Error> {
        let (name, tag) = IMAGE.split_once(':').unwrap_or((IMAGE, "latest"));
        let mut published = vec![(CLIENT, self.client.number())];
        if !self.direct {
            published.extend([(QUORUM, self.quorum.number()), (ELECTION, self.election.number())]);
        }
        let unique = owner::label_of(&self.client);
        let mut request = GenericImage::new(name, tag)
            .with_label(OWNER, owner::label())
            .with_label(owner::UNIQUE, &unique)
            .with_env_var("ZOO_MY_ID", (self.index + 1).to_string())
            .with_env_var("JVMFLAGS", &self.jvm_flags)
            .with_env_var("JMXDISABLE", "true")
            .with_host(PROXY_NAME, Host::HostGateway)
            .with_startup_timeout(Duration::from_secs(120))
            .with_host_config_modifier(move |config| publish(config, &published));
        for (path, bytes) in &self.files {
            request = request.with_copy_to(CopyTargetOptions::new(path), bytes.clone());
        }
        let result = request.start().await;
        if result.is_err() {
            // It may have been created and then not started, for want of a port.
            owner::remove(&unique).await;
        }
        result.map_err(refused(&format!(
            "start a container of {IMAGE} (`make image` makes it where none can be pulled)"
        )))
    }

    pub(crate) async fn configure(&self, options: &Options) -> Result<(), Error> {
        let container = self.made()?.container;
        let text = options.zoo_cfg(&self.layout);
        on_runtime("configure a container", async move {
            let refused = |error: &dyn std::error::Error| Error::Docker {
                action: "configure a container".into(),
                reason: error.to_string(),
            };
            // The engine takes files as an archive only.
            let mut header = tokio_tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            let mut archive = tokio_tar::Builder::new(Vec::new());
            let added = archive.append_data(&mut header, CONFIG, text.as_bytes()).await;
            added.map_err(|error| refused(&error))?;
            let archive = archive.into_inner().await.map_err(|error| refused(&error))?;
            let client = docker_client_instance().await.map_err(|error| refused(&error))?;
            let options = UploadToContainerOptionsBuilder::new().path(CONF).build();
            let upload = client.upload_to_container(container.id(), Some(options), body_full(archive.into()));
            upload.await.map_err(|error| refused(&error))
        })
        .await?
    }

    pub(crate) async fn kill(&self) -> Result<(), Error> {
        let container = self.made()?.container;
        on_runtime("kill a container", async move {
            let refused = |error: &dyn std::error::Error| Error::Docker {
                action: "kill a container".into(),
                reason: error.to_string(),
            };
            let client = docker_client_instance().await.map_err(|error| refused(&error))?;
            let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
            if let Err(error) = client.kill_container(container.id(), Some(options)).await
                && container.is_running().await.unwrap_or(true)
            {
                return Err(refused(&error));
            }
            // The engine answers before the process is gone.
            while container.is_running().await.map_err(|error| refused(&error))? {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        })
        .await?
    }

    pub(crate) async fn pause(&self) -> Result<(), Error> {
        let container = self.made()?.container;
        let pause = async move {
            // The kernel may need longer than the engine waits to freeze a busy container ("unable to freeze").
            let mut paused = container.pause().await;
            for _ in 0..FREEZES {
                if paused.is_ok() {
                    break;
                }
                paused = container.pause().await;
            }
            paused.map_err(refused("pause a container"))
        };
        on_runtime("pause a container", pause).await?
    }

    pub(crate) async fn unpause(&self) -> Result<(), Error> {
        let container = self.made()?.container;
        let unpause = async move { container.unpause().await.map_err(refused("unpause a container")) };
        on_runtime("unpause a container", unpause).await?
    }

    pub(crate) async fn has_exited(&self) -> bool {
        let Ok(made) = self.made() else { return true };
        let running = async move { made.container.is_running().await };
        matches!(on_runtime("look at a container", running).await, Ok(Ok(false)))
    }

    pub(crate) async fn log(&self) -> String {
        let Ok(made) = self.made() else { return String::new() };
        let log = on_runtime("read a container's log", async move {
            let mut log = made.container.stdout_to_vec().await.unwrap_or_default();
            log.extend(made.container.stderr_to_vec().await.unwrap_or_default());
            log
        });
        tail(&String::from_utf8_lossy(&log.await.unwrap_or_default()))
    }

    pub(crate) fn client_address(&self) -> String {
        format!("127.0.0.1:{}", self.client.number())
    }

    pub(crate) fn peer_addresses(&self) -> Option<(String, String)> {
        let made = self.made().ok()?;
        Some(match made.address {
            Some(address) => (format!("{address}:{QUORUM}"), format!("{address}:{ELECTION}")),
            None => {
                let published = |port: &Port| format!("127.0.0.1:{}", port.number());
                (published(&self.quorum), published(&self.election))
            }
        })
    }

    fn made(&self) -> Result<Made, Error> {
        self.lock().clone().ok_or_else(|| Error::Docker {
            action: format!("find the container of server {}", self.index),
            reason: "it was never started".into(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let (Some(made), Ok(runtime)) = (self.lock().take(), runtime()) else { return };
        let (done, wait) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            // If an abandoned operation still holds it, its end removes the container.
            if let Some(container) = Arc::into_inner(made.container) {
                let _ = container.rm().await;
            }
            let _ = done.send(());
        });
        // "Gone afterwards" means when drop returns, within reason.
        let _ = wait.recv_timeout(PATIENCE);
    }
}

/// On loopback only: a test's server is nobody else's business.
fn publish(config: &mut HostConfig, ports: &[(u16, u16)]) {
    let binding = |&(inside, outside): &(u16, u16)| {
        let host = PortBinding { host_ip: Some("127.0.0.1".into()), host_port: Some(outside.to_string()) };
        (inside.tcp().to_string(), Some(vec![host]))
    };
    config.publish_all_ports = Some(false);
    config.port_bindings = Some(ports.iter().map(binding).collect());
}

async fn address(id: &str) -> Result<Option<IpAddr>, Error> {
    let failed = |reason: String| Error::Docker { action: "find a container's address".into(), reason };
    let client = docker_client_instance().await.map_err(|error| failed(error.to_string()))?;
    let container = client.inspect_container(id, None::<InspectContainerOptions>).await;
    let container = container.map_err(|error| failed(error.to_string()))?;
    let networks = container.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
    Ok(networks.into_values().find_map(|network| network.ip_address?.parse().ok()))
}

fn refused(action: &str) -> impl FnOnce(TestcontainersError) -> Error {
    let action = action.to_owned();
    move |error| Error::Docker { action, reason: chain(&error) }
}

/// An error and its causes; the engine's own words tend to be at the end.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

fn runtime() -> Result<&'static Runtime, Error> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let build = || {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("zk-docker").enable_all().build().ok()
    };
    RUNTIME.get_or_init(build).as_ref().ok_or_else(|| Error::Docker {
        action: "talk to the engine".into(),
        reason: "no thread could be started".into(),
    })
}

async fn on_runtime<T: Send + 'static>(
    action: &str,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Error> {
    let done = runtime()?.spawn(work).await;
    done.map_err(|error| Error::Docker { action: action.into(), reason: error.to_string() })
}
