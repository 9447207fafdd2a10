//! Contenders of other clients in a lock's directory.

use std::time::Duration;

use support::{
    Server, acquire, enqueue, granted, make, operator, queue, server, session, sessions,
    until_nothing_is_left, within,
};
use zklock::{AcquireError, Lock, inspect::ForeignClient};
use zklock_testcontainers::ZooKeeper;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

const PATH: &str = "/lock/orders";

/// What other clients name their nodes, but for the number.
const STRANGERS: [(&str, ForeignClient); 7] = [
    ("_c_1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10-lock-", ForeignClient::Curator),
    ("_c_1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10-__WRIT__", ForeignClient::CuratorReadWrite),
    ("_c_1ef3b5a40e4f4cd59a397a9d3a6b7f10-lock-", ForeignClient::Go),
    ("1ef3b5a40e4f4cd59a397a9d3a6b7f10__lock__", ForeignClient::Kazoo),
    ("1ef3b5a40e4f4cd59a397a9d3a6b7f10__rlock__", ForeignClient::Kazoo),
    ("x-72057670035767296-", ForeignClient::WriteLock),
    ("guid-", ForeignClient::Unknown),
];

/// Queues as another client does; the path of its node.
async fn contend(stranger: &Client, prefix: &str) -> String {
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = stranger.create(&format!("{PATH}/{prefix}"), b"10.0.0.1", &options).await.unwrap();
    format!("{PATH}/{prefix}{sequence}")
}

fn expected(node: &str, client: ForeignClient, session: Option<i64>) -> AcquireError {
    AcquireError::ForeignContender { path: PATH.to_owned(), node: node.to_owned(), client, session }
}

async fn refused(lock: &Lock, error: AcquireError) {
    assert_eq!(within("the acquisition's end", lock.acquire()).await.map(drop), Err(error.clone()));
    assert_eq!(within("the try's end", lock.try_acquire()).await.map(drop), Err(error));
    assert!(queue(lock).await.is_empty(), "a node of ours is left");
}

#[tokio::test]
async fn a_higher_one_ends_the_wait_of_all_who_look() {
    let server = server().await;
    let (session, stranger) = (session(&server).await, operator(&server).await);
    let lock = session.lock(PATH).unwrap();
    for (prefix, client) in STRANGERS {
        let guard = lock.acquire().await.unwrap();
        let waiters = [enqueue(&lock).await, enqueue(&lock).await];
        let node = contend(&stranger, prefix).await;
        // Not a release: whoever is next looks again. It leaves, and the last one looks, too.
        stranger.delete(&guard.node(), None).await.unwrap();
        let error = expected(&node, client, Some(stranger.session_id().0));
        for waiter in waiters {
            assert_eq!(within("the wait's end", waiter).await.unwrap().map(drop), Err(error.clone()));
        }
        assert!(queue(&lock).await.is_empty(), "a node of ours is left");
        stranger.delete(&node, None).await.unwrap();
        drop(guard);
        until_nothing_is_left(&server).await;
    }
}

/// What a node may be: one that goes with its session, and three that outlive it.
fn modes() -> [CreateOptions<'static>; 4] {
    let modes =
        [CreateMode::Ephemeral, CreateMode::Persistent, CreateMode::Container, CreateMode::Persistent];
    let [ephemeral, persistent, container, ttl] = modes.map(|mode| mode.with_acls(Acls::anyone_all()));
    [ephemeral, persistent, container, ttl.with_ttl(Duration::from_secs(3600))]
}

