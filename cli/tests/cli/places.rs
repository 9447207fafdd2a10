//! What the program says of a path that is missing, is used for something else, or is closed to it.

use serde_json::Value;
use zookeeper_client::{Acl, Acls, AuthId, Permission};

use crate::support::{
    DIGEST, Running, answers, are_refused, at, authorized, output, program_of, queue, run, set_acl,
    with_session, zklock, zklock_as,
};
use zklock_test_support::{make, own_server, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_does_not_exist_is_not_free() {
    let (_server, servers) = at(own_server().await);
    let missing = ["show /nope", "ls /nope", "release --force --yes /nope"]
        .map(|line| (line, 66, "", "/nope does not exist"));
    answers(&servers, &missing).await;
    let json = zklock(&servers, "show --json /nope").await;
    assert_eq!((json.code, &json.report()["contenders"]), (66, &Value::Array(Vec::new())));
    zklock(&servers, "show --exit-code -q /nope").await.is_silent(66, "");
}

/// A typing error in it must not be a place of its own, where everybody else is absent.
#[tokio::test(flavor = "multi_thread")]
async fn a_chroot_that_does_not_exist_is_refused_by_every_command() {
    let (_server, servers) = at(own_server().await);
    let wrong = format!("{servers}/prod");
    let refused = [
        "run /lock -- true",
        "lead --value x /feed -- true",
        "leader /feed",
        "leader --watch /feed",
        "show /lock",
        "ls",
        "verify 7:a:1:/lock/orders",
        "ask -r deploy -w 1s /lock",
        "resize /workers 3",
        "release --force --yes /lock",
    ]
    .map(|line| (line, 66, "", "the chroot /prod does not exist; check --servers"));
    answers(&wrong, &refused).await;
    zklock(&wrong, "doctor --json /lock").await.finds(66, &["chroot-missing"]);
    answers(&wrong, &[("run --create-chroot /lock -- true", 0, "", ""), ("run /lock -- true", 0, "", "")])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_of_locks_says_so() {
    let (_server, servers, session) = with_session(server().await).await;
    let _one = session.lock("/lock/one").unwrap().acquire().await.unwrap();
    let said = "nobody holds /lock. One lock below it is held; to see it, run `zklock ls /lock`\n";
    answers(&servers, &[("show /lock", 0, said, "")]).await;
    let _two = session.slots("/lock/two", 2).unwrap().acquire().await.unwrap();
    let said = "nobody holds /lock. 2 locks below it are held";
    answers(&servers, &[("release --force --yes /lock", 1, "", said)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_kind_is_refused_at_once() {
    let (_server, servers, session) = with_session(server().await).await;
    let _leads = session.election("/feed").unwrap().campaign("me").await.unwrap();
    let _permit = session.semaphore("/convert", 3).unwrap().acquire().await.unwrap();
    let _slot = session.slots("/workers", 3).unwrap().acquire().await.unwrap();
    let election = "/feed cannot be used as a lock, because /feed is already used as an election";
    let slots = "because /workers is already used as slots";
    let semaphore = "because /convert is already used as a semaphore";
    let refused = [
        ("run /feed -- true", election.to_owned()),
        ("run -t 0 /feed -- true", election.to_owned()),
        ("run /workers -- true", format!("/workers cannot be used as a lock, {slots}")),
        ("run --permits /workers/3 -- true", format!("/workers cannot be used as a semaphore, {slots}")),
        ("lead --value x /workers -- true", format!("as an election, {slots}")),
        ("run /convert/queue -- true", format!("/convert/queue cannot be used as a lock, {semaphore}")),
        ("run -t 1 -E 9 --slot /convert/3 -- true", format!("as slots, {semaphore}")),
    ];
    are_refused(&servers, &refused.each_ref().map(|(line, said)| (*line, said.as_str()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_by_an_acl_names_both_sides() {
    let (server, servers) = at(server().await);
    let operator = authorized(&server).await;
    make(&operator, "/lock/hidden").await;
    set_acl(&operator, "/lock/hidden", &Acls::creator_all()).await;
    make(&operator, "/lock/shown").await;
    let bob = Acl::new(Permission::ALL, AuthId::new("digest", "bob:AAAAAAAAAAAAAAAAAAAAAAAAAAA="));
    set_acl(&operator, "/lock/shown", &[bob, Acl::new(Permission::READ, AuthId::new("world", "anyone"))])
        .await;
    let wrong = "operator:wrong";
    for (path, said) in [
        (
            "/lock/hidden",
            "do not show it the ACL of /lock/hidden; servers accept any password for digest:operator",
        ),
        (
            "/lock/shown",
            "the ACL of /lock/shown grants digest:bob everything, world:anyone READ; servers accept",
        ),
    ] {
        let refused = zklock_as(&servers, wrong, &["run", "-t", "10", path, "--", "true"]).await;
        refused.is(77, "", "an ACL does not allow this session to queue at");
        refused.is(77, "", &format!("and digest:operator, and {said}"));
    }
    // Every command names the options.
    for command in [
        "run /lock/shown -- true",
        "ask -r deploy -w 1s /lock/hidden",
        "show /lock/hidden",
        "doctor /lock/hidden",
    ] {
        let refused = zklock_as(&servers, wrong, command).await;
        let told = format!("{}{}", refused.stdout, refused.stderr);
        assert!(
            told.contains("; give credentials that the ACL names: --digest-file (or ZKLOCK_DIGEST)"),
            "{refused:?}"
        );
    }
    // A pool that is hidden, and one that others may only read.
    let session = zklock_test_support::session(&server).await;
    for pool in ["/pool/hidden", "/pool/shown"] {
        drop(session.semaphore(pool, 2).unwrap().acquire().await.unwrap());
    }
    set_acl(&operator, "/pool/hidden/permits", &Acls::creator_all()).await;
    set_acl(&operator, "/pool/shown/permits", &Acls::anyone_read()).await;
    for (pool, said) in [
        ("/pool/hidden", "; give credentials that the ACL names: "),
        ("/pool/shown", "the ACL of /pool/shown/permits grants world:anyone READ; servers"),
    ] {
        zklock_as(&servers, wrong, &["resize", pool, "3"]).await.is(77, "", said);
    }
    make(&operator, "/feed/leader").await;
    set_acl(&operator, "/feed/leader", &Acls::creator_all()).await;
    let mut watcher = program_of(&servers, "leader --watch /feed");
    watcher.env("ZKLOCK_DIGEST", wrong);
    let refused = Running::start(watcher).tells().await;
    assert!(
        refused.contains("refuses to say who leads") && refused.contains("ACL of /feed/leader"),
        "{refused}"
    );
    // An ancestor is closed.
    make(&operator, "/closed").await;
    set_acl(&operator, "/closed", &Acls::anyone_read()).await;
    let closed = zklock_as(&servers, wrong, "lead --value x /closed/feed -- true").await;
    closed.is(77, "", "(or CREATE on the nearest ancestor, if the directory does not exist)");
    closed.is(77, "", "and the ACL of /closed grants world:anyone READ");
    closed.is(77, "", "; no other identity has CREATE there, so change the ACL");
    let nobody = "nobody holds /lock/hidden\n";
    zklock_as(&servers, DIGEST, "show /lock/hidden").await.is(0, nobody, "");
    assert_eq!(zklock_as(&servers, DIGEST, "run /lock/hidden -- true").await.code, 0);
}

/// An ACL keeps zklock from deleting its node. The end of its session does not ask the ACL.
#[tokio::test]
async fn a_refused_release_is_told_only_if_the_session_cannot_be_closed() {
    let (server, servers, session) = with_session(server().await).await;
    let operator = authorized(&server).await;
    make(&operator, "/lock/kept").await;
    let kept = [Acl::new(Permission::READ | Permission::CREATE, AuthId::new("world", "anyone"))];
    set_acl(&operator, "/lock/kept", &kept).await;
    output(run(&servers, &[], "/lock/kept", "exit 3")).await.is_silent(3, "");
    assert_eq!(queue(&session, "/lock/kept").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_doctor_gives_no_note_but_of_a_path_that_does_not_exist() {
    let (_server, servers, session) = with_session(server().await).await;
    let _guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let quiet = zklock(&servers, "doctor -q /lock/orders").await;
    assert!(!quiet.stdout.contains("NOTE") && !quiet.stdout.contains("SERVER"), "{quiet:?}");
    let quiet = zklock(&servers, "doctor -q /lock/orders /nope").await;
    assert!(quiet.stdout.contains("NOTE     /nope does not exist."), "{quiet:?}");
    assert!(quiet.stdout.matches("NOTE").count() == 1 && !quiet.stdout.contains("SERVER"), "{quiet:?}");
}
