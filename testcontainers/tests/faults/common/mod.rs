//! What several test files need.
use std::collections::HashMap;
use std::process::Command;
use std::time::{Duration, Instant};

use testcontainers::bollard::query_parameters::{KillContainerOptionsBuilder, ListContainersOptionsBuilder};
use testcontainers::core::client::docker_client_instance;
use zklock_testcontainers::{Backend, Ensemble};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

pub(crate) const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());

pub(crate) async fn connect(address: &str) -> Client {
    connect_for(address, Duration::from_secs(40)).await
}

/// A session that asks for this timeout.
pub(crate) async fn connect_for(address: &str, timeout: Duration) -> Client {
    Client::connector().with_session_timeout(timeout).connect(address).await.expect("a session")
}

/// Polls until `look` is true; panics after `limit`.
pub(crate) async fn eventually(what: &str, limit: Duration, look: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !look().await {
        assert!(start.elapsed() < limit, "waited {limit:?} for {what} in vain");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Fails the test when `future` takes longer than half a minute.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .unwrap_or_else(|_| panic!("{what} did not happen"))
}

/// Kills the only server of an ensemble, and the ensemble knows nothing of that.
pub(crate) async fn kill_from_outside(ensemble: &Ensemble) {
    match ensemble.backend() {
        Backend::Local => {
            let conf = ensemble.admin(0, "conf").await.unwrap();
            let data = conf.lines().find_map(|line| line.strip_prefix("dataDir=")).expect("a data directory");
            let directory = data.split("/data/").next().unwrap();
            // The command line of the server's keeper, which is a shell, begins with `sh`.
            let server = format!("^[^ ]*java .* {directory}/zoo.cfg$");
            let found = Command::new("pgrep").args(["-f", &server]).output().unwrap();
            let found = String::from_utf8(found.stdout).unwrap();
            let [process] = found.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("not one process: {found}")
            };
            assert!(Command::new("kill").args(["-9", process]).status().unwrap().success());
        }
        Backend::Docker => {
            let engine = docker_client_instance().await.unwrap();
            let address = ensemble.address(0);
            let (_, port) = address.rsplit_once(':').unwrap();
            let filters = HashMap::from([("publish", vec![port])]);
            let published = ListContainersOptionsBuilder::new().filters(&filters).build();
            let found = engine.list_containers(Some(published)).await.unwrap();
            let [container] = &found[..] else { panic!("not one container: {found:?}") };
            let signal = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
            engine.kill_container(container.id.as_deref().unwrap(), Some(signal)).await.unwrap();
        }
    }
}
