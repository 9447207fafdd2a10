//! `zklock verify`: whether a holder's claim still stands.

use zklock::{Acl, LockOptions, Session};

use crate::support::looker::{DIGEST, zklock, zklock_as};
use crate::support::with_session;
use zklock_test_support::{make, operator, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_stands_until_its_holder_is_gone() {
    let (server, servers, session) = with_session(server().await).await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let claim = guard.sequencer().unwrap().to_string();
    let stands = zklock(&servers, &["verify", &claim]).await;
    stands.is_silent(0, "");
    let stands = zklock(&servers, &["verify", "--verbose", &claim]).await;
    stands.is(0, "", &format!("{claim} is valid: its holder holds the lock"));

    guard.release().await.unwrap();
    // A claim of an earlier holder says nothing of the next one.
    let guard = lock.acquire().await.unwrap();
    let outdated = zklock(&servers, &["verify", &claim]).await;
    outdated.is(1, "", "outdated");
    assert_eq!(zklock(&servers, &["verify", &guard.sequencer().unwrap().to_string()]).await.code, 0);
    // A claim that was tampered with cannot mislead the reader of the answer.
    let strange = zklock(&servers, &["verify", "7:a:1:/lock/\u{202e}sredro"]).await;
    strange.is(1, "", r"/lock/\u{202e}sredro");
    // An operator takes the lock.
    operator(&server).await.delete(&guard.node(), None).await.unwrap();
    assert_eq!(zklock(&servers, &["verify", &guard.sequencer().unwrap().to_string()]).await.code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chroot_does_not_matter() {
    let server = server().await;
    make(&operator(&server).await, "/elsewhere").await;
    let inside = Session::builder(format!("{}/app", server.connect_string())).create_chroot();
    let guard = inside.connect().await.unwrap().lock("/lock").unwrap().acquire().await.unwrap();
    let claim = guard.sequencer().unwrap().to_string();
    for chroot in ["", "/app", "/elsewhere"] {
        let servers = format!("{}{chroot}", server.connect_string());
        assert_eq!(zklock(&servers, &["verify", &claim]).await.code, 0, "{chroot:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_ours_to_read() {
    let server = server().await;
    let session = Session::builder(server.connect_string()).auth("digest", DIGEST).connect().await.unwrap();
    let options = LockOptions::new().acl(Acl::creator_only());
    let guard = session.lock("/lock").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    let claim = guard.sequencer().unwrap().to_string();
    let servers = server.connect_string();
    assert_eq!(zklock(&servers, &["verify", &claim]).await.code, 77);
    assert_eq!(zklock_as(&servers, DIGEST, &["verify", &claim]).await.code, 0);
}
