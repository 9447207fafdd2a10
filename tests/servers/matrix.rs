//! Every member of the family under every fault.
//!
//! | fault | test |
//! |---|---|
//! | a reply or a request is lost | [`each_request_and_each_reply_may_be_lost`] |
//! | the caller goes, at each await | [`dropped_at_every_await_it_leaves_nothing`] |
//! | the caller does not poll | `unpolled::holds_nothing_for_long_at_any_await`, for each public future |
//! | the session expires | [`an_expired_session_is_told_and_queued_for_again`] |
//! | the runtime is gone | `shutdown`, for each public call |
//! | an operator deletes nodes | [`an_operator_who_deletes_a_node_takes_the_hold`] |
//! | the holder vanishes, with a takeover delay | [`a_holder_that_vanishes_is_survived_by_the_delay`] |
//!
//! What a member does beyond that under a fault has its test beside the member's others.

use zklock_test_support as support;

use std::future::Future;
use std::time::{Duration, Instant};

use futures::future::join_all;
use support::{Server, Steps, eventually, linked, names_transactions, operator, server, session, within};
use support::{dropped_after, dropped_before, until_nothing_is_left};
use zklock::{LockOptions, LostReason, Session, SessionState};
use zklock_testcontainers::{Link, RequestKind};

use super::family::{FAMILY, Held, Member};

/// What acquisitions and releases send. Heartbeats send some of them, too.
const KINDS: [RequestKind; 7] = [
    RequestKind::CreateContainer,
    RequestKind::Create,
    RequestKind::Multi,
    RequestKind::MultiRead,
    RequestKind::GetData,
    RequestKind::GetChildren,
    RequestKind::Delete,
];

/// Longer than any test takes.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// Does the same for all members at once.
async fn for_all<F: Future<Output = ()>>(mut check: impl FnMut(Member) -> F) {
    join_all(FAMILY.iter().map(|member| check(*member))).await;
}

async fn acquired(member: Member, session: &Session, path: &str) -> Held {
    within(member.name, member.acquire(session, path, LockOptions::new())).await.expect("a hold")
}

/// The next one gets all of it.
async fn is_free(member: Member, other: &Session, path: &str) {
    member.rival(other, path).await.release().await.expect("its release");
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    /// The server carries the request out, and the connection breaks before its reply.
    Reply,
    /// The same to the second request of its kind.
    SecondReply,
    /// The connection breaks before the request.
    Request,
}

impl Loss {
    /// Has it happen to the next request of this kind, and returns whether it has once `done` is.
    async fn during<T>(self, link: &Link, kind: RequestKind, done: impl Future<Output = T>) -> (T, bool) {
        let happens = async {
            match self {
                Self::Reply => link.lose_reply(kind).happened().await,
                Self::SecondReply => {
                    let first = link.hold_reply(kind);
                    first.reached().await;
                    let second = link.lose_reply(kind);
                    first.release();
                    second.happened().await;
                }
                Self::Request => {
                    let held = link.hold_request(kind);
                    held.reached().await;
                    link.cut();
                }
            }
            true
        };
        tokio::pin!(done);
        tokio::select! {
            biased;
            happened = happens => (within("the end", done).await, happened),
            ended = &mut done => (ended, false),
        }
    }
}

/// Acquires, if told behind a rival that releases meanwhile, and releases, while requests of a kind meet a loss. Returns how
/// often they did.
async fn loses(member: Member, server: &Server, loss: Loss, kind: RequestKind, behind: bool) -> usize {
    let what = format!("{}, {loss:?}, {kind:?}, behind: {behind}", member.name);
    let (link, unlucky) = linked(server, Duration::from_secs(30)).await;
    let other = session(server).await;
    let path = format!("/lost/{}-{loss:?}-{kind:?}-{behind}", member.name);
    let rival = if behind { Some(member.rival(&other, &path).await) } else { None };
    let mut rival = rival.map(|rival| async || rival.release().await.expect("its release"));
    let mut acquiring = Steps::new(member.acquire(&unlucky, &path, LockOptions::new()));
    let acquiring = async {
        loop {
            if let std::task::Poll::Ready(acquired) = acquiring.poll() {
                break acquired;
            }
            acquiring.woken_by(&mut rival).await;
        }
    };
    let (held, entering) = loss.during(&link, kind, acquiring).await;
    let held = held.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(held.is_held(), "{what}");
    let (released, leaving) = loss.during(&link, kind, held.release()).await;
    released.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(unlucky.requeued(), 0, "{what}: it keeps its place");
    is_free(member, &other, &path).await;
    unlucky.close().await.expect("its end");
    usize::from(entering) + usize::from(leaving)
}

