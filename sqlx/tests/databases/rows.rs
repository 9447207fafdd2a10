//! What the statements of a fence meet: rows that others make and change, callers that go away, databases that are busy.

use std::time::Duration;

use sqlx::sqlite::SqliteJournalMode;
use sqlx::{Acquire, PgConnection, PgPool, Pool, Row, Transaction};
use zklock::FencingToken;
use zklock::fence::StaleToken;
use zklock_sqlx::{Fence, FenceDatabase, FenceError, FencedTransaction, Holder, migrate};
use zklock_test_support::{dropped_after, eventually, within};

use crate::place::{InPostgres, InSqlite, Place};
use crate::postgres::Server;

const OLD: FencingToken = FencingToken::new(7);
const NEW: FencingToken = FencingToken::new(9);

/// Whether this was refused because of the higher token.
fn is_stale<T: std::fmt::Debug>(result: Result<T, FenceError>, highest: FencingToken) -> bool {
    match result {
        Err(FenceError::Stale { fence, stale: StaleToken { token, highest: seen, .. } }) => {
            (fence.as_str(), token, seen) == ("orders", OLD, highest)
        }
        other => panic!("{other:?}"),
    }
}

fn orders() -> Fence {
    Fence::new("orders")
}

/// Begins for the old holder while somebody else has the row or makes it, and waits until Postgres has that wait.
async fn begin_behind(
    place: &InPostgres,
    statement: &str,
    ends: &str,
) -> Result<FencedTransaction<'static, sqlx::Postgres>, FenceError> {
    let (other, link) = (place.server.pool(1, &[]), place.connect().await);
    let mut other = other.acquire().await.unwrap();
    sqlx::query("BEGIN").execute(&mut *other).await.unwrap();
    sqlx::query(statement).execute(&mut *other).await.unwrap();
    let pool = link.pool.clone();
    let begun = tokio::spawn(async move { orders().begin(&pool, OLD).await });
    eventually("it waits", async || place.is_waiting(&link, 0).await).await;
    sqlx::query(ends).execute(&mut *other).await.unwrap();
    within("the answer", begun).await.unwrap()
}

#[tokio::test]
async fn the_row_is_judged_as_it_is_when_the_wait_is_over() {
    let place = InPostgres::start("read\\ committed").await;
    let insert = "INSERT INTO zklock_fences (name, zxid) VALUES ('orders', 9)";
    begin_behind(&place, insert, "ROLLBACK").await.unwrap().rollback().await.unwrap();
    sqlx::query("DELETE FROM zklock_fences").execute(&place.observer).await.unwrap();
    assert!(is_stale(begin_behind(&place, insert, "COMMIT").await, NEW));
    sqlx::query("UPDATE zklock_fences SET zxid = 0").execute(&place.observer).await.unwrap();
    let update = "UPDATE zklock_fences SET zxid = 9";
    begin_behind(&place, update, "ROLLBACK").await.unwrap().rollback().await.unwrap();
    assert!(is_stale(begin_behind(&place, update, "COMMIT").await, NEW));
    // A reader's token, seen by a writer.
    sqlx::query("UPDATE zklock_fences SET zxid = 0").execute(&place.observer).await.unwrap();
    let update = "UPDATE zklock_fences SET shared_zxid = 7, shared_turn = 1";
    assert!(is_stale(begin_behind(&place, update, "COMMIT").await, FencingToken::of_turn(7, 1)));
}

