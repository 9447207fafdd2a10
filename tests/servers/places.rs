//! Waiters that read their places.

use futures::future::join_all;
use support::{sessions, within};
use tokio::sync::watch;
use zklock::inspect::Place;
use zklock::{LockOptions, Session};

use super::family::{FAMILY, Held, Member};

/// Waits until so many are in front at this path. Several locks tell of the one that was looked at last.
async fn are_ahead(of: &Member, place: &mut watch::Receiver<Option<Place>>, path: &str, ahead: usize) {
    let is_told =
        place.wait_for(|it| it.as_ref().is_some_and(|it| it.path.starts_with(path) && it.ahead == ahead));
    within(of.name, is_told).await.unwrap();
}

/// A holder, a waiter that gives up, and one behind it that learns of both.
async fn advances(member: Member, holder: &Session, waiter: &Session) {
    let path = format!("/places/{}", member.name);
    let held: Held = within("a hold", member.rival(holder, &path).acquire()).await.unwrap();
    // Who waits for room in a pool has no holder before it.
    let [none, one] = if member.is_pooled() { [0, 1] } else { [1, 2] };
    let (places, mut of_first) = watch::channel(None);
    let handle = member.rival_with(holder, &path, LockOptions::new().places(places));
    let first = tokio::spawn(async move { handle.acquire().await });
    are_ahead(&member, &mut of_first, &path, none).await;
    let (places, mut of_second) = watch::channel(None);
    let handle = member.handle_with(waiter, &path, LockOptions::new().places(places));
    let second = tokio::spawn(async move { handle.acquire().await });
    are_ahead(&member, &mut of_second, &path, one).await;
    first.abort();
    are_ahead(&member, &mut of_second, &path, none).await;
    held.release().await.unwrap();
    let held = within("a hold", second).await.unwrap().unwrap();
    assert_eq!(*of_second.borrow(), None, "{}", member.name);
    held.release().await.unwrap();
}

#[tokio::test]
async fn each_member_reads_its_place_as_it_advances() {
    let (_server, [holder, waiter]) = sessions().await;
    let all = FAMILY.iter().filter(|member| member.name != "key");
    join_all(all.map(|member| advances(*member, &holder, &waiter))).await;
}
