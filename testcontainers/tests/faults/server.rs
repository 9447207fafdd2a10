//! One server: start, restart, pause, options.

use std::time::Duration;

use crate::common::{PERSISTENT, connect, eventually, kill_from_outside};
use zklock_testcontainers::{Ensemble, Error, ZooKeeper};

#[tokio::test]
async fn a_restart_keeps_data_and_address() {
    let zk = ZooKeeper::start().await.unwrap();
    let address = zk.connect_string();
    let client = connect(&address).await;
    client.create("/kept", b"yes", &PERSISTENT).await.unwrap();

    zk.kill().await.unwrap();
    assert!(zk.admin("ruok").await.is_err(), "a killed server answers");
    assert!(matches!(zk.pause().await, Err(Error::NotRunning { index: 0, .. })));
    zk.restart().await.unwrap();

    assert_eq!(zk.connect_string(), address);
    let client = connect(&address).await;
    assert_eq!(client.get_data("/kept").await.unwrap().0, b"yes");
}

#[tokio::test]
async fn a_paused_server_does_nothing_until_it_goes_on() {
    let zk = ZooKeeper::start().await.unwrap();
    let client = connect(&zk.connect_string()).await;
    zk.pause().await.unwrap();
    let request = client.create("/later", b"", &PERSISTENT);
    tokio::pin!(request);
    let early = tokio::time::timeout(Duration::from_millis(500), &mut request).await;
    assert!(early.is_err(), "a paused server answered");
    zk.unpause().await.unwrap();
    crate::common::soon("the answer", request).await.unwrap();
}

#[tokio::test]
async fn a_server_that_ends_by_itself_is_noticed_and_starts_again() {
    let ensemble = Ensemble::start(1).await.unwrap();
    let client = connect(&ensemble.connect_string()).await;
    client.create("/kept", b"yes", &PERSISTENT).await.unwrap();
    assert!(!ensemble.has_exited(0).await.unwrap());
    ensemble.pause(0).await.unwrap();
    assert!(!ensemble.has_exited(0).await.unwrap(), "it is merely paused");
    ensemble.unpause(0).await.unwrap();

    kill_from_outside(&ensemble).await;
    eventually("the server's end", Duration::from_secs(20), async || ensemble.has_exited(0).await.unwrap())
        .await;
    let [paused, unpaused] = [ensemble.pause(0).await, ensemble.unpause(0).await];
    for refused in [paused, unpaused] {
        assert!(matches!(&refused, Err(Error::Exited { index: 0, log }) if !log.is_empty()), "{refused:?}");
    }

    ensemble.restart(0).await.unwrap();
    assert!(!ensemble.has_exited(0).await.unwrap());
    let client = connect(&ensemble.connect_string()).await;
    assert_eq!(client.get_data("/kept").await.unwrap().0, b"yes");
    ensemble.kill(0).await.unwrap();
    assert!(!ensemble.has_exited(0).await.unwrap(), "it was killed");
}

#[tokio::test]
async fn options_reach_the_server() {
    let zk = ZooKeeper::builder()
        .tick_time(Duration::from_millis(500))
        .min_session_timeout(Duration::from_millis(700))
        .property("maxClientCnxns", "17")
        .java_property("znode.container.checkIntervalMs", "100")
        .start()
        .await
        .unwrap();
    let conf = zk.admin("conf").await.unwrap();
    for line in ["tickTime=500", "minSessionTimeout=700", "maxSessionTimeout=10000", "maxClientCnxns=17"] {
        assert!(conf.contains(line), "no {line} in {conf}");
    }
    // An emptied container node goes with the next check, which by default comes once a minute.
    let client = connect(&zk.connect_string()).await;
    let container = zookeeper_client::CreateMode::Container.with_acls(zookeeper_client::Acls::anyone_all());
    client.create("/container", b"", &container).await.unwrap();
    client.create("/container/child", b"", &PERSISTENT).await.unwrap();
    client.delete("/container/child", None).await.unwrap();
    eventually("the container's removal", Duration::from_secs(10), async || {
        client.check_stat("/container").await.unwrap().is_none()
    })
    .await;
}

#[tokio::test]
async fn options_that_cannot_work_are_refused() {
    let blank = ZooKeeper::builder().java_property("a", "b c").start().await;
    assert!(matches!(blank, Err(Error::InvalidOption(_))), "{blank:?}");
    let outside = ZooKeeper::builder().data_file("../myid", "1").start().await;
    assert!(matches!(outside, Err(Error::InvalidOption(_))), "{outside:?}");
}
