//! The container engine.
//!
//! The engine is spoken to from a runtime of this module's own, for two reasons. The engine's client keeps connections
//! that belong to a runtime, and an ensemble may well outlive the test, and with it the runtime, that first used it. And
//! removing a container on drop needs a runtime even where the test has none any more.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;
use std::time::Duration;

use testcontainers::bollard::{Docker, query_parameters::InspectNetworkOptions};
use testcontainers::core::client::docker_client_instance;
use tokio::runtime::{Builder, Runtime};

use super::owner;
use crate::{Error, image};

/// The name of the runtime's only thread.
const THREAD: &str = "zk-docker";

/// How long the engine may take to answer, and to remove a container.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A container engine that answers.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    /// This machine's address on the engine's bridge, if that bridge is this machine's.
    pub(super) bridge: Option<Ipv4Addr>,
    pub(crate) has_image: bool,
}

impl Engine {
    /// Asks for an engine. The error says why this machine has none.
    pub(crate) async fn find() -> Result<Self, String> {
        let search = async {
            let client = docker_client_instance().await.map_err(|error| format!("no engine: {error}"))?;
            client.ping().await.map_err(|error| format!("the engine does not answer: {error}"))?;
            let bridge = bridge(&client).await;
            owner::sweep(&client).await;
            owner::watch();
            Ok(Self { bridge, has_image: client.inspect_image(&image::descriptor()).await.is_ok() })
        };
        let bounded = async {
            let late = |_| Err(format!("the engine does not answer within {PATIENCE:?}"));
            tokio::time::timeout(PATIENCE, search).await.unwrap_or_else(late)
        };
        on_runtime("find an engine", bounded).await.map_err(|error| error.to_string())?
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

/// Does `work` on the runtime that speaks to the engine.
pub(super) async fn on_runtime<T: Send + 'static>(
    action: &str,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Error> {
    let done = runtime()?.spawn(work).await;
    done.map_err(|error| Error::Docker { action: action.into(), reason: error.to_string() })
}

/// The runtime that speaks to the engine.
pub(super) fn runtime() -> Result<&'static Runtime, Error> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let build = || {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name(THREAD).enable_all().build().ok()
    };
    RUNTIME.get_or_init(build).as_ref().ok_or_else(|| Error::Docker {
        action: "talk to the engine".into(),
        reason: "no thread could be started".into(),
    })
}

/// Whether this is the thread of the runtime that speaks to the engine. It must wait for nothing that the runtime does.
pub(super) fn is_own_thread() -> bool {
    std::thread::current().name() == Some(THREAD)
}

/// Turns a failure of `action` into an error.
pub(super) fn refused<E: std::error::Error>(action: &str) -> impl FnOnce(E) -> Error {
    let action = action.to_owned();
    move |error| Error::Docker { action, reason: chain(&error) }
}

/// An error and its causes. The engine's own words tend to be at the end.
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
