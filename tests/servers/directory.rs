//! The lock's directory: created, reaped, shared with strangers, forbidden.

use support::{
    Server, enqueue, granted, make, operator, queue, server, session, sessions, until_nothing_is_left, within,
};
use zklock::{Acl, AcquireError, LockOptions, Permissions, QueryError, Session};
use zklock_testcontainers::ZooKeeper;
use zookeeper_client::{Acls, CreateMode};

/// A session with an identity of its own.
async fn owner(server: &Server) -> Session {
    let session = Session::builder(server.connect_string()).auth("digest", "owner:secret");
    session.connect().await.expect("a session")
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

#[tokio::test]
async fn foreign_children_are_ignored() {
    let server = server().await;
    let operator = operator(&server).await;
    for name in ["strange", "lock-", "lock-12", "lock-00000000001", "lock-000000000x", "other-0000000000"] {
        make(&operator, &format!("/lock/orders/{name}")).await;
    }
    let session = session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    for _ in 0..2 {
        let guard = within("acquire", lock.acquire()).await.unwrap();
        let waiter = enqueue(&lock).await;
        assert_eq!(queue(&lock).await.len(), 2);
        guard.release().await.unwrap();
        granted(waiter).await.release().await.unwrap();
    }
    assert!(lock.try_acquire().await.unwrap().is_some());
    until_nothing_is_left(&server).await;
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

#[tokio::test]
async fn without_permission_to_enter() {
    let server = server().await;
    let owner = owner(&server).await;
    let options = LockOptions::new().acl(Acl::creator_only());
    let lock = owner.lock("/lock/orders").unwrap().with_options(options).unwrap();
    let guard = lock.acquire().await.unwrap();

    let stranger = session(&server).await;
    let forbidden = stranger.lock("/lock/orders").unwrap();
    let error = within("the error", forbidden.acquire()).await.unwrap_err();
    assert_eq!(error, AcquireError::NotAuthorized { path: "/lock/orders".into() });
    assert_eq!(
        forbidden.contenders().await.unwrap_err(),
        QueryError::NotAuthorized { path: "/lock/orders".into() }
    );
    assert_eq!(queue(&lock).await.len(), 1);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn without_permission_to_list() {
    let server = server().await;
    let owner = owner(&server).await;
    // Strangers may enter and leave, but see nothing.
    let acl = Acl::creator_only().and("world", "anyone", Permissions::CREATE | Permissions::DELETE);
    let lock = owner.lock("/lock/orders").unwrap().with_options(LockOptions::new().acl(acl)).unwrap();
    let guard = lock.acquire().await.unwrap();

    let stranger = session(&server).await;
    let forbidden = stranger.lock("/lock/orders").unwrap();
    assert!(within("try", forbidden.try_acquire()).await.is_err());
    assert_eq!(queue(&lock).await.len(), 1, "the stranger's node is gone");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn with_an_acl_the_server_rejects() {
    let (_server, [session]) = sessions().await;
    let options = LockOptions::new().acl(Acl::creator_only());
    let lock = session.lock("/lock/orders").unwrap().with_options(options).unwrap();
    let error = within("the error", lock.acquire()).await.unwrap_err();
    assert_eq!(error, AcquireError::InvalidAcl { path: "/lock/orders".into() });
}

#[tokio::test]
async fn contenders_whose_data_is_not_ours_to_read() {
    let server = server().await;
    let owner = owner(&server).await;
    let session = session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    let secretive = owner
        .lock("/lock/orders")
        .unwrap()
        .with_options(LockOptions::new().acl(Acl::creator_only()))
        .unwrap();
    let guard = secretive.acquire().await.unwrap();
    let queue = queue(&lock).await;
    assert_eq!(queue[0].path, guard.node());
    assert_eq!((queue[0].owner.as_deref(), queue[0].token, queue[0].session), (None, None, None));
    // The server would not tell us of its release.
    let error = within("the error", lock.acquire()).await.unwrap_err();
    assert_eq!(error, AcquireError::NotAuthorized { path: "/lock/orders".into() });
    guard.release().await.unwrap();
    within("acquire", lock.acquire()).await.unwrap().release().await.unwrap();
    until_nothing_is_left(&server).await;
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
