//! What the program says of a path that is missing, is used for something else, or is closed to it.

use serde_json::Value;
use zookeeper_client::{Acl, Acls, AuthId, Permission};

use crate::support::looker::{DIGEST, authorized, owner, session_of, set_acl, zklock, zklock_as};
use crate::support::{output, run};
use zklock_test_support::{enqueue, make, operator, own_server, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_does_not_exist_is_not_free() {
    let server = own_server().await;
    let servers = server.connect_string();
    for command in [&["show", "/nope"] as &[_], &["ls", "/nope"], &["release", "--force", "--yes", "/nope"]] {
        let ran = zklock(&servers, command).await;
        ran.is(66, "", "/nope does not exist");
        let inside = zklock(&format!("{servers}/prod"), command).await;
        inside.is(66, "", "the chroot /prod does not exist");
    }
    let json = zklock(&servers, &["show", "--json", "/nope"]).await;
    let shown = serde_json::from_str::<Value>(&json.stdout).unwrap();
    assert_eq!((json.code, &shown["contenders"]), (66, &Value::Array(Vec::new())));
    let quiet = zklock(&servers, &["show", "--exit-code", "-q", "/nope"]).await;
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (66, "", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_of_locks_says_so() {
    let server = server().await;
    let servers = server.connect_string();
    let session = session_of(&server).await;
    let _one = session.lock("/lock/one").unwrap().acquire().await.unwrap();
    let shown = zklock(&servers, &["show", "/lock"]).await;
    assert_eq!(shown.code, 0);
    assert_eq!(shown.stdout, "nobody holds /lock; a lock below it is held: `zklock ls /lock` shows it\n");
    let _two = session.slots("/lock/two", 2).unwrap().acquire().await.unwrap();
    let freed = zklock(&servers, &["release", "--force", "--yes", "/lock"]).await;
    freed.is(1, "", "nobody holds /lock; 2 locks below it are held");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_kind_is_refused_at_once() {
    let server = server().await;
    let servers = server.connect_string();
    let session = session_of(&server).await;
    let _leads = session.election("/feed").unwrap().campaign("me").await.unwrap();
    let _permit = session.semaphore("/convert", 3).unwrap().acquire().await.unwrap();
    let _slot = session.slots("/workers", 3).unwrap().acquire().await.unwrap();
    for (options, path, kinds) in [
        (&[] as &[_], "/feed", "/feed is wanted as a lock, and /feed is in use as an election"),
        (&[], "/workers", "/workers is wanted as a lock, and /workers is in use as slots"),
        (&[], "/convert/queue", "/convert/queue is wanted as a lock, and /convert is in use as a semaphore"),
        (&["-t", "0"], "/feed", "/feed is wanted as a lock, and /feed is in use as an election"),
    ] {
        let refused = output(run(&servers, options, path, "echo in")).await;
        refused.is(64, "", kinds);
    }
    for (arguments, kinds) in [
        (
            &["run", "-t", "1", "--slot", "/convert/3"] as &[_],
            "as slots, and /convert is in use as a semaphore",
        ),
        (&["lead", "--value", "x", "/workers"], "as an election, and /workers is in use as slots"),
    ] {
        let refused = zklock(&servers, &[arguments, &["--", "echo", "in"]].concat()).await;
        refused.is(64, "", kinds);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_by_an_acl_names_both_sides() {
    let server = server().await;
    let servers = server.connect_string();
    let operator = authorized(&server).await;
    make(&operator, "/lock/hidden").await;
    set_acl(&operator, "/lock/hidden", &Acls::creator_all()).await;
    make(&operator, "/lock/shown").await;
    let bob = Acl::new(Permission::ALL, AuthId::new("digest", "bob:AAAAAAAAAAAAAAAAAAAAAAAAAAA="));
    set_acl(&operator, "/lock/shown", &[bob, Acl::new(Permission::READ, AuthId::new("world", "anyone"))])
        .await;
    let wrong = "operator:wrong";
    let said = [
        (
            "/lock/hidden",
            "the ACL of /lock/hidden is hidden from it; servers take any password for digest:operator",
        ),
        (
            "/lock/shown",
            "the ACL of /lock/shown grants digest:bob everything, world:anyone READ; servers take any",
        ),
    ];
    for (path, said) in said {
        let refused = zklock_as(&servers, wrong, &["run", "-t", "10", path, "--", "true"]).await;
        refused.is(77, "", "no permission to queue at");
        assert!(refused.stderr.contains("digest:operator, and the ACL of"), "{refused:?}");
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
    let unread = zklock_as(&servers, wrong, &["show", "/lock/hidden"]).await;
    unread.is(77, "", "is hidden from it");
    assert_eq!(zklock_as(&servers, DIGEST, &["run", "/lock/hidden", "--", "true"]).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doctor_looks_at_the_path() {
    let server = server().await;
    let servers = server.connect_string();
    let session = session_of(&server).await;
    let lock = session.lock("/lock/orders").unwrap().with_options(owner("alpha")).unwrap();
    let _held = lock.acquire().await.unwrap();
    let _waits = enqueue(&lock).await;
    make(&operator(&server).await, "/lock/free").await;
    let told = zklock(&servers, &["doctor", "/lock/orders", "/nope", "/lock/free"]).await.stdout;
    assert!(told.contains("1 waits at /lock/orders for alpha, who came at "), "{told}");
    assert!(told.contains("/nope does not exist") && !told.contains("/lock/free"), "{told}");
    let quiet = zklock(&servers, &["doctor", "-q", "/lock/orders", "/nope"]).await;
    assert!(!quiet.stdout.contains("NOTE") && !quiet.stdout.contains("SERVER"), "{quiet:?}");
}
