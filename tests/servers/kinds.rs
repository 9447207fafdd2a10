//! A path has one kind: two kinds at one path refuse each other, and what only shares names does not.

use zklock_test_support as support;

use std::any::Any;
use std::time::Duration;

use support::{eventually, make, operator, server, session, until_nothing_is_left, within};
use zklock::{Access, AcquireError, LockOptions, Session, election::AnnounceError, inspect::PathKind};

use super::semaphore::{enqueue, until_it_waits_for_room};

/// Each way to use a path.
const USES: [Use; 8] =
    [Use::Lock, Use::Reader, Use::Key, Use::Several, Use::Once, Use::Election, Use::Semaphore, Use::Slots];

#[derive(Clone, Copy, Debug)]
enum Use {
    Lock,
    Reader,
    Key,
    Several,
    Once,
    Election,
    Semaphore,
    Slots,
}

/// The nodes that an election or a pool may keep at its path.
const INNER: [&str; 3] = ["queue", "leader", "permits"];

/// Something that is held until it is dropped.
type Held = Box<dyn Any>;

impl Use {
    fn kind(self) -> PathKind {
        match self {
            Self::Lock | Self::Reader | Self::Key | Self::Several | Self::Once => PathKind::Lock,
            Self::Election => PathKind::Election,
            Self::Semaphore => PathKind::Semaphore,
            Self::Slots => PathKind::Slots,
        }
    }

    async fn hold(self, session: &Session, path: &str) -> Result<Held, AcquireError> {
        Ok(match self {
            Self::Lock => Box::new(session.lock(path).unwrap().acquire().await?),
            Self::Reader => Box::new(session.rw_lock(path).unwrap().read().await?),
            Self::Key => {
                let (root, key) = path.rsplit_once('/').unwrap();
                let locks = session.locks(root).unwrap();
                Box::new(locks.lock(key).await?)
            }
            Self::Several => {
                let paths = [Access::exclusive(path), Access::exclusive("/another")];
                Box::new(session.lock_all(paths).unwrap().acquire().await?)
            }
            Self::Once => Box::new(session.once(path).unwrap().claim("one").await?),
            Self::Election => Box::new(session.election(path).unwrap().campaign("me").await?),
            Self::Semaphore => Box::new(session.semaphore(path, 3).unwrap().acquire().await?),
            Self::Slots => Box::new(session.slots(path, 3).unwrap().acquire().await?),
        })
    }
}

/// The use is refused, because `at` is used as `found`.
async fn is_refused(wanted: Use, session: &Session, path: &str, at: &str, found: PathKind) {
    let refused = within("the refusal", wanted.hold(session, path)).await;
    let expected =
        AcquireError::OtherKind { path: path.to_owned(), expected: wanted.kind(), at: at.to_owned(), found };
    match refused {
        Err(error) => assert_eq!(error, expected, "{wanted:?} at {path}"),
        Ok(_) => panic!("{wanted:?} at {path} is granted, and {at} is {found}"),
    }
}

