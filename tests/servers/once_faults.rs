//! Slots that run once, while replies are lost, callers go, locks are lost, and operators delete what they like.

use zklock_test_support as support;

use std::task::Poll;
use std::time::Duration;

use support::{
    Server, Steps, linked, make, make_foreign, operator, own_server, server, session, until_nothing_is_left,
    within,
};
use zklock::{
    Acl, AcquireError, LockOptions, LostReason, Once, Session,
    once::{Claim, OnceOptions, RecordError, RecordState, Run},
};
use zklock_testcontainers::{Link, RequestKind};
use zookeeper_client::Permission;

const PATH: &str = "/lock/report";
const DIRECTORY: &str = "/lock/report.once";
const NAME: &str = "2026-11-22";
const NODE: &str = "/lock/report.once/2026-11-22";

async fn begun(once: &Once, name: &str) -> Run {
    match within("the claim", once.claim(name)).await.unwrap() {
        Claim::Run(run) => run,
        Claim::Done(record) => panic!("{record:?}"),
    }
}

/// The state of the run's record, and how many times it has begun.
async fn recorded(once: &Once) -> (RecordState, u32) {
    let records = once.records().await.unwrap();
    let [record] = &records[..] else { panic!("{records:?}") };
    (record.state, record.attempt)
}

/// A session whose contenders enter the queue by a `Create`, so that the next `Multi` is about a record.
async fn unlucky(server: &Server) -> (Link, Session, Once) {
    make_foreign(server, PATH).await;
    make(&operator(server).await, DIRECTORY).await;
    let (link, session) = linked(server, Duration::from_secs(20)).await;
    let once = session.once(PATH).unwrap();
    (link, session, once)
}

