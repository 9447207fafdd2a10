//! Waiters that hear their places.

use std::sync::{Arc, Mutex};

use futures::future::join_all;
use support::{eventually, sessions, within};
use zklock::Session;
use zklock::inspect::{Place, places};

use super::family::{FAMILY, Held, Member};

/// The places that a call of [`Heard::by`] was told so far.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<usize>>>);

impl Heard {
    /// Acquires at this path, and hears its places there.
    async fn by<T>(self, path: String, acquiring: impl Future<Output = T>) -> T {
        let told = move |place: Place| {
            if place.path == path {
                self.0.lock().unwrap().push(place.ahead);
            }
        };
        places(acquiring, told).await
    }

    async fn until(&self, what: &str, last: usize) {
        eventually(what, async || self.0.lock().unwrap().last() == Some(&last)).await;
    }
}

/// A holder, a waiter that gives up, and one behind it that hears of both.
async fn advances(member: Member, holder: &Session, waiter: &Session) {
    let (name, path) = (member.name, format!("/places/{}", member.name));
    let held: Held = within("a hold", member.rival(holder, &path).acquire()).await.unwrap();
    // Who waits for room in a pool has no holder before it.
    let [none, one] = if member.is_pooled() { [0, 1] } else { [1, 2] };
    let (by_first, by_second) = (Heard::default(), Heard::default());
    let first = tokio::spawn(by_first.clone().by(path.clone(), member.rival(holder, &path).acquire()));
    by_first.until(name, none).await;
    let second = tokio::spawn(by_second.clone().by(path.clone(), member.handle(waiter, &path).acquire()));
    by_second.until(name, one).await;
    first.abort();
    by_second.until(name, none).await;
    held.release().await.unwrap();
    within("a hold", second).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(*by_second.0.lock().unwrap(), [one, none], "{name}");
}

#[tokio::test]
async fn each_member_hears_its_place_as_it_advances() {
    let (_server, [holder, waiter]) = sessions().await;
    let all = FAMILY.iter().filter(|member| member.name != "key");
    join_all(all.map(|member| advances(*member, &holder, &waiter))).await;
}
