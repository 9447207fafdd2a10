//! What a guard rests on, what ended it, and that it is at risk.

use std::time::{Duration, Instant};

use futures::future::join_all;
use support::{linked_session, operator, within};
use zklock::LostReason;
use zklock_testcontainers::RequestKind;

use super::family::FAMILY;

/// With ticks of 100 ms: a heartbeat every 2,980 ms, and a lease of 10,920 ms.
const TIMEOUT: Duration = Duration::from_secs(12);

/// A server that falls silent, one that answers again, and one that goes for good, as each member of the family sees it.
#[tokio::test]
async fn each_member_is_told_of_the_risk_of_its_end_and_of_the_reason() {
    let (_server, link, session) = linked_session(TIMEOUT).await;
    let held = join_all(FAMILY.iter().map(|member| {
        let handle = member.handle(&session, &format!("/risk/{}", member.name));
        async move { (member.name, within(member.name, handle.acquire()).await.unwrap()) }
    }))
    .await;
    let heartbeat = session.heartbeat();
    for (name, held) in &held {
        let it = held.guard().explain();
        assert_eq!((it.end, it.is_node_seen, it.connection), (None, true, Some(0)), "{name}: {it}");
        assert_eq!((it.session, it.token, it.timeout), (session.id(), held.guard().token(), TIMEOUT));
        assert_eq!((it.paths.len(), &it.nodes), (held.guard().paths().count(), &held.nodes()));
        assert!(it.remaining + it.confirmed <= it.validity && it.validity < TIMEOUT, "{name}: {it:?}");
        within("safe", held.guard().safe()).await.unwrap();
    }

    link.black_hole();
    let lefts = join_all(held.iter().map(|(_, held)| within("the risk", held.guard().at_risk()))).await;
    for ((name, held), left) in held.iter().zip(lefts) {
        let it = held.guard().explain();
        assert!(it.end.is_none() && it.to_string().contains(": held;"), "{name}: {it}");
        assert!(it.answered > heartbeat || it.connection.is_none(), "{name}: {it}");
        assert!(left > session.longest_stop_margin(), "{name}: {left:?} is left");
    }
    link.restore();
    let safe = join_all(held.iter().map(|(_, held)| within("safety", held.guard().safe()))).await;
    for ((name, held), safe) in held.iter().zip(safe) {
        let it = held.guard().explain();
        assert_eq!((safe, it.is_node_seen), (Ok(()), true), "{name}: {it}");
        assert!(it.answered < heartbeat * 3 / 2, "{name}: {it}");
    }

    link.black_hole();
    for (name, held) in &held {
        within("the risk", held.guard().at_risk()).await;
        let reason = within("the loss", held.lost()).await;
        let it = held.guard().explain();
        assert_eq!(it.end.map(|end| end.reason), Some(reason), "{name}: {it}");
        assert!(it.to_string().contains("lease: over for this guard; as of now, "), "{name}: {it}");
        assert_eq!(it.remaining, Duration::ZERO, "{name}");
        assert!(it.to_string().contains(&format!(" ago: {reason}")), "{name}: {it}");
        assert_eq!(within("the risk", held.guard().at_risk()).await, Duration::ZERO);
        assert_eq!(within("the end", held.guard().safe()).await.unwrap_err().reason, reason);
    }
}

/// A connection that is lost is a risk at once; an operator's deletion is the end at once.
#[tokio::test]
async fn a_lost_connection_is_a_risk_at_once() {
    let (server, link, session) = linked_session(TIMEOUT).await;
    let guard = session.lock("/risk/orders").unwrap().acquire().await.unwrap();
    link.refuse();
    link.cut();
    let left = within("the risk", guard.at_risk()).await;
    assert!(left > session.heartbeat() + session.longest_stop_margin(), "{left:?} is left");
    assert!(guard.explain().to_string().contains("not connected"), "{}", guard.explain());
    link.accept();
    within("safety", guard.safe()).await.unwrap();
    assert_eq!(guard.explain().connection, Some(1));
    // While heartbeats succeed, there is no risk.
    let (risk, before) = (tokio::spawn(guard.at_risk()), link.requests_of(RequestKind::Multi));
    support::eventually("two heartbeats", async || link.requests_of(RequestKind::Multi) > before + 1).await;
    assert!(!risk.is_finished());
    operator(&server).await.delete(&guard.node(), None).await.unwrap();
    assert_eq!(within("the end", risk).await.unwrap(), Duration::ZERO);
    assert_eq!(guard.explain().end.unwrap().reason, LostReason::NodeDeleted);
    assert_eq!(guard.explain().end.unwrap().ago.map(|ago| ago < TIMEOUT), Some(true));
}

/// zklock leaves a silent server after two fifths of the session timeout, and that is late for a holder.
#[tokio::test]
async fn an_overdue_heartbeat_is_a_risk_while_the_connection_stands() {
    let (_server, link, session) = linked_session(Duration::from_secs(60)).await;
    let guard = session.lock("/risk/orders").unwrap().acquire().await.unwrap();
    link.black_hole();
    let left = within("the risk", guard.at_risk()).await;
    assert!(
        left > session.longest_stop_margin() + session.heartbeat() / 2,
        "{left:?} is left\n{}",
        guard.explain()
    );
    assert_eq!(guard.explain().connection, Some(0));
}

/// Nobody awaits the loss, so nothing notes it before somebody looks.
#[tokio::test]
async fn an_end_that_nobody_awaited_counts_from_the_end_of_the_lease() {
    let (_server, link, session) = linked_session(Duration::from_secs(4)).await;
    let awaited = session.lock("/risk/awaited").unwrap().acquire().await.unwrap();
    let alone = session.lock("/risk/alone").unwrap().acquire().await.unwrap();
    link.black_hole();
    assert_eq!(within("the loss", awaited.lost()).await, LostReason::Unconfirmed);
    let since = Instant::now();
    support::eventually("a while", async || since.elapsed() > Duration::from_millis(500)).await;
    let end = alone.explain().end.unwrap();
    assert_eq!(end.reason, LostReason::Unconfirmed);
    assert!(end.ago.unwrap() > Duration::from_millis(450), "{end:?}");
}