/// kazoo's `acquire(ephemeral=False)` makes a contender that outlives its session, and kazoo waits for it. A node of an unknown
/// name that is not ephemeral is passed over.
#[tokio::test]
async fn a_lower_one_ends_an_acquisition_and_need_not_be_ephemeral_if_its_client_is_known() {
    let server = ZooKeeper::builder().java_property("zookeeper.extendedTypesEnabled", "true");
    let server = Server::from(server.start().await.unwrap());
    let (session, operator) = (session(&server).await, operator(&server).await);
    make(&operator, PATH).await;
    let lock = session.lock(PATH).unwrap();
    for (prefix, client) in STRANGERS {
        for (number, options) in modes().iter().enumerate() {
            let node = format!("{PATH}/{prefix}0000000000");
            operator.create(&node, b"", options).await.unwrap();
            let owner = (number == 0).then_some(operator.session_id().0);
            if client != ForeignClient::Unknown || owner.is_some() {
                refused(&lock, expected(&node, client, owner)).await;
                let seen = lock.foreign_contenders().await.unwrap();
                assert_eq!((seen.len(), &seen[0].path, seen[0].client), (1, &node, client));
            } else {
                let guard = within("acquire", lock.acquire()).await.unwrap();
                let waiter = enqueue(&lock).await;
                assert!(within("a try", lock.try_acquire()).await.unwrap().is_none());
                // Another session deletes the holder's node, so that the waiter lists.
                operator.delete(&guard.node(), None).await.unwrap();
                granted(waiter).await.release().await.unwrap();
                assert_eq!(lock.foreign_contenders().await.unwrap(), []);
            }
            operator.delete(&node, None).await.unwrap();
        }
    }
    within("acquire", lock.acquire()).await.unwrap().release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_node_that_is_not_ours_to_read_counts_as_a_contender() {
    let (server, [session]) = sessions().await;
    make(&operator(&server).await, PATH).await;
    let connector = Client::connector().with_auth("digest", b"operator:secret");
    let stranger = connector.connect(&server.connect_string()).await.unwrap();
    let node = format!("{PATH}/{}0000000000", STRANGERS[0].0);
    stranger.create(&node, b"", &CreateMode::Ephemeral.with_acls(Acls::creator_all())).await.unwrap();
    refused(&session.lock(PATH).unwrap(), expected(&node, ForeignClient::Curator, None)).await;
}

#[tokio::test]
async fn one_with_names_like_ours_is_known_by_its_data() {
    let server = server().await;
    let (session, stranger) = (session(&server).await, operator(&server).await);
    make(&stranger, PATH).await;
    let lock = session.lock(PATH).unwrap();
    let node = contend(&stranger, "lock-").await;
    let error = expected(&node, ForeignClient::Lookalike, Some(stranger.session_id().0));
    let waiters = [acquire(&lock), acquire(&lock)];
    for waiter in waiters {
        assert_eq!(within("the wait's end", waiter).await.unwrap().map(drop), Err(error.clone()));
    }
    // It waits for nobody, so it need not know whose the queue is.
    assert!(within("a try", lock.try_acquire()).await.unwrap().is_none());
    assert_eq!(lock.foreign_contenders().await.unwrap()[0].client, ForeignClient::Lookalike);
    stranger.delete(&node, None).await.unwrap();
    within("acquire", lock.acquire()).await.unwrap().release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_contender_whose_data_was_overwritten_is_no_stranger() {
    let server = server().await;
    let (session, operator) = (session(&server).await, operator(&server).await);
    let lock = session.lock(PATH).unwrap();
    let guard = lock.acquire().await.unwrap();
    let second = enqueue(&lock).await;
    operator.set_data(&queue(&lock).await[1].path, b"note", None).await.unwrap();
    let third = enqueue(&lock).await;
    guard.release().await.unwrap();
    granted(second).await.release().await.unwrap();
    granted(third).await.release().await.unwrap();
    assert_eq!(lock.foreign_contenders().await.unwrap(), []);
}

/// As a tool may restore it from a copy.
#[tokio::test]
async fn a_node_of_ours_that_is_not_ephemeral_is_no_contender_of_ours() {
    let server = server().await;
    let (session, operator) = (session(&server).await, operator(&server).await);
    let lock = session.lock(PATH).unwrap();
    let guard = lock.acquire().await.unwrap();
    let (data, _) = operator.get_data(&guard.node()).await.unwrap();
    let node = guard.node();
    guard.release().await.unwrap();
    make(&operator, PATH).await;
    operator.create(&node, &data, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    let error = within("the acquisition's end", lock.acquire()).await.map(drop);
    assert_eq!(error, Err(expected(&node, ForeignClient::Lookalike, None)));
    operator.delete(&node, None).await.unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
}
