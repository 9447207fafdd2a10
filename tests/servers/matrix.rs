//! Every member of the family under every fault.
//!
//! | fault | test |
//! |---|---|
//! | a request or a reply is lost | `lost_reply::each_request_and_each_reply_may_be_lost` |
//! | the caller goes, while one is on its way | the same |
//! | the caller goes, at each await | [`dropped_at_every_await_it_leaves_nothing`] |
//! | the caller does not wait, or not for ever | [`a_try_and_a_wait_that_is_too_short_leave_nothing`] |
//! | the caller does not poll | `unpolled::holds_nothing_for_long_at_any_await` |
//! | the connection is lost | [`a_lost_connection_costs_neither_a_hold_nor_a_place`] |
//! | the session expires | [`an_expired_session_is_told_and_queued_for_again`] |
//! | the session is closed | [`a_closed_session_hands_over_at_once`] |
//! | the runtime is gone | [`the_end_of_the_runtime_is_told`], and `shutdown`, for each call |
//! | ZooKeeper is paused | `bounds`, for each kind of call |
//! | an operator deletes nodes, or writes to them | [`an_operator_who_touches_a_node_takes_the_hold`] |
//! | the holder vanishes, with a takeover delay | [`a_holder_that_vanishes_is_survived_by_the_delay`] |
//!
//! What a member does beyond that under a fault has its test beside the member's others.

use std::future::Future;
use std::time::{Duration, Instant};

use futures::future::join_all;
use support::{
    BOUND, Server, dropped_after, dropped_before, eventually, linked, names_transactions, operator, patient,
    server, session, sessions, until_children_are_watched, until_nothing_is_left, within,
};
use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use zklock::{AcquireError, ConnectError, LockOptions, LostReason, Session, SessionState};

use super::family::{FAMILY, Held, Member, acquired, is_free, number, rival};

/// Longer than any test takes.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// Does the same for all members at once.
async fn for_all<F: Future<Output = ()>>(mut check: impl FnMut(Member) -> F) {
    join_all(FAMILY.iter().map(|member| check(*member))).await;
}

#[tokio::test]
async fn dropped_at_every_await_it_leaves_nothing() {
    let (server, [ours, other]) = sessions().await;
    for_all(async |member| {
        for (used, behind) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut steps = 0;
            loop {
                // New directories each time, so that their creation is among the steps of a handle that was not used.
                let path = format!("/dropped/{}-{used}-{behind}-{steps}", member.name);
                let handle = member.handle(&ours, &path);
                if used {
                    acquired(&handle).await.release().await.expect("its release");
                }
                let rival = if behind { Some(rival(member, &other, &path).await) } else { None };
                let release = async || {
                    if let Some(rival) = rival {
                        rival.release().await.expect("its release");
                    }
                };
                let done = dropped_before(steps, handle.acquire(), release).await;
                is_free(member, &other, &path).await;
                if done {
                    break;
                }
                steps += 1;
            }
            // The task of a key waits for its process's contender, whose steps are not its own.
            let least = if used && !behind { 1 } else { 2 };
            assert!(steps >= least, "{}, behind: {behind}: {steps} steps", member.name);
        }
        let path = format!("/dropped/{}-release", member.name);
        let handle = member.handle(&ours, &path);
        let mut steps = 0;
        while !dropped_after(steps, acquired(&handle).await.release()).await {
            is_free(member, &other, &path).await;
            steps += 1;
        }
        assert!(steps >= 1, "{}: {steps} steps", member.name);
    })
    .await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_try_and_a_wait_that_is_too_short_leave_nothing() {
    let (server, [ours, other]) = sessions().await;
    for_all(async |member| {
        let path = format!("/tried/{}", member.name);
        let handle = member.handle(&ours, &path);
        // Each try in vain is gone before the next one comes.
        for _ in 0..3 {
            let rival = rival(member, &other, &path).await;
            assert!(handle.try_acquire().await.unwrap().is_none(), "{}: it is taken", member.name);
            let (timeout, began) = (Duration::from_millis(200), Instant::now());
            let waited = within("the timeout", handle.acquire_timeout(timeout)).await.unwrap();
            assert!(waited.is_none() && began.elapsed() >= timeout, "{}: it is taken", member.name);
            rival.release().await.unwrap();
            let held = handle.try_acquire().await.unwrap().expect("it is free");
            held.release().await.unwrap();
            let held =
                within("a hold", handle.acquire_timeout(Duration::MAX)).await.unwrap().expect("it is free");
            held.release().await.unwrap();
        }
    })
    .await;
    until_nothing_is_left(&server).await;
}

/// What a member holds, and what it waits for behind a rival; and somebody who waits for what it holds.
struct Contest {
    held: Held,
    waiter: JoinHandle<Result<Held, AcquireError>>,
    rival: Held,
    next: JoinHandle<Result<Held, AcquireError>>,
}

