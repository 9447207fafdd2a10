//! `zklock ls`: the locks below a node.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use zklock::{Acl, Session};
use zklock_testcontainers::{Link, RequestKind};
use zookeeper_client::{Acls, CreateMode};

use crate::support::{
    DIGEST, at, authorized, contend_as_kazoo, has, lock_of, owner, rows, set_acl, with_session, zklock,
    zklock_as,
};
use zklock_test_support::{enqueue, make, operator, own_server, queue, server, session, within};

/// The paths of a listing.
fn paths(listing: &Value) -> Vec<&str> {
    listing.as_array().expect("an array").iter().map(|lock| lock["path"].as_str().expect("a path")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_locks_of_a_tree() {
    let (server, servers, session) = with_session(own_server().await).await;
    let operator = operator(&server).await;
    let lock = |path, text| session.lock(path).unwrap().with_options(owner(text)).unwrap();
    let orders = lock("/lock/orders", "alpha\u{1b}[31m");
    let _orders = orders.acquire().await.unwrap();
    let _waiters = (enqueue(&orders).await, enqueue(&lock("/lock/orders", "beta")).await);
    // This lock is within another one's directory.
    let deep = lock("/lock/orders/of/one/day", "gamma").acquire().await.unwrap();
    let _near = lock("/lock/a", "delta").acquire().await.unwrap();
    let _elsewhere = lock("/other", "epsilon").acquire().await.unwrap();
    for path in
        ["/lock/empty", "/lock/data/lock-7", "/lock/data/lock-00000000001", "/lock/data/read-0000000001"]
    {
        make(&operator, path).await;
    }
    // This is no lock: it is inside the servers' own nodes.
    make(&operator, "/zookeeper/quota/lock/lock-0000000000").await;

    let listed = zklock(&servers, "ls --json").await.json();
    assert_eq!(paths(&listed), ["/lock/a", "/lock/orders", "/lock/orders/of/one/day", "/other"]);
    let seen = zklock(&servers, "show --json /lock/orders").await.json();
    let holder = &seen["contenders"][0];
    let expected = json!({"path": "/lock/orders", "holder": holder, "holders": 1, "waiting": 2, "layout": null, "zklock": 3, "foreign": 0, "election": null, "pool": null});
    assert_eq!(listed[1], expected);
    assert_eq!(listed[2]["holder"]["token"], deep.token().zxid());

    let listed = zklock(&servers, "ls").await;
    assert_eq!((listed.code, listed.stderr.as_str()), (0, ""));
    let lines = rows(&listed.stdout);
    assert_eq!((lines.len(), &lines[0][..]), (5, &["PATH", "HOLDER", "ARRIVED", "WAITING"][..]));
    assert_eq!([lines[2][0], lines[2][1], lines[2][3]], ["/lock/orders", r"alpha\u{1b}[31m", "2"]);

    // `ls` looks only below its root, which may be a lock itself.
    let below = zklock(&servers, "ls --json /lock/orders").await.json();
    assert_eq!(paths(&below), ["/lock/orders", "/lock/orders/of/one/day"]);
    assert_eq!(zklock(&servers, "ls /lock/empty").await.stdout, "");
    assert_eq!(zklock(&servers, "ls --json /lock/empty").await.json(), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn contenders_of_other_clients_are_counted() {
    let (server, servers, session) = with_session(server().await).await;
    let stranger = operator(&server).await;
    let _orders = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let _bills = session.lock("/lock/bills").unwrap().acquire().await.unwrap();
    for _ in 0..2 {
        contend_as_kazoo(&stranger, "/lock/orders").await;
    }
    // A lock that only other clients use is not listed. A node that is not ephemeral, and has no known client's name, is no
    // contender.
    make(&stranger, "/theirs").await;
    contend_as_kazoo(&stranger, "/theirs").await;
    make(&stranger, "/lock/bills/part-0000000007").await;
    // This holder has a name like zklock's, and data of its own.
    make(&stranger, "/lookalike").await;
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    stranger.create("/lookalike/lock-", b"10.0.0.1", &options).await.unwrap();
    let listed = zklock(&servers, "ls --json").await.json();
    let expected = json!([
        {"path": "/lock/bills", "foreign": 0},
        {"path": "/lock/orders", "foreign": 2},
        {"path": "/lookalike", "foreign": 1},
    ]);
    has(&listed, expected);
    let listed = zklock(&servers, "ls").await.stdout;
    let cells = rows(&listed).into_iter().map(|row| row[4]).collect::<Vec<_>>();
    assert_eq!(cells, ["FOREIGN", "0", "2", "1"], "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_is_wider_than_what_is_asked_at_once() {
    let server = server().await;
    let operator = operator(&server).await;
    make(&operator, "/wide").await;
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let directories = (0..500).map(|number| format!("/wide/{number:03}")).collect::<Vec<_>>();
    join_all(directories.iter().map(|path| operator.create(path, b"", &options))).await;
    let session = session(&server).await;
    let locks = directories.iter().step_by(5).map(|path| session.lock(path).unwrap()).collect::<Vec<_>>();
    let _guards = join_all(locks.iter().map(zklock::Lock::acquire)).await;
    // One request after the other would take 24 s at least.
    let link = Link::start(server.address()).await.unwrap();
    link.set_round_trip(Duration::from_millis(40));
    let began = Instant::now();
    let listed = zklock(&server.at(link.address()), "ls --json /wide").await.json();
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert_eq!(paths(&listed), directories.iter().step_by(5).map(String::as_str).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_listed_is_counted() {
    let server = server().await;
    let authorized = authorized(&server).await;
    let session = Session::builder(server.connect_string()).auth("digest", DIGEST).connect().await.unwrap();
    let _open = session.lock("/lock/open").unwrap().acquire().await.unwrap();
    let options = owner("alpha").acl(Acl::creator_only());
    let _closed =
        session.lock("/lock/closed").unwrap().with_options(options.clone()).unwrap().acquire().await.unwrap();
    // Everybody may read this directory, but not its holder's node.
    make(&authorized, "/lock/half").await;
    let _half = session.lock("/lock/half").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    let servers = server.connect_string();

    let listed = zklock(&servers, "ls --json").await;
    assert!(listed.stderr.contains("these credentials may not list 1 node"), "{listed:?}");
    let half = json!({"path": "/lock/half", "holder": {"owner": null, "sequence": 0}});
    has(&listed.json(), json!([half, {"path": "/lock/open"}]));
    assert_eq!(zklock(&servers, "ls --quiet").await.stderr, "");
    assert_eq!(zklock(&servers, "ls /lock/closed").await.code, 77);
    let listed = zklock_as(&servers, DIGEST, "ls --json").await;
    assert_eq!(listed.stderr, "");
    assert_eq!(paths(&listed.json()), ["/lock/closed", "/lock/half", "/lock/open"]);

    set_acl(&authorized, "/lock", &Acls::creator_all()).await;
    zklock(&servers, "ls /lock").await.is(77, "", "");
    zklock(&servers, "ls").await.is(0, "", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_meanwhile_is_left_out() {
    let server = server().await;
    let operator = operator(&server).await;
    let session = session(&server).await;
    let lock = lock_of(&session, "/lock/orders", "alpha");
    let guard = lock.acquire().await.unwrap();
    let _waiter = enqueue(&lock_of(&session, "/lock/orders", "beta")).await;
    make(&operator, "/lock/gone").await;

    // The nodes exist when their names are listed, and are gone when they are read.
    let link = Link::start(server.address()).await.unwrap();
    let servers = server.at(link.address());
    let listing = link.hold_reply(RequestKind::GetChildren);
    let meanwhile = async {
        within("the listing", listing.reached()).await;
        operator.delete("/lock/gone", None).await.unwrap();
        listing.release();
    };
    let (listed, ()) = tokio::join!(zklock(&servers, "ls --json /lock"), meanwhile);
    assert_eq!(paths(&listed.json()), ["/lock/orders"]);
    assert_eq!(listed.stderr, "");

    let listing = link.hold_reply(RequestKind::GetChildren);
    let meanwhile = async {
        within("the listing", listing.reached()).await;
        guard.release().await.unwrap();
        listing.release();
    };
    let (listed, ()) = tokio::join!(zklock(&servers, "ls --json /lock/orders"), meanwhile);
    has(&listed.json(), json!([{"holder": {"owner": "beta", "position": 0}, "waiting": 0}]));
    assert_eq!(queue(&lock).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_listed() {
    let (server, servers) = at(own_server().await);
    zklock(&servers, "ls --json -q /lock").await.is_silent(66, "[]\n");
    // The connection breaks during the walk.
    let link = Link::start(server.address()).await.unwrap();
    let servers = server.at(link.address());
    let _lost = link.lose_reply(RequestKind::GetChildren);
    zklock(&servers, "ls").await.is(69, "", "");
}
