//! The lock's directory: created, reaped, shared with strangers, forbidden.

use std::time::Duration;

use support::{Server, granted, linked_session, make, operator, queue, server, session, within};
use zklock::{Acl, AcquireError, LockOptions, Permissions, QueryError, Session};
use zklock_testcontainers::{RequestKind, ZooKeeper};
use zookeeper_client::{Acls, CreateMode};

use super::family::FAMILY;

/// A session with an identity of its own.
async fn owner(server: &Server) -> Session {
    let session = Session::builder(server.connect_string()).auth("digest", "owner:secret");
    session.connect().await.expect("a session")
}

/// Options for nodes that only their session may use.
fn closed() -> LockOptions {
    LockOptions::new().acl(Acl::creator_only())
}

#[tokio::test]
async fn reaped_between_acquisitions() {
    let server = ZooKeeper::builder()
        .java_property("znode.container.checkIntervalMs", "100")
        .start()
        .await
        .expect("a ZooKeeper server");
    let server = Server::from(server);
    let session = session(&server).await;
    let operator = operator(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    let mut token = None;
    for _ in 0..3 {
        let guard = within("acquire", lock.acquire()).await.unwrap();
        assert!(guard.node().ends_with("lock-0000000000"), "a new directory starts over");
        assert!(Some(guard.token()) > token, "tokens do not");
        token = Some(guard.token());
        guard.release().await.unwrap();
        support::eventually("the reaping", async || operator.check_stat("/lock").await.unwrap().is_none())
            .await;
        assert!(queue(&lock).await.is_empty());
    }
}

/// ZooKeeper removes an ancestor that is empty before the next one is created in it.
#[tokio::test]
async fn an_ancestor_is_reaped_while_the_directory_is_created() {
    let (server, link, session) = linked_session(Duration::from_secs(20)).await;
    let operator = operator(&server).await;
    let election = session.election("/app/service").unwrap();
    let mut create = link.hold_request(RequestKind::CreateContainer);
    let campaign = tokio::spawn(async move { election.campaign("here").await });
    // The queue, which has no parent yet; then what is above the election.
    for _ in 0..2 {
        within("a create", create.reached()).await;
        let next = link.hold_request(RequestKind::CreateContainer);
        create.release();
        create = next;
    }
    within("the election's create", create.reached()).await;
    operator.delete("/app", None).await.unwrap();
    create.release();
    granted(campaign).await.resign().await.unwrap();
}

#[tokio::test]
async fn below_an_ephemeral_node() {
    let server = server().await;
    let operator = operator(&server).await;
    make(&operator, "/lock").await;
    operator.create("/lock/brief", b"", &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await.unwrap();
    let session = session(&server).await;
    for path in ["/lock/brief", "/lock/brief/orders", "/lock/brief/orders/eu"] {
        let error = within("the error", session.lock(path).unwrap().acquire()).await.unwrap_err();
        assert_eq!(error, AcquireError::EphemeralParent { path: path.into() });
    }
}

/// Strangers see nothing: they may not enter, or enter and leave.
#[tokio::test]
async fn without_permission_to_enter_or_to_list() {
    let server = server().await;
    let (owner, stranger) = (owner(&server).await, session(&server).await);
    let enters = Acl::creator_only().and("world", "anyone", Permissions::CREATE | Permissions::DELETE);
    for (path, acl) in [("/lock/orders", Acl::creator_only()), ("/lock/bills", enters)] {
        let lock = owner.lock(path).unwrap().with_options(LockOptions::new().acl(acl)).unwrap();
        let guard = lock.acquire().await.unwrap();
        let forbidden = stranger.lock(path).unwrap();
        let refused = AcquireError::NotAuthorized { path: path.into() };
        assert_eq!(within("the error", forbidden.acquire()).await.unwrap_err(), refused);
        assert_eq!(within("the error", forbidden.try_acquire()).await.unwrap_err(), refused);
        let unseen = QueryError::NotAuthorized { path: path.into() };
        assert_eq!(forbidden.contenders().await.unwrap_err(), unseen);
        assert_eq!(queue(&lock).await.len(), 1, "a stranger's node is left");
        guard.release().await.unwrap();
    }
}

/// A server rejects it from a session without an identity.
#[tokio::test]
async fn each_member_has_the_acl_that_was_asked_for() {
    let server = server().await;
    let (owner, nobody, client) = (owner(&server).await, session(&server).await, operator(&server).await);
    for member in FAMILY {
        let (path, rejected) = (format!("/mine/{}", member.name), format!("/theirs/{}", member.name));
        let held = within(member.name, member.handle_with(&owner, &path, closed()).acquire()).await.unwrap();
        let mut nodes = held.nodes();
        nodes.extend(held.nodes().iter().map(|node| node.rsplit_once('/').unwrap().0.to_owned()));
        match member.name {
            "election" => nodes.push(format!("{path}/leader")),
            "once" => nodes.extend([format!("{path}.once"), format!("{path}.once/run")]),
            _ => {}
        }
        for node in nodes {
            assert_eq!(client.get_data(&node).await.unwrap_err(), zookeeper_client::Error::NoAuth, "{node}");
        }
        drop(held);
        let error = within(member.name, member.handle_with(&nobody, &rejected, closed()).acquire()).await;
        let error = error.map(drop).unwrap_err();
        assert!(matches!(error, AcquireError::InvalidAcl { .. }), "{}: {error}", member.name);
    }
}

#[tokio::test]
async fn below_a_node_whose_parent_is_closed() {
    let server = server().await;
    let operator = operator(&server).await;
    make(&operator, "/app").await;
    let read_only =
        [zookeeper_client::Acl::new(zookeeper_client::Permission::READ, zookeeper_client::AuthId::anyone())];
    operator.set_acl("/", &read_only, None).await.unwrap();
    for (servers, path) in
        [(server.connect_string(), "/app/orders"), (format!("{}/app", server.connect_string()), "/bills")]
    {
        let session = Session::connect(servers).await.unwrap();
        within("acquire", session.lock(path).unwrap().acquire()).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn a_number_that_is_taken_by_hand() {
    let server = server().await;
    let operator = operator(&server).await;
    make(&operator, "/lock/orders/lock-0000000003").await;
    let session = session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    let refused = |error: AcquireError| assert!(error.to_string().contains("made by hand"), "{error}");
    // The first ones come before it, and the one after them would have its number.
    let mut tries = 0;
    loop {
        match within("acquire", lock.acquire()).await {
            Ok(guard) => guard.release().await.unwrap(),
            Err(error) => break refused(error),
        }
        tries += 1;
        assert!(tries < 4, "never refused");
    }
    operator.delete("/lock/orders/lock-0000000003", None).await.unwrap();
    within("acquire", lock.acquire()).await.unwrap().release().await.unwrap();
}
