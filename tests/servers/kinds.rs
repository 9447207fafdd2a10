//! A path has one kind: two kinds at one path refuse each other, and what only shares names does not.

use support::{eventually, make, operator, sessions, until_nothing_is_left, within};
use zklock::election::{AnnounceError, CampaignError};
use zklock::semaphore::PoolError;
use zklock::{AcquireError, Session, inspect::PathKind};

use super::family::{FAMILY, Held, Member};

/// The nodes that an election or a pool may keep at its path.
const INNER: [&str; 3] = ["queue", "leader", "permits"];

const OTHERS: [PathKind; 3] = [PathKind::Election, PathKind::Semaphore, PathKind::Slots];

/// The uses of a path that make it a lock.
fn locks() -> impl Iterator<Item = &'static Member> {
    FAMILY.iter().filter(|member| member.kind == PathKind::Lock)
}

/// Another use.
fn used_as(kind: PathKind) -> &'static Member {
    FAMILY.iter().find(|member| member.kind == kind).unwrap()
}

async fn hold(member: &Member, session: &Session, path: &str) -> Held {
    within("a hold", member.handle(session, path).acquire()).await.unwrap()
}

/// The use is refused, because `at` is used as `found`.
async fn is_refused(wanted: &Member, session: &Session, path: &str, at: &str, found: PathKind) {
    let refused = within("the refusal", wanted.handle(session, path).acquire()).await;
    let expected =
        AcquireError::OtherKind { path: path.to_owned(), expected: wanted.kind, at: at.to_owned(), found };
    match refused {
        Err(error) => assert_eq!(error, expected, "{} at {path}", wanted.name),
        Ok(_) => panic!("{} at {path} is granted, and {at} is {found}", wanted.name),
    }
}

#[tokio::test]
async fn no_kind_is_granted_beside_another() {
    let (server, [first, second]) = sessions().await;
    for holder in FAMILY {
        for wanted in FAMILY {
            let path = format!("/matrix/{}-{}", holder.name, wanted.name);
            let held = hold(holder, &first, &path).await;
            if holder.kind != wanted.kind {
                is_refused(wanted, &second, &path, &path, holder.kind).await;
            }
            drop(held);
        }
    }
    until_nothing_is_left(&server).await;
    let refused = AcquireError::OtherKind {
        path: "/a".into(),
        expected: PathKind::Slots,
        at: "/a".into(),
        found: PathKind::Lock,
    };
    assert_eq!(
        refused.to_string(),
        "/a cannot be used as slots, because /a is already used as a lock; use another path; only if nobody uses /a any \
         more, delete the nodes that a lock left there"
    );
    assert!(!refused.is_retryable() && !refused.needs_new_session());
}

#[tokio::test]
async fn the_nodes_of_an_election_or_a_pool_are_no_locks() {
    let (server, [first, second]) = sessions().await;
    for holder in OTHERS.map(used_as) {
        let path = format!("/inner/{}", holder.name);
        let held = hold(holder, &first, &path).await;
        for name in INNER {
            for wanted in locks() {
                is_refused(wanted, &second, &format!("{path}/{name}"), &path, holder.kind).await;
            }
        }
        drop(held);
    }
    // A lock where a queue would be keeps others from the queue.
    let lock = used_as(PathKind::Lock);
    let held = hold(lock, &first, "/inner/lock/queue").await;
    for wanted in OTHERS.map(used_as) {
        is_refused(wanted, &second, "/inner/lock", "/inner/lock/queue", PathKind::Lock).await;
    }
    drop(held);
    // A lock where an announcement would be keeps the leader from announcing itself.
    let held = hold(lock, &first, "/inner/silent/leader").await;
    let silent = within("the end", second.election("/inner/silent").unwrap().campaign("me")).await;
    assert!(matches!(silent, Err(CampaignError::Announce(AnnounceError::Refused { .. }))), "{silent:?}");
    drop(held);
    // One where a pool's permits would be keeps them from being there.
    let held = hold(lock, &first, "/inner/empty/permits").await;
    let empty = within("the end", second.semaphore("/inner/empty", 3).unwrap().acquire()).await;
    assert!(matches!(empty, Err(PoolError::UnknownData { .. })), "{empty:?}");
    drop(held);
    until_nothing_is_left(&server).await;
}

/// The lock has seen that the path above is of no other kind, and does not look there as it enters again.
#[tokio::test]
async fn a_leader_announces_itself_where_a_lock_was() {
    let (server, [first, second]) = sessions().await;
    let lock = second.lock("/feed/leader").unwrap();
    let several = second.lock_all(["/another", "/feed/leader"]).unwrap();
    drop(within("the lock", lock.acquire()).await.unwrap());
    drop(within("the locks", several.acquire()).await.unwrap());
    let operator = operator(&server).await;
    eventually("an empty directory", async || operator.delete("/feed/leader", None).await.is_ok()).await;
    let _leadership = hold(used_as(PathKind::Election), &first, "/feed").await;
    let expected = AcquireError::OtherKind {
        path: "/feed/leader".into(),
        expected: PathKind::Lock,
        at: "/feed".into(),
        found: PathKind::Election,
    };
    assert_eq!(within("the refusal", lock.acquire()).await.unwrap_err(), expected);
    assert_eq!(within("the refusal", several.acquire()).await.unwrap_err(), expected);
}

#[tokio::test]
async fn locks_below_a_lock_have_any_name() {
    let (server, [first, second]) = sessions().await;
    let _above = first.lock("/nested").unwrap().acquire().await.unwrap();
    for name in ["queue", "leader", "permits", "orders"] {
        let path = format!("/nested/{name}");
        for wanted in locks() {
            let held = hold(wanted, &second, &path).await;
            // The lock above is another one, and passes the one below over.
            assert!(second.lock("/nested").unwrap().try_acquire().await.unwrap().is_none());
            drop(held);
        }
    }
    // Such nodes may be anything.
    for name in INNER {
        make(&operator(&server).await, &format!("/plain/{name}")).await;
    }
    drop(hold(used_as(PathKind::Lock), &second, "/plain").await);
}

#[tokio::test]
async fn a_path_that_nobody_uses_any_more_is_free_for_another_kind() {
    let (server, [first, second]) = sessions().await;
    let election = used_as(PathKind::Election);
    drop(hold(election, &first, "/path").await);
    eventually("no candidate", async || {
        first.election("/path").unwrap().candidates().await.unwrap().is_empty()
    })
    .await;
    let lock = hold(used_as(PathKind::Lock), &second, "/path").await;
    is_refused(election, &first, "/path", "/path", PathKind::Lock).await;
    let semaphore = first.semaphore("/path", 3).unwrap();
    let refused = semaphore.set_capacity(3).await.unwrap_err();
    assert!(
        matches!(refused, PoolError::Acquire(AcquireError::OtherKind { found: PathKind::Lock, .. })),
        "{refused}"
    );
    drop(hold(used_as(PathKind::Semaphore), &first, "/another").await);
    let refused = first.slots("/another", 2).unwrap().set_count(2).await.unwrap_err();
    let PoolError::Acquire(refused) = refused else { panic!("{refused}") };
    assert!(matches!(refused, AcquireError::OtherKind { found: PathKind::Semaphore, .. }), "{refused}");
    drop(lock);
    until_nothing_is_left(&server).await;
}