#[tokio::test]
async fn a_begin_whose_reply_was_lost_is_recognised() {
    let server = server().await;
    let (link, _session, once) = unlucky(&server).await;
    let lost = link.lose_reply(RequestKind::Multi);
    let run = begun(&once, NAME).await;
    assert!(lost.has_happened());
    assert_eq!(run.attempt(), 1);
    assert_eq!(recorded(&once).await, (RecordState::Begun, 1));
    assert!(run.guard().is_held());
    run.complete().await.unwrap();
    assert_eq!(recorded(&once).await, (RecordState::Succeeded, 1));
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_begin_that_never_arrived_is_sent_again() {
    let server = server().await;
    let (link, _session, once) = unlucky(&server).await;
    let held = link.hold_request(RequestKind::Multi);
    let claim = tokio::spawn({
        let once = once.clone();
        async move { once.claim(NAME).await }
    });
    within("the begin", held.reached()).await;
    link.cut();
    let Claim::Run(run) = within("the claim", claim).await.unwrap().unwrap() else {
        panic!("it has not run")
    };
    assert_eq!(recorded(&once).await, (RecordState::Begun, 1));
    run.complete().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// Nothing has run, though the record says that the run has begun. Nobody but this claim can know that.
#[tokio::test]
async fn a_begin_whose_reply_was_lost_with_its_session_is_made_good() {
    let server = own_server().await;
    let (link, session, once) = unlucky(&server).await;
    let held = link.hold_reply(RequestKind::Multi);
    let claim = tokio::spawn({
        let once = once.clone();
        async move { once.claim(NAME).await }
    });
    within("the begin", held.reached()).await;
    let id = session.id();
    server.own().close_session(id).await.unwrap();
    link.cut();
    drop(held);
    let Claim::Run(run) = within("the claim", claim).await.unwrap().unwrap() else {
        panic!("it has not run")
    };
    assert_ne!(session.id(), id);
    assert_eq!(run.attempt(), 1);
    assert_eq!(recorded(&once).await, (RecordState::Begun, 1));
    run.complete().await.unwrap();
    assert_eq!(recorded(&once).await, (RecordState::Succeeded, 1));
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn an_end_whose_reply_was_lost_is_confirmed() {
    let server = server().await;
    let (link, _session, once) = unlucky(&server).await;
    let run = begun(&once, NAME).await;
    let lost = link.lose_reply(RequestKind::Multi);
    within("the end", run.complete()).await.unwrap();
    assert!(lost.has_happened());
    assert_eq!(recorded(&once).await, (RecordState::Succeeded, 1));
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn an_end_that_never_arrived_is_sent_again() {
    let server = server().await;
    let (link, _session, once) = unlucky(&server).await;
    let run = begun(&once, NAME).await;
    let held = link.hold_request(RequestKind::Multi);
    let end = tokio::spawn(run.fail());
    within("the end", held.reached()).await;
    link.cut();
    within("the end", end).await.unwrap().unwrap();
    assert_eq!(recorded(&once).await, (RecordState::Failed, 1));
    until_nothing_is_left(&server).await;
}

/// The record was written, or was not; its writer cannot know.
#[tokio::test]
async fn an_end_whose_reply_was_lost_with_its_session_is_not_reported_as_a_success() {
    let server = own_server().await;
    let (link, session, once) = unlucky(&server).await;
    let run = begun(&once, NAME).await;
    let held = link.hold_reply(RequestKind::Multi);
    let end = tokio::spawn(run.complete());
    within("the end", held.reached()).await;
    server.own().close_session(session.id()).await.unwrap();
    link.cut();
    drop(held);
    let error = within("the end", end).await.unwrap().unwrap_err();
    assert_eq!(error, RecordError::Unconfirmed { path: NODE.into() });
    let observer = support::session(&server).await;
    assert_eq!(recorded(&observer.once(PATH).unwrap()).await, (RecordState::Succeeded, 1));
}

/// The end was written, and its writer sees only what took its place.
#[tokio::test]
async fn an_end_that_was_replaced_before_it_was_seen_is_not_denied() {
    let server = server().await;
    let (link, _session, once) = unlucky(&server).await;
    let run = begun(&once, NAME).await;
    let held = link.hold_reply(RequestKind::Multi);
    let end = tokio::spawn(run.complete());
    within("the end", held.reached()).await;
    // It fails unless the end is written.
    operator(&server).await.set_data(NODE, b"precious", Some(1)).await.unwrap();
    link.cut();
    drop(held);
    let error = within("the end", end).await.unwrap().unwrap_err();
    assert_eq!(error, RecordError::Unconfirmed { path: NODE.into() });
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn every_other_reply_may_be_lost_too() {
    let server = server().await;
    // The directory of the records is created, the records are read, and all of them once one is dropped.
    for (name, kind, before) in [
        ("create", RequestKind::Create, 0),
        ("read", RequestKind::MultiRead, 0),
        ("read-all", RequestKind::MultiRead, 1),
    ] {
        let path = format!("/lock/{name}");
        let (link, session) = linked(&server, Duration::from_secs(20)).await;
        let once = session.once(&path).unwrap().with_options(OnceOptions::new().keep(1)).unwrap();
        // From here on, contenders enter by a `Multi`.
        once.lock().acquire().await.unwrap().release().await.unwrap();
        if kind != RequestKind::Create {
            begun(&once, "a").await.complete().await.unwrap();
        }
        let held = (before > 0).then(|| link.hold_reply(kind));
        let claim = tokio::spawn({
            let once = once.clone();
            async move { once.claim("b").await }
        });
        let lost = match held {
            Some(held) => {
                within("the read", held.reached()).await;
                let lost = link.lose_reply(kind);
                held.release();
                lost
            }
            None => link.lose_reply(kind),
        };
        let Claim::Run(run) = within("the claim", claim).await.unwrap().unwrap() else { panic!("{name}") };
        assert!(lost.has_happened(), "{name}");
        run.complete().await.unwrap();
        assert_eq!(once.records().await.unwrap().len(), 1);
    }
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

#[tokio::test]
async fn the_lock_is_lost_while_the_run_runs() {
    let server = server().await;
    let session = session(&server).await;
    let once = session.once(PATH).unwrap();
    let run = begun(&once, NAME).await;
    operator(&server).await.delete(&run.guard().node(), None).await.unwrap();
    within("the loss", run.guard().lost()).await;
    let error = run.complete().await.unwrap_err();
    let RecordError::Lost { path, lost } = error else { panic!("{error}") };
    assert_eq!((path.as_str(), lost.reason), (NODE, LostReason::NodeDeleted));
    assert_eq!(recorded(&once).await, (RecordState::Begun, 1));
    until_nothing_is_left(&server).await;
}

/// The holder does not know yet that its node is gone, but the servers do.
#[tokio::test]
async fn the_lock_is_lost_just_before_the_end_is_recorded() {
    let server = server().await;
    let session = session(&server).await;
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
    let server = server().await;
    let session = session(&server).await;
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
    let server = server().await;
    let (link, _session, once) = unlucky(&server).await;
    let operator = operator(&server).await;
    let begin = async || {
        let held = link.hold_request(RequestKind::Multi);
        let claim = tokio::spawn({
            let once = once.clone();
            async move { once.claim(NAME).await }
        });
        within("the begin", held.reached()).await;
        (held, claim)
    };
    let (held, claim) = begin().await;
    make(&operator, NODE).await;
    held.release();
    let error = within("the error", claim).await.unwrap().unwrap_err();
    assert_eq!(error, AcquireError::NotARecord { path: NODE.into() });
    operator.delete(NODE, None).await.unwrap();
    let (held, claim) = begin().await;
    operator.set_data(DIRECTORY, br#"{"forgotten":[["2026-01-01","2026-12-31"]]}"#, None).await.unwrap();
    held.release();
    let error = within("the error", claim).await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::Forgotten { last, .. } if last == "2026-12-31"));
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn an_acl_that_the_server_rejects() {
    let server = server().await;
    let session = session(&server).await;
    let options = OnceOptions::new().lock(LockOptions::new().acl(Acl::creator_only()));
    let once = session.once(PATH).unwrap().with_options(options).unwrap();
    let rejected = AcquireError::InvalidAcl { path: PATH.into() };
    assert_eq!(within("the error", once.period_name(Duration::from_secs(1))).await.unwrap_err(), rejected);
    assert_eq!(within("the error", once.claim(NAME)).await.unwrap_err(), rejected);
}

#[tokio::test]
async fn an_operator_writes_to_records() {
    let server = server().await;
    let session = session(&server).await;
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
    let server = server().await;
    let session = session(&server).await;
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

/// Polls a call `steps` times and drops it. True if it had more to do.
async fn drop_after<F: Future>(call: F, steps: usize) -> bool {
    let mut call = Steps::new(call);
    for _ in 0..steps {
        if let Poll::Ready(_ended) = call.poll() {
            return false;
        }
        call.woken().await;
    }
    true
}

#[tokio::test]
async fn a_claim_is_dropped_at_every_await() {
    let server = server().await;
    let (mut caller, other) = (session(&server).await, session(&server).await);
    // A run that was never begun, also by somebody who then closes the session; and one that has failed.
    for (failed, closes) in [(false, false), (false, true), (true, false)] {
        let mut steps = 0;
        loop {
            let path = format!("/lock/claim-{failed}-{closes}-{steps}");
            let once = caller.once(&path).unwrap().with_options(OnceOptions::new().retry(failed)).unwrap();
            if failed {
                begun(&once, NAME).await.fail().await.unwrap();
            }
            let more = drop_after(once.claim(NAME), steps).await;
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
    let server = server().await;
    let (mut caller, other) = (session(&server).await, session(&server).await);
    let mut steps = 0;
    loop {
        let path = format!("/lock/end-{steps}");
        let once = caller.once(&path).unwrap();
        let running = begun(&once, NAME).await;
        let more = drop_after(running.complete(), steps).await;
        caller.close().await.unwrap();
        caller = session(&server).await;
        let next = other.once(&path).unwrap();
        let claim = within("the claim", next.claim(NAME)).await.unwrap();
        let Claim::Done(record) = claim else { panic!("{claim:?}") };
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
    let server = server().await;
    let session = session(&server).await;
    let operator = operator(&server).await;
    let mut steps = 0;
    loop {
        let once = session.once(&format!("/lock/name-{steps}")).unwrap();
        let more = drop_after(once.period_name(Duration::from_secs(60)), steps).await;
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
