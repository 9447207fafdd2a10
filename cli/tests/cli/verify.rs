//! `zklock verify`: whether a holder's claim still stands.

use crate::support::{with_session, zklock};
use zklock_test_support::{operator, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_stands_until_its_holder_is_gone() {
    let (server, servers, session) = with_session(server().await).await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let claim = guard.sequencer().unwrap().to_string();
    zklock(&servers, &["verify", &claim]).await.is_silent(0, "");
    let said = format!("{claim} is valid: its holder holds the lock");
    zklock(&servers, &["verify", "--verbose", &claim]).await.is(0, "", &said);

    guard.release().await.unwrap();
    // A claim of an earlier holder says nothing of the next one.
    let guard = lock.acquire().await.unwrap();
    zklock(&servers, &["verify", &claim]).await.is(1, "", "outdated");
    assert_eq!(zklock(&servers, &["verify", &guard.sequencer().unwrap().to_string()]).await.code, 0);
    // A claim that was tampered with cannot mislead the reader of the answer.
    let strange = zklock(&servers, "verify 7:a:1:/lock/\u{202e}sredro").await;
    strange.is(64, "", "it contains the character U+202E");
    // An operator takes the lock.
    operator(&server).await.delete(&guard.node(), None).await.unwrap();
    assert_eq!(zklock(&servers, &["verify", &guard.sequencer().unwrap().to_string()]).await.code, 1);
}
