//! What the program says of a path that is missing, is used for something else, or is closed to it.

use serde_json::Value;
use zookeeper_client::{Acl, Acls, AuthId, Permission};

use crate::support::looker::{DIGEST, authorized, owner, session_of, set_acl, zklock, zklock_as};
use crate::support::{output, run, stderr, stdout};
use zklock_test_support::{enqueue, make, operator, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_does_not_exist_is_not_free() {
    let server = server().await;
    let servers = server.connect_string();
    for command in [&["show", "/nope"] as &[_], &["ls", "/nope"], &["release", "--force", "--yes", "/nope"]] {
        let ran = zklock(&servers, command).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (66, ""), "{ran:?}");
        assert!(ran.stderr.contains("/nope does not exist"), "{ran:?}");
        let inside = zklock(&format!("{servers}/prod"), command).await;
        assert_eq!((inside.code, inside.stdout.as_str()), (66, ""), "{inside:?}");
        assert!(inside.stderr.contains("the chroot /prod does not exist"), "{inside:?}");
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
    let _two = session.slots("/lock/two", 2).unwrap().claim().await.unwrap();
    let freed = zklock(&servers, &["release", "--force", "--yes", "/lock"]).await;
    assert_eq!(freed.code, 1);
    assert!(freed.stderr.contains("nobody holds /lock; 2 locks below it are held"), "{freed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_kind_is_refused_at_once() {
    let server = server().await;
    let servers = server.connect_string();
    let session = session_of(&server).await;
    let _leads = session.election("/feed").unwrap().campaign("me").await.unwrap();
    let _permit = session.semaphore("/convert", 3).unwrap().acquire().await.unwrap();
    let _slot = session.slots("/workers", 3).unwrap().claim().await.unwrap();
    for (options, path, kinds) in [
        (&[] as &[_], "/feed", "/feed is wanted as a lock, and /feed is in use as an election"),
        (&[], "/workers", "/workers is wanted as a lock, and /workers is in use as slots"),
        (&[], "/convert/queue", "/convert/queue is wanted as a lock, and /convert is in use as a semaphore"),
        (&["-t", "0"], "/feed", "/feed is wanted as a lock, and /feed is in use as an election"),
    ] {
        let refused = output(run(&servers, options, path, "echo in")).await;
        assert_eq!(
            (refused.status.code(), stdout(&refused).as_str()),
            (Some(64), ""),
            "{}",
            stderr(&refused)
        );
        assert!(stderr(&refused).contains(kinds), "{}", stderr(&refused));
    }
    for (arguments, kinds) in [
        (
            &["run", "-t", "1", "--slot", "/convert/3"] as &[_],
            "as slots, and /convert is in use as a semaphore",
        ),
        (&["lead", "--value", "x", "/workers"], "as an election, and /workers is in use as slots"),
    ] {
        let refused = zklock(&servers, &[arguments, &["--", "echo", "in"]].concat()).await;
        assert_eq!((refused.code, refused.stdout.as_str()), (64, ""), "{refused:?}");
        assert!(refused.stderr.contains(kinds), "{refused:?}");
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
        assert_eq!(refused.code, 77, "{refused:?}");
        assert!(refused.stderr.contains("no permission to queue at"), "{refused:?}");
        assert!(refused.stderr.contains("digest:operator, and the ACL of"), "{refused:?}");
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
    let unread = zklock_as(&servers, wrong, &["show", "/lock/hidden"]).await;
    assert_eq!(unread.code, 77, "{unread:?}");
    assert!(unread.stderr.contains("is hidden from it"), "{unread:?}");
    assert_eq!(zklock_as(&servers, DIGEST, &["run", "/lock/hidden", "--", "true"]).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doctor_looks_at_the_path() {
    let server = server().await;
    let servers = server.connect_string();
    let session = session_of(&server).await;
    let lock = session.lock_with("/lock/orders", owner("alpha")).unwrap();
    let _held = lock.acquire().await.unwrap();
    let _waits = enqueue(&lock).await;
    make(&operator(&server).await, "/lock/free").await;
    let told = zklock(&servers, &["doctor", "/lock/orders", "/nope", "/lock/free"]).await.stdout;
    assert!(told.contains("1 waits at /lock/orders for alpha, who came at "), "{told}");
    assert!(told.contains("/nope does not exist") && !told.contains("/lock/free"), "{told}");
    let quiet = zklock(&servers, &["doctor", "-q", "/lock/orders", "/nope"]).await;
    assert!(!quiet.stdout.contains("NOTE") && !quiet.stdout.contains("SERVER"), "{quiet:?}");
}