#[tokio::test]
async fn each_request_and_each_reply_may_be_lost() {
    let server = server().await;
    for_all(async |member| {
        for loss in [Loss::Reply, Loss::SecondReply, Loss::Request] {
            let mut losses = 0;
            for (kind, behind) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
                losses += loses(member, &server, loss, kind, behind).await;
            }
            let least = if loss == Loss::SecondReply { 1 } else { 4 };
            assert!(losses >= least, "{}: {loss:?} happened {losses} times", member.name);
        }
    })
    .await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn dropped_at_every_await_it_leaves_nothing() {
    let server = server().await;
    let (ours, other) = (session(&server).await, session(&server).await);
    for_all(async |member| {
        for behind in [false, true] {
            let mut steps = 0;
            loop {
                // New directories each time, so that their creation is among the steps.
                let path = format!("/dropped/{}-{behind}-{steps}", member.name);
                let rival = if behind { Some(member.rival(&other, &path).await) } else { None };
                let release = async || {
                    if let Some(rival) = rival {
                        rival.release().await.expect("its release");
                    }
                };
                let acquire = member.acquire(&ours, &path, LockOptions::new());
                let done = dropped_before(steps, acquire, release).await;
                is_free(member, &other, &path).await;
                if done {
                    break;
                }
                steps += 1;
            }
            // The task of a key waits for its process's contender, whose steps are not its own.
            assert!(steps >= 2, "{}, behind: {behind}: {steps} steps", member.name);
        }
        let path = format!("/dropped/{}-release", member.name);
        let mut steps = 0;
        while !dropped_after(steps, acquired(member, &ours, &path).await.release()).await {
            is_free(member, &other, &path).await;
            steps += 1;
        }
        assert!(steps >= 1, "{}: {steps} steps", member.name);
    })
    .await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn an_expired_session_is_told_and_queued_for_again() {
    let server = server().await;
    for_all(async |member| {
        let (link, unlucky) = linked(&server, Duration::from_secs(6)).await;
        let other = session(&server).await;
        let (held, awaited) = (format!("/expired/{}-held", member.name), format!("/expired/{}", member.name));
        let rival = member.rival(&other, &awaited).await;
        let guard = acquired(member, &unlucky, &held).await;
        let waiter = tokio::spawn(member.acquire(&unlucky, &awaited, LockOptions::new()));
        // Its entry is answered after what the session asks from here on.
        acquired(member, &unlucky, &format!("/expired/{}-marker", member.name))
            .await
            .release()
            .await
            .unwrap();
        let next = tokio::spawn({
            let (other, held) = (other.clone(), held.clone());
            async move { member.rival(&other, &held).await }
        });
        link.black_hole();
        assert_eq!(within("the loss", guard.lost()).await, LostReason::Unconfirmed, "{}", member.name);
        let next = within("the next one", next).await.expect("no panic");
        assert!(!guard.is_held() && next.is_held(), "{}: two hold it", member.name);
        guard.release().await.unwrap_err();
        eventually("the end of the session", async || unlucky.state() == SessionState::Expired).await;
        link.restore();
        rival.release().await.unwrap();
        let guard = within(member.name, waiter).await.expect("no panic").expect("a hold");
        assert!(guard.is_held() && unlucky.requeued() > 0, "{}", member.name);
        guard.release().await.unwrap();
        next.release().await.unwrap();
    })
    .await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn an_operator_who_deletes_a_node_takes_the_hold() {
    let server = server().await;
    let (ours, other, operator) = (session(&server).await, session(&server).await, operator(&server).await);
    for_all(async |member| {
        let nodes = acquired(member, &ours, &format!("/deleted/{}", member.name)).await.nodes.len();
        for node in 0..nodes {
            let path = format!("/deleted/{}-{node}", member.name);
            let held = acquired(member, &ours, &path).await;
            operator.delete(&held.nodes[node], None).await.unwrap();
            assert_eq!(within("the loss", held.lost()).await, LostReason::NodeDeleted, "{}", member.name);
            assert!(!held.is_held());
            held.release().await.unwrap_err();
            is_free(member, &other, &path).await;
        }
    })
    .await;
    until_nothing_is_left(&server).await;
}

/// Waits until a session watches what this hold stands on, or the pool that it is in.
async fn until_it_watches(server: &Server, session: &Session, held: &Held) {
    let watcher = format!("\t{:#x}", session.id());
    let parents = held.nodes.iter().filter_map(|node| Some(node.rsplit_once('/')?.0.to_owned()));
    let watched =
        held.nodes.iter().cloned().chain(parents).map(|path| server.full(&path)).collect::<Vec<_>>();
    eventually("its watch", async || {
        let answer = server.admin("wchp").await;
        let mut is_watched = false;
        answer.lines().any(|line| {
            if !line.starts_with('\t') {
                is_watched = watched.iter().any(|path| path == line);
            }
            is_watched && line == watcher
        })
    })
    .await;
}

#[tokio::test]
async fn a_holder_that_vanishes_is_survived_by_the_delay() {
    const DELAY: Duration = Duration::from_secs(1);
    let server = server().await;
    let tells = names_transactions(&server).await;
    for_all(async |member| {
        // A session has one watch on a node, so each waits in its own.
        for (released, delay) in [(false, DELAY), (true, FOR_EVER)] {
            if released && (member.is_pooled || !tells) {
                continue; // There a waiter cannot know.
            }
            let (vanishing, waiting) = (session(&server).await, session(&server).await);
            let path = format!("/delayed/{}-{released}", member.name);
            let rival = member.rival(&vanishing, &path).await;
            let options = LockOptions::new().takeover_delay(delay);
            let waiter = tokio::spawn(member.acquire(&waiting, &path, options));
            until_it_watches(&server, &waiting, &rival).await;
            let began = Instant::now();
            if released {
                rival.release().await.unwrap();
            } else {
                vanishing.close().await.unwrap();
            }
            let held = within(member.name, waiter).await.expect("no panic").expect("a hold");
            assert!(released || began.elapsed() >= DELAY, "{}: {:?}", member.name, began.elapsed());
            held.release().await.unwrap();
        }
    })
    .await;
    until_nothing_is_left(&server).await;
}