#[tokio::test]
async fn no_kind_is_granted_beside_another() {
    let server = server().await;
    let (first, second) = (session(&server).await, session(&server).await);
    for holder in USES {
        for wanted in USES {
            let path = format!("/matrix/{holder:?}-{wanted:?}");
            let held = holder.hold(&first, &path).await.unwrap();
            if holder.kind() != wanted.kind() {
                is_refused(wanted, &second, &path, &path, holder.kind()).await;
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
        "/a is wanted as slots, and /a is used as a lock; a path has one kind: use another path for one of the two"
    );
    assert!(!refused.is_retryable() && !refused.is_session_over());
}

#[tokio::test]
async fn the_nodes_of_an_election_or_a_pool_are_no_locks() {
    let server = server().await;
    let (first, second) = (session(&server).await, session(&server).await);
    for holder in [Use::Election, Use::Semaphore, Use::Slots] {
        let path = format!("/inner/{holder:?}");
        let held = holder.hold(&first, &path).await.unwrap();
        for name in INNER {
            for wanted in [Use::Lock, Use::Reader, Use::Key, Use::Several, Use::Once] {
                is_refused(wanted, &second, &format!("{path}/{name}"), &path, holder.kind()).await;
            }
        }
        drop(held);
    }
    // A lock where a queue would be keeps others from the queue.
    let held = Use::Lock.hold(&first, "/inner/lock/queue").await.unwrap();
    for wanted in [Use::Election, Use::Semaphore, Use::Slots] {
        is_refused(wanted, &second, "/inner/lock", "/inner/lock/queue", PathKind::Lock).await;
    }
    drop(held);
    // A lock where an announcement would be keeps the leader from announcing itself.
    let held = Use::Lock.hold(&first, "/inner/silent/leader").await.unwrap();
    let silent = within("the end", second.election("/inner/silent").unwrap().campaign("me")).await;
    assert!(matches!(silent, Err(AcquireError::Announce(AnnounceError::Refused { .. }))), "{silent:?}");
    drop(held);
    // One where a pool's permits would be keeps them from being there.
    let held = Use::Lock.hold(&first, "/inner/empty/permits").await.unwrap();
    let empty = within("the end", second.semaphore("/inner/empty", 3).unwrap().acquire()).await;
    assert!(matches!(empty, Err(AcquireError::UnknownData { .. })), "{empty:?}");
    drop(held);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn who_waits_shows_the_kind_before_anybody_queues_behind() {
    let server = server().await;
    let (first, second) = (session(&server).await, session(&server).await);
    let semaphore = first.semaphore("/jobs/convert", 1).unwrap();
    let held = semaphore.acquire().await.unwrap();
    let waiter = enqueue(&first, &semaphore, 1).await;
    until_it_waits_for_room(&server, "/jobs/convert").await;
    for wanted in USES {
        if wanted.kind() != PathKind::Semaphore {
            is_refused(wanted, &second, "/jobs/convert", "/jobs/convert", PathKind::Semaphore).await;
        }
    }
    assert_eq!(semaphore.permits().await.unwrap().permits.len(), 1);
    drop(held);
    drop(within("the grant", waiter).await.unwrap().unwrap());
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn candidates_without_a_leader_show_an_election() {
    let server = server().await;
    let (first, next, other) = (session(&server).await, session(&server).await, session(&server).await);
    let leadership = first.election("/feed").unwrap().campaign("one").await.unwrap();
    let patient = LockOptions::new().takeover_delay(Duration::from_secs(600));
    let election = next.election("/feed").unwrap().with_options(patient).unwrap();
    let candidate = tokio::spawn({
        let election = election.clone();
        async move { election.campaign("two").await }
    });
    eventually("the candidate", async || election.candidates().await.unwrap().len() == 2).await;
    // The leader's session ends, so the candidate waits for the delay, and nobody announces anything.
    first.close().await.unwrap();
    drop(leadership);
    eventually("no leader", async || election.leader().await.unwrap().is_none()).await;
    is_refused(Use::Lock, &other, "/feed", "/feed", PathKind::Election).await;
    is_refused(Use::Slots, &other, "/feed", "/feed", PathKind::Election).await;
    for name in INNER {
        is_refused(Use::Lock, &other, &format!("/feed/{name}"), "/feed", PathKind::Election).await;
    }
    candidate.abort();
    until_nothing_is_left(&server).await;
}

/// The lock has seen that the path above is of no other kind, and does not look there as it enters again.
#[tokio::test]
async fn a_leader_announces_itself_where_a_lock_was() {
    let server = server().await;
    let (first, second) = (session(&server).await, session(&server).await);
    let lock = second.lock("/feed/leader").unwrap();
    let several = second.lock_all(["/another", "/feed/leader"]).unwrap();
    drop(within("the lock", lock.acquire()).await.unwrap());
    drop(within("the locks", several.acquire()).await.unwrap());
    let operator = operator(&server).await;
    eventually("an empty directory", async || operator.delete("/feed/leader", None).await.is_ok()).await;
    let _leadership = Use::Election.hold(&first, "/feed").await.unwrap();
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
    let server = server().await;
    let (first, second) = (session(&server).await, session(&server).await);
    let _above = first.lock("/nested").unwrap().acquire().await.unwrap();
    for name in ["queue", "leader", "permits", "orders"] {
        let path = format!("/nested/{name}");
        for wanted in [Use::Lock, Use::Reader, Use::Key, Use::Several, Use::Once] {
            let held = within("a lock below", wanted.hold(&second, &path)).await.unwrap();
            // The lock above is another one, and passes the one below over.
            assert!(second.lock("/nested").unwrap().try_acquire().await.unwrap().is_none());
            drop(held);
        }
    }
    // Such nodes may be anything.
    for name in INNER {
        make(&operator(&server).await, &format!("/plain/{name}")).await;
    }
    drop(within("a lock", Use::Lock.hold(&second, "/plain")).await.unwrap());
}

#[tokio::test]
async fn a_path_that_nobody_uses_any_more_is_free_for_another_kind() {
    let server = server().await;
    let (first, second) = (session(&server).await, session(&server).await);
    drop(Use::Election.hold(&first, "/path").await.unwrap());
    eventually("no candidate", async || {
        first.election("/path").unwrap().candidates().await.unwrap().is_empty()
    })
    .await;
    let lock = Use::Lock.hold(&second, "/path").await.unwrap();
    is_refused(Use::Election, &first, "/path", "/path", PathKind::Lock).await;
    let semaphore = first.semaphore("/path", 3).unwrap();
    let refused = semaphore.set_capacity(3).await.unwrap_err();
    assert!(matches!(refused, AcquireError::OtherKind { found: PathKind::Lock, .. }), "{refused}");
    drop(lock);
    until_nothing_is_left(&server).await;
}
