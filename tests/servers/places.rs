//! Waiters that hear their places.

use std::sync::{Arc, Mutex};

use futures::future::join_all;
use support::{eventually, operator, sessions, within};
use zklock::Session;

use super::family::{FAMILY, Member};

/// A holder, a waiter that gives up, and one behind it that hears of both.
async fn heard(
    member: Member,
    holder: &Session,
    waiter: &Session,
    children: impl AsyncFn(usize),
) -> Vec<usize> {
    let path = format!("/places/{}", member.name);
    let held = within("a hold", member.rival(holder, &path).acquire()).await.unwrap();
    let [by_first, heard] = [(); 2].map(|()| Arc::new(Mutex::new(Vec::new())));
    let told = |heard: &Arc<Mutex<Vec<usize>>>| {
        let (heard, path) = (heard.clone(), path.clone());
        move |place: zklock::inspect::Place| {
            if place.path == path {
                heard.lock().unwrap().push(place.ahead);
            }
        }
    };
    let mut first = Box::pin(zklock::inspect::places(member.rival(holder, &path).acquire(), told(&by_first)));
    assert!(futures::poll!(&mut first).is_pending());
    let first = tokio::spawn(first);
    children(1).await;
    let in_front = if member.is_pooled() { 0 } else { 1 };
    eventually(member.name, async || *by_first.lock().unwrap() == [in_front]).await;
    let second = member.handle(waiter, &path).acquire();
    let second = tokio::spawn(zklock::inspect::places(second, told(&heard)));
    let last = async |ahead| {
        eventually(member.name, async || heard.lock().unwrap().last() == Some(&ahead)).await;
    };
    let (both, one) = if member.is_pooled() { (1, 0) } else { (2, 1) };
    last(both).await;
    first.abort();
    last(one).await;
    held.release().await.unwrap();
    within("a hold", second).await.unwrap().unwrap().release().await.unwrap();
    heard.lock().unwrap().clone()
}

#[tokio::test]
async fn each_member_hears_its_place_as_it_advances() {
    let (server, [holder, waiter]) = sessions().await;
    let operator = operator(&server).await;
    let all = FAMILY.iter().filter(|member| member.name != "key");
    join_all(all.map(async |member| {
        let path = format!("/places/{}", member.name);
        // The first waiter is in the queue once that has one contender more than the holder alone.
        let waits = async |more: usize| {
            let queue = if member.is_pooled() || member.name == "election" {
                format!("{path}/queue")
            } else {
                path.clone()
            };
            let least = if member.is_pooled() { more } else { more + 1 };
            let there = async || operator.list_children(&queue).await.is_ok_and(|all| all.len() >= least);
            eventually("a waiter", there).await;
        };
        let expected = if member.is_pooled() { [1, 0] } else { [2, 1] };
        assert_eq!(heard(*member, &holder, &waiter, waits).await, expected, "{}", member.name);
    }))
    .await;
}
