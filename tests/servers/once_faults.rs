//! Slots that run once, while replies are lost, callers go, locks are lost, and operators delete what they like.

use std::time::Duration;

use support::{
    Server, Waiter, dropped_before, granted, linked, linked_session, make, make_foreign, operator,
    own_server, refused, server, session, sessions, until_nothing_is_left, within,
};
use zklock::{
    Acl, AcquireError, LockOptions, Once, Session,
    once::{Claim, OnceOptions, RecordError, RecordState, Run},
};
use zklock_testcontainers::{Link, RequestKind};
use zookeeper_client::Permission;

use super::once::{NAME, NODE, PATH, begun};

const DIRECTORY: &str = "/lock/report.once";

/// The state of the run's record, and how many times it has begun.
async fn recorded(once: &Once) -> (RecordState, u32) {
    let records = once.records().await.unwrap();
    let [record] = &records[..] else { panic!("{records:?}") };
    (record.state, record.attempt)
}

/// A session whose contenders enter the queue by a `Create`, so that the next `Multi` is about a record.
async fn unlucky(server: Server) -> (Server, Link, Session, Once) {
    make_foreign(&server, PATH).await;
    make(&operator(&server).await, DIRECTORY).await;
    let (link, session) = linked(&server, Duration::from_secs(20)).await;
    let once = session.once(PATH).unwrap();
    (server, link, session, once)
}

/// Claims it in a separate task.
fn claiming(once: &Once, name: &'static str) -> Waiter<Claim> {
    let once = once.clone();
    tokio::spawn(async move { once.claim(name).await })
}

async fn running(claim: Waiter<Claim>) -> Run {
    match granted(claim).await {
        Claim::Run(run) => run,
        Claim::Recorded(record) => panic!("it has not run: {record:?}"),
    }
}

/// Breaks the connection at the next transaction: behind its reply, or before its request arrives.
async fn loses(link: &Link, is_reply: bool) {
    if is_reply {
        link.lose_reply(RequestKind::Multi).happened().await;
    } else {
        let held = link.hold_request(RequestKind::Multi);
        held.reached().await;
        link.cut();
    }
}

#[tokio::test]
async fn a_begin_and_an_end_are_recorded_once_though_a_request_or_a_reply_is_lost() {
    for is_reply in [true, false] {
        let (server, link, _session, once) = unlucky(server().await).await;
        let ((), run) = tokio::join!(loses(&link, is_reply), begun(&once, NAME));
        assert_eq!(run.attempt(), 1);
        assert_eq!(recorded(&once).await, (RecordState::Begun, 1));
        assert!(run.guard().is_held());
        let end = if is_reply { RecordState::Succeeded } else { RecordState::Failed };
        let ends = async { if is_reply { run.complete().await } else { run.fail().await } };
        let ((), ended) = within("the end", async { tokio::join!(loses(&link, is_reply), ends) }).await;
        ended.unwrap();
        assert_eq!(recorded(&once).await, (end, 1));
        until_nothing_is_left(&server).await;
    }
}

/// Nothing has run, though the record says that the run has begun. Nobody but this claim can know that.
#[tokio::test]
async fn a_begin_whose_reply_was_lost_with_its_session_is_made_good() {
    let (server, link, session, once) = unlucky(own_server().await).await;
    let held = link.hold_reply(RequestKind::Multi);
    let claim = claiming(&once, NAME);
    within("the begin", held.reached()).await;
    let id = session.id();
    server.own().close_session(id).await.unwrap();
    link.cut();
    drop(held);
    let run = running(claim).await;
    assert_ne!(session.id(), id);
    assert_eq!(run.attempt(), 1);
    assert_eq!(recorded(&once).await, (RecordState::Begun, 1));
    run.complete().await.unwrap();
    assert_eq!(recorded(&once).await, (RecordState::Succeeded, 1));
    until_nothing_is_left(&server).await;
}