/// Waits until everybody waits.
async fn contest(member: Member, server: &Server, ours: &Session, other: &Session, at: &str) -> Contest {
    let (kept, awaited) = (format!("{at}/{}-kept", member.name), format!("{at}/{}", member.name));
    let rival = rival(member, other, &awaited).await;
    let waiter = tokio::spawn(member.handle(ours, &awaited).acquire());
    until_it_watches(server, ours, &rival).await;
    let held = acquired(&member.handle(ours, &kept)).await;
    let next = tokio::spawn(member.rival(other, &kept).acquire());
    until_it_watches(server, other, &held).await;
    Contest { held, waiter, rival, next }
}

async fn granted(name: &str, waiter: JoinHandle<Result<Held, AcquireError>>) -> Held {
    within(name, waiter).await.expect("no panic").expect("a hold")
}

#[tokio::test]
async fn a_lost_connection_costs_neither_a_hold_nor_a_place() {
    let server = server().await;
    for_all(async |member| {
        let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
        let other = session(&server).await;
        let Contest { held, waiter, rival, next } = contest(member, &server, &unlucky, &other, "/cut").await;
        let place = rival.nodes();
        link.refuse();
        link.cut();
        eventually("the loss", async || unlucky.state() == SessionState::Disconnected).await;
        rival.release().await.unwrap();
        assert!(!waiter.is_finished() && held.is_held() && !next.is_finished(), "{}", member.name);
        link.accept();
        let guard = granted(member.name, waiter).await;
        for (node, before) in guard.nodes().iter().zip(&place) {
            assert_eq!(number(node), number(before) + 1, "{}: it keeps its place", member.name);
        }
        assert!(guard.is_held() && held.is_held() && !next.is_finished(), "{}", member.name);
        assert_eq!(unlucky.requeued(), 0, "{}", member.name);
        guard.release().await.unwrap();
        held.release().await.unwrap();
        granted(member.name, next).await.release().await.unwrap();
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
        let Contest { held, waiter, rival, next } =
            contest(member, &server, &unlucky, &other, "/expired").await;
        link.black_hole();
        assert_eq!(within("the loss", held.lost()).await, LostReason::Unconfirmed, "{}", member.name);
        let next = granted(member.name, next).await;
        assert!(!held.is_held() && next.is_held(), "{}: two hold it", member.name);
        held.release().await.unwrap_err();
        eventually("the end of the session", async || unlucky.state() == SessionState::Expired).await;
        link.restore();
        rival.release().await.unwrap();
        let guard = granted(member.name, waiter).await;
        assert!(guard.is_held() && unlucky.requeued() > 0, "{}", member.name);
        guard.release().await.unwrap();
        next.release().await.unwrap();
    })
    .await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_closed_session_hands_over_at_once() {
    let server = server().await;
    for_all(async |member| {
        let closing = patient(server.connect_string(), BOUND).connect().await.unwrap();
        let other = session(&server).await;
        let Contest { held, waiter, rival, next } =
            contest(member, &server, &closing, &other, "/closed").await;
        let began = Instant::now();
        within("close", closing.close()).await.unwrap();
        closing.close().await.expect("it may be repeated");
        assert_eq!(within("the loss", held.lost()).await, LostReason::SessionClosed, "{}", member.name);
        let next = granted(member.name, next).await;
        assert!(began.elapsed() < BOUND / 2, "{}: long before the session timeout", member.name);
        assert!(!held.is_held() && next.is_held(), "{}: two hold it", member.name);
        held.release().await.unwrap_err();
        let handle = member.handle(&closing, "/closed/again");
        for ended in [
            within("the end", waiter).await.unwrap().map(Some),
            handle.acquire().await.map(Some),
            handle.try_acquire().await,
            handle.acquire_timeout(BOUND).await,
        ] {
            let error = ended.map(drop).unwrap_err();
            assert!(matches!(error, AcquireError::SessionClosed { .. }), "{}: {error}", member.name);
            assert!(error.needs_new_session());
        }
        assert_eq!(closing.requeued(), 0, "{}", member.name);
        next.release().await.unwrap();
        // Nothing of the one that waited is left.
        rival.release().await.unwrap();
        is_free(member, &other, &format!("/closed/{}", member.name)).await;
    })
    .await;
    until_nothing_is_left(&server).await;
}

/// The calls are polled in a runtime that goes on.
#[tokio::test]
async fn the_end_of_the_runtime_is_told() {
    let (server, [other]) = sessions().await;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let contests = join_all(FAMILY.iter().map(async |member| {
        let servers = server.connect_string();
        let theirs = runtime.spawn(async move { Session::connect(servers).await.unwrap() }).await.unwrap();
        let contest = contest(*member, &server, &theirs, &other, "/gone").await;
        (member, theirs, contest)
    }))
    .await;
    runtime.shutdown_background();
    for (member, theirs, Contest { held, waiter, .. }) in contests {
        assert_eq!(within("the loss", held.lost()).await, LostReason::SessionClosed, "{}", member.name);
        assert!(!held.is_held(), "{}: nobody follows the session any more", member.name);
        let late = within("the end", member.handle(&theirs, "/gone/late").acquire()).await;
        for ended in [within("the end", waiter).await.unwrap(), late] {
            let error = ended.map(drop).unwrap_err();
            let AcquireError::SessionFailed { cause, .. } = &error else {
                panic!("{}: {error}", member.name)
            };
            assert_eq!(**cause, ConnectError::RuntimeGone, "{}", member.name);
        }
    }
}

#[tokio::test]
async fn an_operator_who_touches_a_node_takes_the_hold() {
    let server = server().await;
    let operator = operator(&server).await;
    for_all(async |member| {
        // A session has one watch on a node, so each waits in its own.
        let (ours, other) = (session(&server).await, session(&server).await);
        let nodes = acquired(&member.handle(&ours, &format!("/touched/{}", member.name))).await.nodes().len();
        for (node, deletes) in (0..nodes).flat_map(|node| [(node, true), (node, false)]) {
            let path = format!("/touched/{}-{node}-{deletes}", member.name);
            let held = acquired(&member.handle(&ours, &path)).await;
            let next = tokio::spawn(member.rival(&other, &path).acquire());
            until_it_watches(&server, &other, &held).await;
            let touched = &held.nodes()[node];
            until_watched_by(&server, &ours, vec![touched.clone()]).await;
            if deletes {
                operator.delete(touched, None).await.unwrap();
            } else {
                operator.set_data(touched, b"mine", None).await.unwrap();
            }
            assert_eq!(within("the loss", held.lost()).await, LostReason::NodeDeleted, "{}", member.name);
            assert!(!held.is_held(), "{}", member.name);
            let is_left = nodes > 1 || !deletes;
            assert!(!is_left || !next.is_finished(), "{}: the loser has not finished", member.name);
            held.release().await.unwrap_err();
            granted(member.name, next).await.release().await.unwrap();
        }
    })
    .await;
    until_nothing_is_left(&server).await;
}

/// Waits until a session watches what this hold stands on, or the pool that it is in.
async fn until_it_watches(server: &Server, session: &Session, held: &Held) {
    let nodes = held.nodes();
    let parents = nodes.iter().filter_map(|node| Some(node.rsplit_once('/')?.0.to_owned()));
    let watched = nodes.iter().cloned().chain(parents).collect();
    until_watched_by(server, session, watched).await;
}

/// Waits until a session watches one of these nodes.
async fn until_watched_by(server: &Server, session: &Session, nodes: Vec<String>) {
    let watcher = format!("\t{:#x}", session.id());
    let watched = nodes.iter().map(|path| server.full(path)).collect::<Vec<_>>();
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
    until_children_are_watched(session).await;
}

/// How a rival ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Released,
    Dropped,
    /// Its session ends.
    Vanished,
    /// An operator deletes its nodes.
    Deleted,
}

