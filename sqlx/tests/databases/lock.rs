//! A fence behind a real lock.

use std::time::Duration;

use sqlx::PgPool;
use zklock::{Leadership, LostReason, ReadGuard, Session};
use zklock_sqlx::{Fence, FenceError, FencedTransaction};
use zklock_test_support::{enqueue, eventually, granted, linked_session, session, sessions, within};

use crate::place::{InPostgres, Place};

/// The state of order 7 is what the lock protects.
async fn set(transaction: &mut FencedTransaction<'_, sqlx::Postgres>, state: &str) {
    let query =
        sqlx::query("INSERT INTO ledger VALUES ('7', $1) ON CONFLICT (name) DO UPDATE SET entries = $1");
    query.bind(state).execute(&mut **transaction).await.unwrap();
}

async fn state(pool: &PgPool) -> String {
    sqlx::query_scalar("SELECT entries FROM ledger WHERE name = '7'").fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn a_holder_that_was_cut_off_past_its_sessions_end_is_refused() {
    let place = InPostgres::start("read\\ committed").await;
    let (server, link, cut_off) = linked_session(Duration::from_secs(4)).await;
    let fence = Fence::new("/lock/orders");
    let (old_link, new_link) = (place.connect().await, place.connect().await);

    let lock = cut_off.lock("/lock/orders").unwrap();
    let old = lock.acquire().await.unwrap();
    let sequencer = old.sequencer().unwrap();
    let mut paid = fence.begin(&old_link.pool, &old).await.unwrap();
    set(&mut paid, "paid").await;
    paid.commit().await.unwrap();
    let mut late = fence.begin(&old_link.pool, &old).await.unwrap();
    set(&mut late, "late").await;

    let next = session(&server).await;
    let waiter = enqueue(&next.lock("/lock/orders").unwrap()).await;
    link.black_hole();
    assert_eq!(within("the loss", old.lost()).await, LostReason::Unconfirmed);
    let new = granted(waiter).await;
    // The new holder waits for the transaction that is open, and that one is not committed any more.
    let (pool, token) = (new_link.pool.clone(), new.token());
    let begun = tokio::spawn({
        let fence = fence.clone();
        async move { fence.begin(&pool, token).await }
    });
    eventually("it waits", async || place.is_waiting(&new_link, 0).await).await;
    assert!(
        matches!(late.commit().await, Err(FenceError::Lost(lost)) if lost.reason == LostReason::Unconfirmed)
    );
    let mut shipped = within("the begin", begun).await.unwrap().unwrap();
    assert_eq!(state(&place.observer).await, "paid");
    set(&mut shipped, "shipped").await;
    shipped.commit().await.unwrap();

    // Its own process knows. Without that, and in another process, the database does.
    assert!(matches!(fence.begin(&old_link.pool, &old).await, Err(FenceError::Lost(_))));
    for refused in
        [fence.begin(&old_link.pool, old.token()).await, fence.begin(&old_link.pool, &sequencer).await]
    {
        let Err(FenceError::Stale { stale, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!((stale.token, stale.highest), (old.token(), new.token()));
    }
    assert_eq!(state(&place.observer).await, "shipped");
    let mut done = fence.begin(&new_link.pool, &new).await.unwrap();
    set(&mut done, "done").await;
    done.commit().await.unwrap();
    new.release().await.unwrap();
    others_begin(&next, &place.observer).await;
}

/// Two keys are two locks: what one holder's token is says nothing about the other's.
#[tokio::test]
async fn each_key_has_a_fence_of_its_own() {
    let place = InPostgres::start("read\\ committed").await;
    let (server, [session]) = sessions().await;
    let pool = &place.observer;
    let orders = session.locks("/orders").unwrap();
    let (older, younger) = (orders.acquire("7").await.unwrap(), orders.acquire("8").await.unwrap());

    for holder in [&younger, &older] {
        let fence = Fence::of(holder);
        fence.begin(pool, holder).await.unwrap().commit().await.unwrap();
        assert_eq!(fence, Fence::of(&holder.sequencer().unwrap()));
    }
    assert_eq!(Fence::of(&older), Fence::new(server.full("/orders/7")));

    let one = Fence::new("/orders");
    one.begin(pool, &younger).await.unwrap().commit().await.unwrap();
    let refused = one.begin(pool, &older).await.unwrap_err().to_string();
    assert!(refused.contains("if they are of two locks, give each lock a fence of its own"), "{refused}");

    older.release_all().await.unwrap();
}

/// Readers and leaders begin transactions, too.
async fn others_begin(session: &Session, pool: &PgPool) {
    let prices = session.rw_lock("/lock/prices").unwrap();
    let readers: [ReadGuard; 2] = [prices.read().await.unwrap(), prices.read().await.unwrap()];
    let fence = Fence::of(&readers[0]);
    // The later one comes first.
    for reader in [&readers[1], &readers[0]] {
        fence.begin(pool, reader).await.unwrap().commit().await.unwrap();
    }
    let leader: Leadership = session.election("/leader").unwrap().campaign("here").await.unwrap();
    Fence::of(&leader).begin(pool, &leader).await.unwrap().commit().await.unwrap();
}
