//! Many servers at once do not disturb each other.

use std::{collections::HashSet, time::Instant};

use crate::common::{PERSISTENT, connect};
use futures::future::try_join_all;
use zklock_testcontainers::ZooKeeper;

#[tokio::test]
async fn servers_that_start_together_are_apart() {
    let start = Instant::now();
    let servers = try_join_all((0..4).map(|_| ZooKeeper::start())).await.unwrap();
    println!("four servers in {:?} on {}", start.elapsed(), servers[0].backend());
    let addresses: HashSet<_> = servers.iter().map(ZooKeeper::connect_string).collect();
    assert_eq!(addresses.len(), 4);

    connect(&servers[0].connect_string()).await.create("/mine", b"", &PERSISTENT).await.unwrap();
    let other = connect(&servers[1].connect_string()).await;
    assert!(other.check_stat("/mine").await.unwrap().is_none());
}