/// Without a bound, Postgres fails at the row's first insertion: the name does not fit into its index.
#[tokio::test]
async fn a_name_that_no_index_takes_is_refused() {
    let place = InPostgres::start("read\\ committed").await;
    // Postgres compresses names, but not such ones.
    let name = |length: usize| {
        let words = (0_u64..).map(|number| format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let name = words.flat_map(|word| word.chars().rev().collect::<Vec<_>>());
        name.take(length).collect::<String>()
    };
    Fence::new(name(2600)).claim(&place.observer, NEW).await.unwrap();
    let refused = Fence::new("orders").and(name(2800)).claim(&place.observer, NEW).await.unwrap_err();
    assert!(matches!(refused, FenceError::NameTooLong { length: 2800, longest: 2600 }), "{refused:?}");
}

#[tokio::test]
async fn a_conflict_can_be_repeated_and_a_wait_has_a_limit() {
    let place = InPostgres::start("serializable").await;
    orders().claim(&place.observer, FencingToken::new(1)).await.unwrap();
    let update = "UPDATE zklock_fences SET zxid = 9";
    let conflict = begin_behind(&place, update, "COMMIT").await.unwrap_err();
    assert!(conflict.is_retryable(), "{conflict:?}");
    assert!(is_stale(orders().begin(&place.observer, OLD).await, NEW));

    let holder = orders().begin(&place.observer, NEW).await.unwrap();
    let impatient = place.server.pool(1, &[("lock_timeout", "20ms")]);
    let timeout = orders().begin(&impatient, NEW).await.unwrap_err();
    assert!(timeout.is_retryable(), "{timeout:?}");
    holder.commit().await.unwrap();
    orders().begin(&impatient, NEW).await.unwrap().commit().await.unwrap();
}

/// What holds in both databases, with several connections in the pool.
async fn keeps_its_word<DB: FenceDatabase>(pool: &Pool<DB>) {
    // A rollback and a drop leave the token.
    orders().begin(pool, NEW).await.unwrap().rollback().await.unwrap();
    assert!(is_stale(orders().begin(pool, OLD).await, NEW));
    drop(orders().begin(pool, NEW).await.unwrap());
    assert!(is_stale(orders().claim(pool, OLD).await, NEW));
    // The same holder comes again.
    orders().begin(pool, NEW).await.unwrap().commit().await.unwrap();

    // Of two fences, one refuses; the other one keeps no token of that.
    let both = Fence::new("stock").and("orders");
    assert!(is_stale(both.begin(pool, OLD).await, NEW));
    Fence::new("stock").claim(pool, FencingToken::new(1)).await.unwrap();
    both.claim(pool, FencingToken::new(10)).await.unwrap();
    assert!(Fence::new("stock").begin(pool, NEW).await.is_err());

    // Readers come in any order, between writers.
    let shared = Fence::new("shared");
    for token in [11, 13, 12] {
        shared.claim(pool, Holder::reader(FencingToken::new(token))).await.unwrap();
    }
    assert!(shared.begin(pool, FencingToken::new(12)).await.is_err());
    shared.claim(pool, FencingToken::new(14)).await.unwrap();
    assert!(shared.begin(pool, Holder::reader(FencingToken::new(13))).await.is_err());
    let sequencer = |text: &str| text.parse::<zklock::Sequencer>().unwrap();
    shared.claim(pool, &sequencer("15:a:r4:/lock/orders")).await.unwrap();
    assert!(shared.begin(pool, &sequencer("14:a:3:/lock/orders")).await.is_err());
}

/// A caller that goes away at any point leaves nothing locked.
async fn can_be_dropped<P: Place>(place: &P) {
    let (pool, fence) = (place.connect().await.pool, Fence::new("dropped"));
    let mut dropped = 0;
    for token in (0..8).map(FencingToken::new) {
        let polls = 1 + usize::try_from(token.zxid()).unwrap();
        dropped += u32::from(!dropped_after(polls, fence.begin(&pool, token)).await);
        let next = fence.begin(&pool, token);
        within("the next transaction", next).await.unwrap().commit().await.unwrap();
    }
    // How often it awaits depends on how fast the replies come.
    assert!(dropped > 0);
}

#[tokio::test]
async fn postgres_keeps_its_word() {
    let place = InPostgres::start("read\\ committed").await;
    keeps_its_word(&place.server.pool(3, &[])).await;
    can_be_dropped(&place).await;
}

#[tokio::test]
async fn sqlite_keeps_its_word() {
    let place = InSqlite::create(SqliteJournalMode::Wal).await;
    keeps_its_word(&place.connect().await.pool).await;
    can_be_dropped(&place).await;

    let [holder, other] = [place.connect().await, place.connect().await];
    let open = orders().begin(&holder.pool, FencingToken::new(20)).await.unwrap();
    InSqlite::set_patient(&mut *other.pool.acquire().await.unwrap(), false).await;
    let busy = orders().begin(&other.pool, FencingToken::new(20)).await.unwrap_err();
    assert!(busy.is_retryable(), "{busy:?}");
    drop(open);
}

#[tokio::test]
async fn the_table_is_made_once_by_all_who_start() {
    let server = Server::start().await;
    let pool = server.pool(8, &[]);
    let missing = orders().begin(&pool, NEW).await.unwrap_err();
    assert!(!missing.is_retryable(), "{missing:?}");
    for _ in 0..2 {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                tokio::spawn({
                    let pool = pool.clone();
                    async move { migrate(&pool).await }
                })
            })
            .collect();
        for task in tasks {
            within("the table", task).await.unwrap().unwrap();
        }
    }
    is_used_as_sqlx_own(&pool).await;
}

/// Code for sqlx's connections and transactions takes it.
async fn is_used_as_sqlx_own(pool: &PgPool) {
    async fn count(connection: &mut PgConnection) -> i64 {
        sqlx::query("SELECT count(*) FROM zklock_fences").fetch_one(connection).await.unwrap().get(0)
    }
    async fn within_its_own(transaction: &mut Transaction<'_, sqlx::Postgres>) {
        let savepoint = transaction.begin().await.unwrap();
        savepoint.rollback().await.unwrap();
    }
    fn is_send<T: Send>(it: T) -> T {
        it
    }
    let mut transaction = is_send(orders().begin(pool, NEW)).await.unwrap();
    assert_eq!(transaction.token(), NEW);
    assert_eq!(count(&mut transaction).await, 1);
    let mut savepoint = transaction.begin().await.unwrap();
    sqlx::query("DELETE FROM zklock_fences").execute(&mut *savepoint).await.unwrap();
    savepoint.rollback().await.unwrap();
    within_its_own(transaction.as_transaction()).await;
    // The row is still locked.
    let impatient = tokio::time::timeout(Duration::from_millis(50), orders().begin(pool, NEW)).await;
    assert!(impatient.is_err());
    is_send(transaction.commit()).await.unwrap();
}