/// The record was written, or was not; its writer cannot know.
#[tokio::test]
async fn an_end_whose_reply_was_lost_with_its_session_is_not_reported_as_a_success() {
    let (server, link, session, once) = unlucky(own_server().await).await;
    let run = begun(&once, NAME).await;
    let held = link.hold_reply(RequestKind::Multi);
    let end = tokio::spawn(run.complete());
    within("the end", held.reached()).await;
    server.own().close_session(session.id()).await.unwrap();
    link.cut();
    drop(held);
    assert_eq!(refused(end).await, RecordError::Unconfirmed { path: NODE.into() });
    let observer = support::session(&server).await;
    assert_eq!(recorded(&observer.once(PATH).unwrap()).await, (RecordState::Succeeded, 1));
}

/// The end was written, and its writer sees only what took its place.
#[tokio::test]
async fn an_end_that_was_replaced_before_it_was_seen_is_not_denied() {
    let (server, link, _session, once) = unlucky(server().await).await;
    let run = begun(&once, NAME).await;
    let held = link.hold_reply(RequestKind::Multi);
    let end = tokio::spawn(run.complete());
    within("the end", held.reached()).await;
    // It fails unless the end is written.
    operator(&server).await.set_data(NODE, b"precious", Some(1)).await.unwrap();
    link.cut();
    drop(held);
    assert_eq!(refused(end).await, RecordError::Unconfirmed { path: NODE.into() });
    until_nothing_is_left(&server).await;
}

