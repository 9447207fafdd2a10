//! The process that a container belongs to. No container outlives its test process for long.
//!
//! Dropping a server removes its container. A process may end without dropping, because it is killed, or because it keeps a
//! server in a `static`. Two more nets catch its containers. If there is a `docker` command, a small shell waits on a pipe
//! from the process, and removes its containers when the pipe closes. And the next process that starts sweeps up the
//! containers of dead processes.

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use testcontainers::bollard::{
    Docker,
    query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder},
};
use testcontainers::core::client::docker_client_instance;

use crate::ports::Port;

/// The label that names the process which a container belongs to.
pub(super) const OWNER: &str = "org.zklock.testcontainers.owner";
/// The label that no two containers of a process share.
pub(super) const UNIQUE: &str = "org.zklock.testcontainers.unique";

const REAPER: &str = r#"
trap "" INT TERM HUP
cat >/dev/null
containers=$(docker ps --all --quiet --filter "label=$1")
[ -z "$containers" ] || docker rm --force --volumes $containers
"#;

/// This process, as `where/id/start`. An engine may serve several machines, and process ids are used again.
pub(super) fn label() -> String {
    let id = std::process::id();
    format!("{}/{id}/{}", host_and_namespace(), start_of(id).unwrap_or_default())
}

/// The label of one container of this process.
pub(super) fn label_of(port: &Port) -> String {
    format!("{}/{}", label(), port.number)
}

/// Host and process namespace. Process ids mean something only within these.
fn host_and_namespace() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{host}:{}", namespace.display())
}

/// When a process started, in the kernel's ticks. `None` if no such process exists.
fn start_of(id: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The command's name, in parentheses, may contain anything. The start is the 20th field after it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(String::from)
}

/// Whether the process that a label names is certainly gone.
fn is_dead(label: &str) -> bool {
    let mut parts = label.rsplitn(3, '/');
    let (Some(start), Some(id), Some(there)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    // Without /proc nothing is certain.
    let certain = start_of(std::process::id()).is_some() && there == host_and_namespace();
    certain && id.parse().is_ok_and(|id| start_of(id).as_deref() != Some(start))
}

/// Removes containers of processes that are gone.
pub(super) async fn sweep(client: &Docker) {
    for (id, labels) in list(client, OWNER).await {
        if labels.get(OWNER).is_some_and(|owner| is_dead(owner)) {
            discard(client, &id).await;
        }
    }
}

/// Removes the container with this unique label, if there is one.
pub(super) async fn remove(unique: &str) {
    if let Ok(client) = docker_client_instance().await {
        for (id, _) in list(&client, &format!("{UNIQUE}={unique}")).await {
            discard(&client, &id).await;
        }
    }
}

async fn list(client: &Docker, label: &str) -> Vec<(String, HashMap<String, String>)> {
    let filters = HashMap::from([("label".to_owned(), vec![label.to_owned()])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let containers = client.list_containers(Some(options)).await.unwrap_or_default();
    containers.into_iter().filter_map(|it| Some((it.id?, it.labels.unwrap_or_default()))).collect()
}

async fn discard(client: &Docker, id: &str) {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    // Another process may be sweeping too.
    let _ = client.remove_container(id, Some(options)).await;
}

/// Starts the shell that cleans up after this process. Later calls do nothing.
pub(super) fn watch() {
    static WATCH: OnceLock<Option<Child>> = OnceLock::new();
    WATCH.get_or_init(|| {
        Command::new("sh")
            .args(["-c", REAPER, "zookeeper-reaper"])
            .arg(format!("{OWNER}={}", label()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .ok()
    });
}