#[tokio::test]
async fn a_holder_that_vanishes_is_survived_by_the_delay() {
    const DELAY: Duration = Duration::from_secs(1);
    let server = server().await;
    let operator = operator(&server).await;
    let tells = names_transactions(&server).await;
    for_all(async |member| {
        // A session has one watch on a node, so each waits in its own.
        for end in [End::Released, End::Dropped, End::Vanished, End::Deleted] {
            let is_told = matches!(end, End::Released | End::Dropped) && tells && !member.is_pooled();
            let delay = if is_told { FOR_EVER } else { DELAY };
            let (vanishing, waiting) = (session(&server).await, session(&server).await);
            let path = format!("/delayed/{}-{end:?}", member.name);
            let rival = rival(member, &vanishing, &path).await;
            let options = LockOptions::new().takeover_delay(delay);
            let waiter = tokio::spawn(member.handle_with(&waiting, &path, options).acquire());
            until_it_watches(&server, &waiting, &rival).await;
            let began = Instant::now();
            let mut loser = None;
            match end {
                End::Released => rival.release().await.unwrap(),
                End::Dropped => drop(rival),
                End::Vanished => {
                    vanishing.close().await.unwrap();
                    loser = Some((rival, LostReason::SessionClosed));
                }
                End::Deleted => {
                    for node in rival.nodes() {
                        operator.delete(&node, None).await.unwrap();
                    }
                    loser = Some((rival, LostReason::NodeDeleted));
                }
            }
            let held = granted(&format!("{}, {end:?}", member.name), waiter).await;
            assert!(is_told || began.elapsed() >= DELAY, "{}, {end:?}: {:?}", member.name, began.elapsed());
            if let Some((loser, reason)) = loser {
                assert!(!loser.is_held(), "{}, {end:?}: two hold it", member.name);
                assert_eq!(within("the loss", loser.lost()).await, reason);
            }
            held.release().await.unwrap();
        }
    })
    .await;
    until_nothing_is_left(&server).await;
}
