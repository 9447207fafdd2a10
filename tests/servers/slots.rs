//! Slots: which index is claimed, and by whom.

use std::time::Duration;

use support::{sessions, until_nothing_is_left};
use zklock::semaphore::{InvalidPool, PoolError};
use zklock::{Slots, inspect::Kind};

const PATH: &str = "/workers";

/// The indices that are held.
async fn held(slots: &Slots) -> Vec<u32> {
    let index = |kind| match kind {
        Kind::Slot(index) => index,
        other => panic!("{other:?}"),
    };
    slots.slots().await.unwrap().slots.iter().map(|slot| index(slot.kind)).collect()
}

#[tokio::test]
async fn the_lowest_free_index_or_the_preferred_one() {
    let (server, [session]) = sessions().await;
    let slots = session.slots(PATH, 4).unwrap();
    assert_eq!(slots.slots().await.unwrap().count, None);
    let (zero, one) = (slots.acquire().await.unwrap(), slots.acquire().await.unwrap());
    assert_eq!((zero.index(), one.index(), one.path()), (0, 1, PATH));
    assert_eq!(zero.node(), "/workers/permits/slot-0-0000000000");
    let three = slots.preferring(3).acquire().await.unwrap();
    assert_eq!(three.index(), 3);
    zero.release().await.unwrap();
    let again = slots.preferring(1).acquire().await.unwrap();
    assert_eq!(again.index(), 0, "1 is taken");
    let two = slots.preferring(2).try_acquire().await.unwrap().unwrap();
    assert_eq!(two.index(), 2);
    assert!(slots.try_acquire().await.unwrap().is_none());
    assert!(slots.acquire_timeout(Duration::from_millis(100)).await.unwrap().is_none());
    assert!(one.token() < three.token() && again.token() < two.token());
    two.verify().await.unwrap();
    assert_eq!((slots.slots().await.unwrap().count, held(&slots).await), (Some(4), vec![1, 3, 0, 2]));
    drop((one, two, three, again));
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn what_is_not_there_is_refused() {
    let (server, [session]) = sessions().await;
    assert_eq!(session.slots(PATH, 0).unwrap_err(), InvalidPool::Nothing { path: PATH.into() });
    let error = session.slots(PATH, Slots::LARGEST_COUNT + 1).unwrap_err();
    assert!(matches!(error, InvalidPool::TooManySlots { .. }), "{error}");
    let slots = session.slots(PATH, 4).unwrap();
    let error = PoolError::Index { path: PATH.into(), index: 4, count: 4 };
    assert_eq!(slots.preferring(4).acquire().await.unwrap_err(), error);
    assert_eq!(error.to_string(), "/workers has no slot 4, because it has 4 slots; prefer an index below 4");
    slots.acquire().await.unwrap().release().await.unwrap();
    let error = session.slots(PATH, 5).unwrap().acquire().await.unwrap_err();
    assert_eq!(error, PoolError::Count { path: PATH.into(), stated: 5, found: 4 });
    assert!(slots.set_count(0).await.is_err());
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn their_number_can_be_changed() {
    let (_server, [session]) = sessions().await;
    let slots = session.slots(PATH, 2).unwrap();
    let (zero, one) = (slots.acquire().await.unwrap(), slots.acquire().await.unwrap());
    slots.set_count(1).await.unwrap();
    assert!(zero.is_held() && one.is_held());
    zero.release().await.unwrap();
    assert!(slots.try_acquire().await.unwrap().is_none(), "one is held, and there is one");
    one.release().await.unwrap();
    let zero = slots.try_acquire().await.unwrap().expect("0 is free, and below the new number");
    assert_eq!((zero.index(), slots.count()), (0, 1));
    slots.set_count(3).await.unwrap();
    assert_eq!(slots.acquire().await.unwrap().index(), 1);
}
