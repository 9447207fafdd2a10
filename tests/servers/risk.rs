//! A guard that is at risk, safe again, and lost.

use std::time::{Duration, Instant};

use futures::future::join_all;
use support::{linked_session, operator, within};
use zklock::{LostReason, SessionState};
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
    let (heartbeat, longest) = (session.heartbeat(), session.longest_validity());
    assert!(session.timeout() == TIMEOUT && longest < TIMEOUT, "{longest:?}");
    for (name, held) in &held {
        let left = held.guard().remaining();
        assert!(held.is_held() && left <= longest, "{name}: {left:?} is left");
        within("safe", held.guard().safe()).await.unwrap();
    }

    link.black_hole();
    let silent = Instant::now();
    let lefts = join_all(held.iter().map(|(_, held)| within("the risk", held.guard().at_risk()))).await;
    for ((name, held), left) in held.iter().zip(lefts) {
        assert!(held.is_held(), "{name}");
        // The last heartbeat that was answered may have been sent a heartbeat ago.
        assert!(silent.elapsed() > heartbeat / 3, "{name}: {:?}", silent.elapsed());
        assert!(left > session.longest_stop_margin(), "{name}: {left:?} is left");
    }
    link.restore();
    let safe = join_all(held.iter().map(|(_, held)| within("safety", held.guard().safe()))).await;
    for ((name, held), safe) in held.iter().zip(safe) {
        assert_eq!(safe, Ok(()), "{name}");
        let left = held.guard().remaining();
        assert!(left > session.longest_stop_margin(), "{name}: {left:?} is left");
    }

    link.black_hole();
    for (name, held) in &held {
        within("the risk", held.guard().at_risk()).await;
        let reason = within("the loss", held.lost()).await;
        assert_eq!(held.guard().check().unwrap_err().reason, reason, "{name}");
        assert_eq!(held.guard().remaining(), Duration::ZERO, "{name}");
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
    assert_eq!(session.state(), SessionState::Disconnected);
    link.accept();
    within("safety", guard.safe()).await.unwrap();
    assert_eq!(session.state(), SessionState::Connected);
    // While heartbeats succeed, there is no risk.
    let (risk, before) = (tokio::spawn(guard.at_risk()), link.requests_of(RequestKind::Multi));
    support::eventually("two heartbeats", async || link.requests_of(RequestKind::Multi) > before + 1).await;
    assert!(!risk.is_finished());
    operator(&server).await.delete(&guard.node(), None).await.unwrap();
    assert_eq!(within("the end", risk).await.unwrap(), Duration::ZERO);
    assert_eq!(guard.check().unwrap_err().reason, LostReason::NodeDeleted);
}

/// zklock leaves a silent server after two fifths of the session timeout, and that is late for a holder.
#[tokio::test]
async fn an_overdue_heartbeat_is_a_risk_while_the_connection_stands() {
    let (_server, link, session) = linked_session(Duration::from_secs(60)).await;
    let guard = session.lock("/risk/orders").unwrap().acquire().await.unwrap();
    link.black_hole();
    let left = within("the risk", guard.at_risk()).await;
    assert!(left > session.longest_stop_margin() + session.heartbeat() / 2, "{left:?} is left");
    assert_eq!(session.state(), SessionState::Connected);
}
