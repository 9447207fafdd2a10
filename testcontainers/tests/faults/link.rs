//! The link: what it delays, loses, holds and counts.

use std::time::{Duration, Instant};

use crate::common::{PERSISTENT, connect, soon};
use futures::future::join_all;
use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};
use zklock_testcontainers::{Link, RequestKind, ZooKeeper};
use zookeeper_client::Client;

/// A server, a link to it, and a client of the link.
async fn linked() -> (ZooKeeper, Link, Client) {
    let zk = ZooKeeper::start().await.unwrap();
    let link = Link::start(zk.connect_string()).await.unwrap();
    let client = connect(&link.address()).await;
    (zk, link, client)
}

#[tokio::test]
async fn it_counts_requests_replies_and_events() {
    let (_zk, link, client) = linked().await;
    let counts = link.counts();
    assert_eq!(
        (counts.requests, counts.request_bytes, counts.reply_bytes),
        (0, 0, 0),
        "a handshake is not counted"
    );

    client.create("/node", b"1234", &PERSISTENT).await.unwrap();
    let (_, _, watcher) = client.get_and_watch_data("/node").await.unwrap();
    client.set_data("/node", b"", None).await.unwrap();
    soon("the event", watcher.changed()).await;
    assert!(client.get_data("/missing").await.is_err());

    let counts = link.counts();
    assert_eq!((counts.requests, counts.replies, counts.events), (4, 4, 1), "{counts:?}");
    assert!(counts.request_bytes > 60 && counts.reply_bytes > 60, "{counts:?}");
    assert_eq!(link.requests_of(RequestKind::GetData), 2);
    assert_eq!(link.requests_of(RequestKind::Create), 1);
    assert_eq!(link.requests_of(RequestKind::Any), 4);
    link.reset_counts();
    assert_eq!(link.counts().requests, 0);
    assert_eq!(link.connections(), 1);
}

#[tokio::test]
async fn a_round_trip_takes_what_was_asked_and_requests_overlap() {
    let (_zk, link, client) = linked().await;
    // The fastest tenth: what the link does, rather than what a loaded machine does to it.
    let fast = || async {
        let mut times = Vec::new();
        for _ in 0..200 {
            let start = Instant::now();
            client.check_stat("/").await.unwrap();
            times.push(start.elapsed());
        }
        times.sort();
        times[times.len() / 10]
    };
    fast().await;
    let without = fast().await;
    for added in [Duration::from_millis(1), Duration::from_millis(10)] {
        link.set_round_trip(added);
        // A processor wakes up the later, the longer it was idle: after 5 ms by 0.7 to 1.2 ms, each way, on one machine.
        let most = without + added + Duration::from_millis(1) + added / 4;
        let mut with = fast().await;
        for _ in 0..3 {
            println!("round trip: {without:?} without, {with:?} with {added:?} added");
            // The machine may have become busier since.
            if with >= most {
                with = fast().await;
            }
        }
        assert!(with >= added && with < most, "{with:?}");
    }
    let start = Instant::now();
    join_all((0..100).map(|_| client.check_stat("/"))).await;
    // One after the other they would take a second.
    assert!(start.elapsed() < Duration::from_secs(1), "100 requests at once took {:?}", start.elapsed());
}

#[tokio::test]
async fn a_black_hole_keeps_connections_and_everything_sent() {
    let (_zk, link, client) = linked().await;
    link.black_hole();
    let request = client.create("/late", b"", &PERSISTENT);
    tokio::pin!(request);
    assert!(
        timeout(Duration::from_millis(300), &mut request).await.is_err(),
        "an answer out of a black hole"
    );
    assert_eq!(link.connections(), 1);

    let mut newcomer = TcpStream::connect(link.address()).await.unwrap();
    assert!(timeout(Duration::from_millis(100), newcomer.read_u8()).await.is_err());
    link.restore();
    soon("the late answer", request).await.unwrap();
    assert!(soon("the newcomer's end", newcomer.read_u8()).await.is_err());
}

#[tokio::test]
async fn refused_connections_end_at_once_and_current_ones_stay() {
    let (_zk, link, client) = linked().await;
    link.refuse();
    // The end may be quick enough for `connect` itself to see it.
    if let Ok(mut refused) = TcpStream::connect(link.address()).await {
        assert!(soon("the refusal", refused.read_u8()).await.is_err());
    }
    client.check_stat("/").await.unwrap();
    link.accept();
    connect(&link.address()).await;
}

#[tokio::test]
async fn replies_before_a_lost_one_arrive_in_spite_of_delay() {
    let (_zk, link, client) = linked().await;
    link.set_round_trip(Duration::from_millis(50));
    let lost = link.lose_reply(RequestKind::Create);
    let (before, create) = (client.check_stat("/"), client.create("/x", b"", &PERSISTENT));
    assert!(before.await.is_ok());
    assert!(create.await.is_err());
    soon("the loss", lost.happened()).await;
}

#[tokio::test]
async fn a_dropped_rule_is_called_off() {
    let (_zk, link, client) = linked().await;
    drop(link.lose_reply(RequestKind::Any));
    drop(link.hold_reply(RequestKind::Any));
    drop(link.hold_request(RequestKind::Any));
    soon("the reply", client.check_stat("/")).await.unwrap();
}

#[tokio::test]
async fn a_dropped_link_is_gone() {
    let (_zk, link, _client) = linked().await;
    let address = link.address();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    drop(link);
    assert!(soon("the end", stream.read_u8()).await.is_err());
    assert!(TcpStream::connect(&address).await.is_err());
}