/// All of them are read once one is dropped.
#[tokio::test]
async fn a_read_of_all_records_may_be_lost() {
    let (server, link, session) = linked_session(Duration::from_secs(20)).await;
    let once = session.once(PATH).unwrap().with_options(OnceOptions::new().keep(1)).unwrap();
    begun(&once, "a").await.complete().await.unwrap();
    let held = link.hold_reply(RequestKind::MultiRead);
    let claim = claiming(&once, "b");
    within("the read", held.reached()).await;
    let lost = link.lose_reply(RequestKind::MultiRead);
    held.release();
    let run = running(claim).await;
    assert!(lost.has_happened());
    run.complete().await.unwrap();
    assert_eq!(once.records().await.unwrap().len(), 1);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn the_present_run_may_be_asked_for_again() {
    let server = own_server().await;
    let (link, session) = linked(&server, Duration::from_secs(20)).await;
    let once = session.once(PATH).unwrap();
    for kind in [RequestKind::CreateContainer, RequestKind::Create, RequestKind::Multi] {
        let lost = link.lose_reply(kind);
        let name = within("the name", once.period_name(Duration::from_secs(86_400))).await.unwrap();
        assert!(name.ends_with("T00:00:00Z"));
        drop(lost);
    }
    let operator = operator(&server).await;
    assert!(operator.list_children(DIRECTORY).await.unwrap().is_empty(), "a node is left");
    server.own().pause().await.unwrap();
    let error = within("the error", once.period_name(Duration::from_secs(1))).await.unwrap_err();
    assert_eq!(error, AcquireError::Unanswered { path: PATH.into(), waited: Duration::from_secs(10) });
    server.own().unpause().await.unwrap();
}

/// The holder does not know yet that its node is gone, but the servers do.
#[tokio::test]
async fn the_lock_is_lost_just_before_the_end_is_recorded() {
    let (server, [session]) = sessions().await;
    let once = session.once(PATH).unwrap();
    let operator = operator(&server).await;
    let run = begun(&once, NAME).await;
    let node = run.guard().node();
    let (deleted, ended) = tokio::join!(operator.delete(&node, None), run.complete());
    let (state, _) = recorded(&once).await;
    match ended {
        Ok(()) => assert_eq!(state, RecordState::Succeeded, "{deleted:?}"),
        Err(error) => {
            assert!(matches!(error, RecordError::Lost { .. }), "{error}");
            assert_eq!(state, RecordState::Begun);
        }
    }
}

#[tokio::test]
async fn an_operator_deletes_records() {
    let (server, [session]) = sessions().await;
    let once = session.once(PATH).unwrap();
    let operator = operator(&server).await;
    let running = begun(&once, NAME).await;
    operator.delete(NODE, None).await.unwrap();
    let error = running.complete().await.unwrap_err();
    assert_eq!(error, RecordError::Changed { path: NODE.into() });
    // That lets the run run again, and so does the deletion of the whole directory.
    begun(&once, NAME).await.complete().await.unwrap();
    operator.delete(NODE, None).await.unwrap();
    operator.delete(DIRECTORY, None).await.unwrap();
    begun(&once, NAME).await.complete().await.unwrap();
    assert_eq!(recorded(&once).await, (RecordState::Succeeded, 1));
}

/// Between the look and the begin. Without another look the run would run, though nobody knows whether it has run.
#[tokio::test]
async fn records_that_change_meanwhile_are_looked_at_again() {
    let (server, link, _session, once) = unlucky(server().await).await;
    let operator = operator(&server).await;
    let begin = async || {
        let held = link.hold_request(RequestKind::Multi);
        let claim = claiming(&once, NAME);
        within("the begin", held.reached()).await;
        (held, claim)
    };
    let (held, claim) = begin().await;
    make(&operator, NODE).await;
    held.release();
    assert_eq!(refused(claim).await, AcquireError::NotARecord { path: NODE.into() });
    operator.delete(NODE, None).await.unwrap();
    let (held, claim) = begin().await;
    operator.set_data(DIRECTORY, br#"{"forgotten":[["2026-01-01","2026-12-31"]]}"#, None).await.unwrap();
    held.release();
    let error = refused(claim).await;
    assert!(matches!(error, AcquireError::Forgotten { last, .. } if last == "2026-12-31"));
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn an_acl_that_the_server_rejects() {
    let (_server, [session]) = sessions().await;
    let options = OnceOptions::new().lock(LockOptions::new().acl(Acl::creator_only()));
    let once = session.once(PATH).unwrap().with_options(options).unwrap();
    let rejected = AcquireError::InvalidAcl { path: PATH.into() };
    assert_eq!(within("the error", once.period_name(Duration::from_secs(1))).await.unwrap_err(), rejected);
    assert_eq!(within("the error", once.claim(NAME)).await.unwrap_err(), rejected);
}

#[tokio::test]
async fn an_operator_writes_to_records() {
    let (server, [session]) = sessions().await;
    let once = session.once(PATH).unwrap();
    let operator = operator(&server).await;
    let running = begun(&once, NAME).await;
    let (data, _) = operator.get_data(NODE).await.unwrap();
    // Even if it is the same data.
    operator.set_data(NODE, &data, None).await.unwrap();
    let error = running.complete().await.unwrap_err();
    assert_eq!(error, RecordError::Changed { path: NODE.into() });
    operator.set_data(NODE, b"precious", None).await.unwrap();
    let error = within("the error", once.claim(NAME)).await.unwrap_err();
    assert_eq!(error, AcquireError::NotARecord { path: NODE.into() });
    operator.set_data(DIRECTORY, b"precious", None).await.unwrap();
    let error = within("the error", once.claim("2026-11-23")).await.unwrap_err();
    assert_eq!(error, AcquireError::NotARecord { path: DIRECTORY.into() });
    assert_eq!(operator.get_data(DIRECTORY).await.unwrap().0, b"precious");
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn without_permission_to_keep_records() {
    let (server, [session]) = sessions().await;
    let once = session.once(PATH).unwrap();
    let operator = operator(&server).await;
    make(&operator, PATH).await;
    let reader = [zookeeper_client::Acl::new(
        Permission::READ | Permission::ADMIN,
        zookeeper_client::AuthId::anyone(),
    )];
    let refused = AcquireError::RecordNotAuthorized { path: DIRECTORY.into() };
    // Nobody may create the directory; then nobody may create records in it.
    operator.set_acl("/lock", &reader, None).await.unwrap();
    assert_eq!(within("the error", once.claim(NAME)).await.unwrap_err(), refused);
    assert_eq!(once.period_name(Duration::from_secs(1)).await.unwrap_err(), refused);
    until_nothing_is_left(&server).await;
    operator.set_acl("/lock", &zookeeper_client::Acls::anyone_all(), None).await.unwrap();
    make(&operator, DIRECTORY).await;
    operator.set_acl(DIRECTORY, &reader, None).await.unwrap();
    assert_eq!(within("the error", once.claim(NAME)).await.unwrap_err(), refused);
    until_nothing_is_left(&server).await;
    assert!(once.records().await.unwrap().is_empty());
}

#[tokio::test]
async fn records_have_the_acl_of_the_lock() {
    let server = server().await;
    let owner =
        Session::builder(server.connect_string()).auth("digest", "owner:secret").connect().await.unwrap();
    let options = OnceOptions::new().lock(LockOptions::new().acl(Acl::creator_only()));
    let once = owner.once(PATH).unwrap().with_options(options).unwrap();
    begun(&once, NAME).await.complete().await.unwrap();
    assert_eq!(recorded(&once).await, (RecordState::Succeeded, 1));
    let operator = operator(&server).await;
    for node in [DIRECTORY, NODE] {
        assert_eq!(operator.get_data(node).await.unwrap_err(), zookeeper_client::Error::NoAuth, "{node}");
    }
}

#[tokio::test]
async fn a_claim_is_dropped_at_every_await() {
    let (server, [mut caller, other]) = sessions().await;
    // A run that was never begun, also by somebody who then closes the session; and one that has failed.
    for (failed, closes) in [(false, false), (false, true), (true, false)] {
        let mut steps = 0;
        loop {
            let path = format!("/lock/claim-{failed}-{closes}-{steps}");
            let once = caller.once(&path).unwrap().with_options(OnceOptions::new().retry(failed)).unwrap();
            if failed {
                begun(&once, NAME).await.fail().await.unwrap();
            }
            let more = !dropped_before(steps, once.claim(NAME), async || ()).await;
            if closes {
                caller.close().await.unwrap();
                caller = session(&server).await;
            }
            // Nothing of it stays: no contender, and no begin, unless it had the turn.
            let next =
                other.once(&path).unwrap().with_options(OnceOptions::new().retry(failed || !more)).unwrap();
            let run = begun(&next, NAME).await;
            assert_eq!(run.attempt(), 1 + u32::from(failed) + u32::from(!more), "{steps} steps");
            run.complete().await.unwrap();
            until_nothing_is_left(&server).await;
            if !more {
                break;
            }
            steps += 1;
        }
        assert!(steps >= 3, "enter, read, begin: {steps} steps");
    }
}

#[tokio::test]
async fn an_end_is_dropped_at_every_await() {
    let (server, [mut caller, other]) = sessions().await;
    let mut steps = 0;
    loop {
        let path = format!("/lock/end-{steps}");
        let once = caller.once(&path).unwrap();
        let running = begun(&once, NAME).await;
        let more = !dropped_before(steps, running.complete(), async || ()).await;
        caller.close().await.unwrap();
        caller = session(&server).await;
        let next = other.once(&path).unwrap();
        let claim = within("the claim", next.claim(NAME)).await.unwrap();
        let Claim::Recorded(record) = claim else { panic!("{claim:?}") };
        // It was not polled at all, or it goes on.
        assert_eq!(record.state, if steps == 0 { RecordState::Begun } else { RecordState::Succeeded });
        until_nothing_is_left(&server).await;
        if !more {
            break;
        }
        steps += 1;
    }
    assert!(steps >= 2, "the record, the release: {steps} steps");
}

#[tokio::test]
async fn the_present_run_is_dropped_at_every_await() {
    let (server, [session]) = sessions().await;
    let operator = operator(&server).await;
    let mut steps = 0;
    loop {
        let once = session.once(&format!("/lock/name-{steps}")).unwrap();
        let more = !dropped_before(steps, once.period_name(Duration::from_secs(60)), async || ()).await;
        // The next answer comes after everything that the dropped call has sent.
        once.period_name(Duration::from_secs(60)).await.unwrap();
        let directory = format!("/lock/name-{steps}.once");
        assert!(operator.list_children(&directory).await.unwrap().is_empty(), "{steps} steps");
        if !more {
            break;
        }
        steps += 1;
    }
    assert!(steps >= 3, "ask, create the directories, ask: {steps} steps");
    until_nothing_is_left(&server).await;
}
