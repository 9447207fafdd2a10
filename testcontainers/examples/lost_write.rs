//! Three servers commit a deletion. Does one of them undo it? ZooKeeper 3.9.3 does ([ZOOKEEPER-4925], mended in 3.9.4).
//!
//! ```sh
//! cargo run -p zklock-testcontainers --example lost_write
//! ```
//!
//! A follower that comes back takes in what it has missed, but does not note it among the writes that it passes on. Once it
//! leads, a server whose last write is one of these has, by its notes, a write that nobody else has. So it has that server
//! cut its log back to the write before the gap, and sends it what comes behind the gap.
//!
//! [ZOOKEEPER-4925]: https://issues.apache.org/jira/browse/ZOOKEEPER-4925

use std::{error::Error, time::Duration};

use tokio::time::{sleep, timeout};
use zklock_testcontainers::Ensemble;
use zookeeper_client::{Acls, Client, CreateMode};

const TICK: Duration = Duration::from_secs(1);

/// The ticks after which servers that do not hear each other give up.
const SYNC_LIMIT: u32 = 7;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let ensemble = Ensemble::builder(3).tick_time(TICK).property("syncLimit", SYNC_LIMIT.to_string());
    let ensemble = ensemble.start().await?;
    let leader = ensemble.leader().await?;
    let [returns, lags] = ensemble.followers().await?[..] else { return Err("no two servers follow".into()) };
    let client = connect(&ensemble, leader).await?;
    let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    client.create("/holder", b"", &options).await?;
    for server in [returns, lags] {
        connect(&ensemble, server).await?.sync("/").await?;
    }

    ensemble.isolate(returns).await?;
    // So that it gives up, and takes in what it has missed when it comes back.
    sleep(TICK * (SYNC_LIMIT + 2)).await;
    client.delete("/holder", None).await?;
    println!("servers {leader} and {lags} commit the deletion; server {returns} is cut off");
    ensemble.stall(leader, lags).await?;
    ensemble.rejoin(returns).await?;
    timeout(TICK * SYNC_LIMIT, async {
        while !ensemble.admin(returns, "srvr").await.is_ok_and(|answer| answer.contains("Mode: follower")) {
            sleep(TICK / 20).await;
        }
    })
    .await
    .map_err(|_| "the machine is too slow: the leader gives up by now")?;
    client.create("/later", b"", &options).await?;
    println!(
        "server {returns} is back, and commits a write with server {leader}; server {lags} does not hear of it"
    );
    sleep(TICK * (SYNC_LIMIT + 1)).await;
    ensemble.kill(leader).await?;
    ensemble.heal().await?;
    println!("server {leader} is killed; server {} leads", ensemble.leader().await?);
    ensemble.restart(leader).await?;
    ensemble.wait_until_serving().await?;
    for server in 0..ensemble.len() {
        let there = connect(&ensemble, server).await?.check_stat("/holder").await?.is_some();
        println!(
            "server {server} {}",
            if there { "HAS the node that was deleted" } else { "does not have it" }
        );
    }
    Ok(())
}

async fn connect(ensemble: &Ensemble, server: usize) -> Result<Client, zookeeper_client::Error> {
    Client::connector().with_session_timeout(TICK * 20).connect(&ensemble.address(server)).await
}
