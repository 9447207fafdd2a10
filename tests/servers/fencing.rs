//! What makes a holder that is none any more harmless: transactions under the lock, verified guards, sequencers.

use std::time::{Duration, Instant};

use support::{
    linked, linked_session, make, operator, own_server, server, session, sessions, until_nothing_is_left,
    within,
};
use zklock::{
    Guard, LostReason, QueryError, Sequencer, Session,
    guard::{Applied, ConditionProblem, NodeOptions, Transaction, TransactionError},
};
use zklock_testcontainers::{Ensemble, RequestKind};
use zookeeper_client::{Acls, Client, CreateMode};

/// A guard of `/lock/orders`.
async fn guard(session: &Session) -> Guard {
    session.lock("/lock/orders").unwrap().acquire().await.unwrap()
}

async fn exists(client: &Client, path: &str) -> bool {
    client.check_stat(path).await.unwrap().is_some()
}

/// Whether this loss is `reason`.
fn is_lost<T: std::fmt::Debug>(result: Result<T, TransactionError>, reason: LostReason) -> bool {
    match result {
        Err(TransactionError::Lost(lost)) => lost.reason == reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_transaction_applies_all_and_reports_each() {
    let (server, [session]) = sessions().await;
    let operator = operator(&server).await;
    make(&operator, "/data").await;
    let guard = guard(&session).await;
    let passing = NodeOptions::new().ephemeral();
    let applied = guard
        .transaction()
        .create("/data/a", "one")
        .set("/data/a", "two", Some(0))
        .create_with("/data/", "", NodeOptions::new().sequential())
        .create_with("/data/entry-", "", passing.clone().sequential())
        .create_with("/data/passing", "", passing)
        .check("/data/a", Some(1))
        .check("/", None)
        .delete("/data/passing", None)
        .commit()
        .await
        .unwrap();
    let created = |path: &str| Applied::Created { path: path.into() };
    assert_eq!(
        applied,
        [
            created("/data/a"),
            Applied::Set { version: 1 },
            created("/data/0000000001"),
            created("/data/entry-0000000002"),
            created("/data/passing"),
            Applied::Checked,
            Applied::Checked,
            Applied::Deleted,
        ]
    );
    let (data, stat) = operator.get_data("/data/a").await.unwrap();
    assert_eq!((data.as_slice(), stat.ephemeral_owner), (b"two".as_slice(), 0));
    let (_, stat) = operator.get_data("/data/entry-0000000002").await.unwrap();
    assert_eq!(stat.ephemeral_owner, session.id());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_failed_condition_is_told_by_its_index_and_nothing_is_written() {
    let (server, [session]) = sessions().await;
    let operator = operator(&server).await;
    make(&operator, "/data/parent/child").await;
    operator
        .create("/data/passing", &[], &CreateMode::Ephemeral.with_acls(Acls::anyone_all()))
        .await
        .unwrap();
    operator.create("/data/shut", &[], &CreateMode::Persistent.with_acls(Acls::anyone_read())).await.unwrap();
    let guard = guard(&session).await;
    type Build<'a> = fn(Transaction<'a>) -> Transaction<'a>;
    let cases: [(Build<'_>, &str, ConditionProblem); 8] = [
        (|it| it.set("/data/none", "", None), "/data/none", ConditionProblem::NoNode),
        (|it| it.create("/data/none/x", ""), "/data/none/x", ConditionProblem::NoNode),
        (|it| it.create("/data/parent", ""), "/data/parent", ConditionProblem::NodeExists),
        (|it| it.delete("/data/passing", Some(7)), "/data/passing", ConditionProblem::BadVersion),
        (|it| it.check("/data/passing", Some(7)), "/data/passing", ConditionProblem::BadVersion),
        (|it| it.delete("/data/parent", None), "/data/parent", ConditionProblem::NotEmpty),
        (|it| it.create("/data/passing/x", ""), "/data/passing/x", ConditionProblem::EphemeralParent),
        (|it| it.set("/data/shut", "", None), "/data/shut", ConditionProblem::NotAuthorized),
    ];
    for (build, path, problem) in cases {
        let transaction = guard.transaction().create("/data/first", "");
        let error = build(transaction).create("/data/last", "").commit().await.unwrap_err();
        assert_eq!(error, TransactionError::Condition { operation: 1, path: path.into(), problem });
        assert!(!exists(&operator, "/data/first").await);
    }
    assert!(guard.is_held());
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_not_sent() {
    let (_server, link, session) = linked_session(Duration::from_secs(20)).await;
    let guard = guard(&session).await;
    link.reset_counts();
    let node = guard.node();
    let sequential = NodeOptions::new().sequential();
    for (transaction, path) in [
        (guard.transaction().check("", None), ""),
        (guard.transaction().check("data", None), "data"),
        (guard.transaction().create("/data/", ""), "/data/"),
        (guard.transaction().create("/", ""), "/"),
        (guard.transaction().create_with("/", "", sequential.clone()), "/"),
        (guard.transaction().create_with("//", "", sequential.clone()), "//"),
        (guard.transaction().delete("/", None), "/"),
        (guard.transaction().set("/data", "", Some(-1)), "/data"),
        (guard.transaction().delete("/data", Some(-1)), "/data"),
        (guard.transaction().check("/data", Some(-1)), "/data"),
        (guard.transaction().delete(&node, None), &node),
        (guard.transaction().set("/lock/orders", "precious", None), "/lock/orders"),
        (guard.transaction().create_with("/lock/orders/lock-", "", sequential), "/lock/orders/lock-"),
    ] {
        is_invalid(transaction.check("/", None), path).await;
    }
    assert_eq!(link.requests_of(RequestKind::Multi), 0);
    assert_eq!(guard.transaction().check(&node, Some(0)).commit().await, Ok(vec![Applied::Checked]));
}

/// The transaction is refused because of its first operation, at this path.
async fn is_invalid(transaction: Transaction<'_>, path: &str) {
    match transaction.commit().await.unwrap_err() {
        TransactionError::Invalid { operation: 0, path: told, .. } => assert_eq!(told, path),
        other => panic!("{path:?}: {other}"),
    }
}

#[tokio::test]
async fn the_nodes_of_an_election_and_of_a_pool_are_left_alone() {
    let (_server, [session]) = sessions().await;
    let leads = session.election("/service").unwrap().campaign("one").await.unwrap();
    let permit = session.semaphore("/pool", 3).unwrap().acquire().await.unwrap();
    let (candidate, own, leader) = (leads.node(), permit.node(), "/service/leader");
    let sequential = NodeOptions::new().sequential();
    for (transaction, path) in [
        (leads.transaction().set(leader, "forged", None), leader),
        (leads.transaction().delete(leader, None), leader),
        (leads.transaction().create(leader, "forged"), leader),
        (leads.transaction().set("/service/queue", "", None), "/service/queue"),
        (leads.transaction().delete(&candidate, None), &candidate),
        (permit.transaction().delete(&own, None), &own),
        (permit.transaction().set("/pool/permits", "{}", None), "/pool/permits"),
        (
            permit.transaction().create_with("/pool/permits/permit-1-", "", sequential),
            "/pool/permits/permit-1-",
        ),
    ] {
        is_invalid(transaction, path).await;
    }
    leads.transaction().check(leader, Some(0)).create("/service/data", "mine").commit().await.unwrap();
    permit.transaction().check(&own, Some(0)).commit().await.unwrap();
}

#[tokio::test]
async fn nothing_is_written_after_the_lock_was_lost() {
    let (server, link, session) = linked_session(Duration::from_secs(20)).await;
    let operator = operator(&server).await;
    make(&operator, "/data").await;
    for (touch, verifies) in
        [("deleted", true), ("deleted", false), ("written", true), ("written", false), ("closed", true)]
    {
        let guard = guard(&session).await;
        let before = link.requests_of(RequestKind::Multi);
        assert_eq!(guard.verify().await, Ok(()));
        assert_eq!(link.requests_of(RequestKind::Multi), before + 1);
        assert_eq!(guard.transaction().commit().await, Ok(vec![]), "an empty one checks the lock");
        let node = guard.node();
        let mut reason = LostReason::NodeDeleted;
        match touch {
            "deleted" => operator.delete(&node, None).await.unwrap(),
            "written" => drop(operator.set_data(&node, b"", None).await.unwrap()),
            _ => {
                session.close().await.unwrap();
                reason = LostReason::SessionClosed;
            }
        }
        if verifies {
            assert_eq!(guard.verify().await.unwrap_err().reason, reason);
        }
        // Whether the holder's own watch is quicker than the answer, or not.
        for transaction in [guard.transaction().create("/data/a", ""), guard.transaction()] {
            assert!(is_lost(transaction.commit().await, reason));
        }
        assert!(!guard.is_held());
        assert!(!exists(&operator, "/data/a").await);
    }
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_transaction_whose_reply_was_lost_is_unknown() {
    let (server, link, session) = linked_session(Duration::from_secs(20)).await;
    let operator = operator(&server).await;
    make(&operator, "/data").await;
    let guard = guard(&session).await;
    let unknown = TransactionError::Unknown { path: "/lock/orders".into() };

    let lost = link.lose_reply(RequestKind::Multi);
    let answer = within("the answer", guard.transaction().create("/data/a", "").commit()).await;
    assert_eq!(answer, Err(unknown.clone()));
    within("the lost reply", lost.happened()).await;
    assert!(exists(&operator, "/data/a").await);

    // On the new connection the holder looks for its node first, and goes on.
    let applied = within("the answer", guard.transaction().set("/data/a", "", None).commit()).await;
    assert_eq!(applied, Ok(vec![Applied::Set { version: 1 }]));

    let held = link.hold_request(RequestKind::Multi);
    let (answer, ()) = tokio::join!(guard.transaction().create("/data/b", "").commit(), async {
        within("the transaction", held.reached()).await;
        link.cut();
    });
    assert_eq!(answer, Err(unknown));
    // A verification is repeated, and may be dropped.
    let lost = link.lose_reply(RequestKind::Multi);
    within("the answer", guard.verify()).await.unwrap();
    within("the lost reply", lost.happened()).await;
    assert!(!exists(&operator, "/data/b").await);
    assert!(support::Steps::new(guard.verify()).poll().is_pending());
    guard.verify().await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn transactions_extend_the_lease() {
    // Its heartbeats are ten seconds apart.
    let (_server, link, session) = linked_session(Duration::from_secs(50)).await;
    let guard = guard(&session).await;
    let before = link.requests_of(RequestKind::Multi);
    let (started, remaining, mut asked) = (Instant::now(), guard.remaining(), 0);
    support::eventually("a longer lease", async || {
        guard.transaction().commit().await.unwrap();
        asked += 1;
        guard.remaining() + started.elapsed() > remaining + Duration::from_millis(500)
    })
    .await;
    assert_eq!(link.requests_of(RequestKind::Multi) - before, asked, "no heartbeat did it");
}

#[tokio::test]
async fn the_holders_name_in_a_directory_that_was_made_anew_is_not_taken_for_its_node() {
    let server = server().await;
    let (other, operator) = (session(&server).await, operator(&server).await);
    make(&operator, "/data").await;
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let away = guard(&unlucky).await;
    let held = link.hold_reply(RequestKind::GetChildren);
    let lock = unlucky.lock("/lock/orders").unwrap();
    let (queue, ()) = tokio::join!(lock.contenders(), async {
        within("the question", held.reached()).await;
        link.refuse();
        link.cut();
    });
    queue.unwrap_err();
    // The connection's end was seen, so what is asked for now waits for the next one.
    let mut commit = support::Steps::new(away.transaction().create("/data/a", "").commit());
    let mut verify = support::Steps::new(away.verify());
    assert!(commit.poll().is_pending() && verify.poll().is_pending());
    operator.delete("/lock/orders/lock-0000000000", None).await.unwrap();
    operator.delete("/lock/orders", None).await.unwrap();
    let present = guard(&other).await;
    assert_eq!(present.node(), away.node());
    let outdated = away.sequencer().unwrap();
    assert_eq!(
        other.verify_sequencer(&outdated).await,
        Err(QueryError::Outdated { sequencer: outdated.clone() })
    );
    link.accept();
    let error = within("the loss", verify.finished()).await.unwrap_err();
    assert_eq!(error.reason, LostReason::NodeDeleted);
    assert!(is_lost(within("the answer", commit.finished()).await, LostReason::NodeDeleted));
    assert!(!exists(&operator, "/data/a").await);
    assert_eq!(present.verify().await, Ok(()));
    assert_eq!(other.verify_sequencer(&present.sequencer().unwrap()).await, Ok(()));
}

/// Whether a claim is told to be outdated.
async fn is_outdated(session: &Session, sequencer: &Sequencer) -> bool {
    match session.verify_sequencer(sequencer).await {
        Ok(()) => false,
        Err(QueryError::Outdated { sequencer: told }) => told == *sequencer,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_sequencer_that_was_tampered_with() {
    let (server, [session, verifier]) = sessions().await;
    let guard = guard(&session).await;
    let claim = guard.sequencer().unwrap().to_string();
    let [token, owner, number, path] = claim.splitn(4, ':').collect::<Vec<_>>()[..] else {
        panic!("{claim}")
    };
    for forged in [
        format!("{}:{owner}:{number}:{path}", guard.token().zxid() + 1),
        format!("{token}:{:x}:{number}:{path}", verifier.id()),
        format!("{token}:{owner}:1:{path}"),
        format!("{token}:{owner}:{number}:{path}/none"),
    ] {
        assert!(is_outdated(&verifier, &forged.parse().unwrap()).await, "{forged}");
    }
    let claim = claim.parse::<Sequencer>().unwrap();
    assert_eq!(verifier.verify_sequencer(&claim).await, Ok(()));
    // Which releases the lock.
    operator(&server).await.set_data(&guard.node(), b"", None).await.unwrap();
    assert!(is_outdated(&verifier, &claim).await);
}

#[tokio::test]
async fn a_transaction_and_a_sequencer_in_a_chroot() {
    let server = own_server().await;
    let chrooted = async |chroot: &str| {
        let session = Session::builder(format!("{}{chroot}", server.connect_string()));
        session.create_chroot().connect().await.expect("a session")
    };
    let guard = guard(&chrooted("/app/one").await).await;
    let applied = guard.transaction().create("/paid", "one").commit().await.unwrap();
    assert_eq!(applied, [Applied::Created { path: "/paid".into() }]);
    assert!(exists(&operator(&server).await, "/app/one/paid").await);
    let claim = guard.sequencer().unwrap();
    assert_eq!(claim.path(), "/app/one/lock/orders");
    for verifier in ["", "/app", "/app/one", "/not/there"] {
        assert_eq!(chrooted(verifier).await.verify_sequencer(&claim).await, Ok(()), "{verifier:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_cut_off_vouches_for_nothing() {
    let ensemble = Ensemble::builder(3).tick_time(Duration::from_secs(1)).start().await.expect("an ensemble");
    let alone = ensemble.followers().await.unwrap()[0];
    let others = (0..ensemble.len()).filter(|server| *server != alone);
    let others = others.map(|server| ensemble.address(server)).collect::<Vec<_>>().join(",");
    let holding = Session::connect(others).await.unwrap();
    let verifier = Session::connect(ensemble.address(alone)).await.unwrap();
    let onlooker = Client::connect(&ensemble.address(alone)).await.unwrap();
    let guard = guard(&holding).await;
    let (claim, node) = (guard.sequencer().unwrap(), guard.node());
    assert_eq!(verifier.verify_sequencer(&claim).await, Ok(()));
    ensemble.isolate(alone).await.unwrap();
    within("the release", guard.release()).await.unwrap();
    let stale = onlooker.get_data(&node).await.map(|(_, stat)| stat.czxid);
    assert_eq!(stale, Ok(claim.token().zxid()), "it still shows the node");
    let verdict = within("the verdict", verifier.verify_sequencer(&claim)).await;
    let open = matches!(verdict, Err(QueryError::Disconnected { .. } | QueryError::Unanswered { .. }));
    assert!(open, "{verdict:?}");
    ensemble.heal().await.unwrap();
    support::eventually("the truth", async || {
        let verdict = verifier.verify_sequencer(&claim).await;
        assert_ne!(verdict, Ok(()));
        verdict == Err(QueryError::Outdated { sequencer: claim.clone() })
    })
    .await;
}
