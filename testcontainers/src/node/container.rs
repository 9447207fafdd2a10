//! A server in a container.
//!
//! The container is one of [`ZooKeeperImage`], started by the `testcontainers` crate. That crate has no `SIGKILL`, no
//! upload into a container that exists, and no container's own address. For these three this module asks the engine
//! itself.
//!
//! Proxies between servers are reached at this machine's address on the engine's bridge, and reach the servers at their
//! containers' addresses, if the bridge is this machine's. If it is not (an engine in a virtual machine), the proxies
//! listen on every address, and reach the servers at published ports.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use testcontainers::bollard::{
    body_full,
    models::{HostConfig, PortBinding},
    query_parameters::{
        InspectContainerOptions, KillContainerOptionsBuilder, UploadToContainerOptionsBuilder,
    },
};
use testcontainers::core::{Host, IntoContainerPort, client::docker_client_instance};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ImageExt};

use super::engine::{Engine, PATIENCE, is_own_thread, on_runtime, refused, runtime};
use super::log::tail;
use super::owner::{self, OWNER};
use crate::Error;
use crate::config::{Member, Options};
use crate::image::{self, CLIENT, CONF, CONFIG, ELECTION, QUORUM, ZooKeeperImage};
use crate::ports::Port;

/// How containers name this machine.
pub(crate) const PROXY_NAME: &str = "zookeeper-peers";

/// How often a freeze is repeated that the engine could not carry out.
const FREEZES: u32 = 3;

/// One server's container. It is made when the server is first started.
#[derive(Debug)]
pub(crate) struct Container {
    index: usize,
    /// Whether this machine reaches containers at their own addresses.
    direct: bool,
    image: ZooKeeperImage,
    pub(super) client: Port,
    quorum: Port,
    election: Port,
    made: Mutex<Option<Made>>,
}

#[derive(Clone, Debug)]
struct Made {
    container: Arc<ContainerAsync<ZooKeeperImage>>,
    /// Where this machine reaches the container itself.
    address: Option<IpAddr>,
}

impl Container {
    pub(crate) fn new(
        engine: &Engine,
        index: usize,
        peers: &[Member],
        options: &Options,
    ) -> Result<Self, Error> {
        Ok(Self {
            index,
            direct: engine.bridge.is_some(),
            image: ZooKeeperImage::member(index, peers, options),
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
            // The engine may give the container another address at each start.
            let address = if this.direct { address(container.id()).await? } else { None };
            *this.lock() = Some(Made { container, address });
            Ok(())
        })
        .await?
    }

    async fn make(&self) -> Result<ContainerAsync<ZooKeeperImage>, Error> {
        let mut published = vec![(CLIENT, self.client.number)];
        if !self.direct {
            published.extend([(QUORUM, self.quorum.number), (ELECTION, self.election.number)]);
        }
        let unique = owner::label_of(&self.client);
        let request = self
            .image
            .clone()
            .with_label(OWNER, owner::label())
            .with_label(owner::UNIQUE, &unique)
            .with_host(PROXY_NAME, Host::HostGateway)
            .with_startup_timeout(Duration::from_secs(120))
            .with_host_config_modifier(move |config| publish(config, &published));
        let result = request.start().await;
        if result.is_err() {
            // The engine may have created the container and then not started it, for want of a port.
            owner::remove(&unique).await;
        }
        result.map_err(refused(&format!(
            "start a container of {} (`make image` makes it where none can be pulled)",
            image::descriptor()
        )))
    }

    pub(crate) async fn configure(&self, options: &Options) -> Result<(), Error> {
        const ACTION: &str = "configure a container";
        let container = self.made()?.container;
        let text = self.image.zoo_cfg(options);
        on_runtime(ACTION, async move {
            // The engine takes files as an archive only.
            let mut header = tokio_tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            let mut archive = tokio_tar::Builder::new(Vec::new());
            let added = archive.append_data(&mut header, CONFIG, text.as_bytes()).await;
            added.map_err(refused(ACTION))?;
            let archive = archive.into_inner().await.map_err(refused(ACTION))?;
            let client = docker_client_instance().await.map_err(refused(ACTION))?;
            let options = UploadToContainerOptionsBuilder::new().path(CONF).build();
            let upload = client.upload_to_container(container.id(), Some(options), body_full(archive.into()));
            upload.await.map_err(refused(ACTION))
        })
        .await?
    }

    pub(crate) async fn kill(&self) -> Result<(), Error> {
        const ACTION: &str = "kill a container";
        let container = self.made()?.container;
        on_runtime(ACTION, async move {
            let client = docker_client_instance().await.map_err(refused(ACTION))?;
            let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
            if let Err(error) = client.kill_container(container.id(), Some(options)).await
                && container.is_running().await.unwrap_or(true)
            {
                return Err(refused(ACTION)(error));
            }
            // The engine answers before the process is gone.
            while container.is_running().await.map_err(refused(ACTION))? {
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
            for _ in 0..FREEZES {
                if container.pause().await.is_ok() {
                    return Ok(());
                }
            }
            container.pause().await
        };
        on_runtime("pause a container", pause).await?.map_err(refused("pause a container"))
    }

    pub(crate) async fn unpause(&self) -> Result<(), Error> {
        let container = self.made()?.container;
        let unpause = async move { container.unpause().await };
        on_runtime("unpause a container", unpause).await?.map_err(refused("unpause a container"))
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

    pub(crate) fn peer_addresses(&self) -> Option<(String, String)> {
        let made = self.made().ok()?;
        Some(match made.address {
            Some(address) => (format!("{address}:{QUORUM}"), format!("{address}:{ELECTION}")),
            None => (self.quorum.address(), self.election.address()),
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
            // If an abandoned operation still holds the container, the operation's end removes it.
            if let Some(container) = Arc::into_inner(made.container) {
                let _ = container.rm().await;
            }
            let _ = done.send(());
        });
        // The container is gone when `drop` returns, unless the engine takes too long. After a start that was cancelled, this
        // is the thread that removes it.
        if !is_own_thread() {
            let _ = wait.recv_timeout(PATIENCE);
        }
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
    const ACTION: &str = "find a container's address";
    let client = docker_client_instance().await.map_err(refused(ACTION))?;
    let container = client.inspect_container(id, None::<InspectContainerOptions>).await;
    let container = container.map_err(refused(ACTION))?;
    let networks = container.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
    Ok(networks.into_values().find_map(|network| network.ip_address?.parse().ok()))
}
