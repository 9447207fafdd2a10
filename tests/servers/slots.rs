//! Slots: their number, and what is refused.

use support::{sessions, until_nothing_is_left};
use zklock::Slots;
use zklock::semaphore::{InvalidPool, PoolError};

const PATH: &str = "/workers";

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
