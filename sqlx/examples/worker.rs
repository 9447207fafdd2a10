//! Pays orders, each once, though several workers run: a lock keeps them apart, and the database refuses a worker that was paused and
//! writes too late.
//!
//!     cargo run -p zklock-sqlx --example worker -- 127.0.0.1:2181 /lock/orders orders.db

use std::error::Error;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Sqlite, SqlitePool};
use zklock::Session;
use zklock_sqlx::{Fence, FenceError, FencedTransaction};

const ORDERS: &str = "
    CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL);
    INSERT OR IGNORE INTO orders VALUES (1, 'new'), (2, 'new'), (3, 'new')";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".into());
    let path = arguments.next().unwrap_or_else(|| "/lock/orders".into());
    let file = arguments.next().unwrap_or_else(|| "orders.db".into());

    let pool =
        SqlitePool::connect_with(SqliteConnectOptions::new().filename(file).create_if_missing(true)).await?;
    zklock_sqlx::migrate(&pool).await?;
    sqlx::raw_sql(ORDERS).execute(&pool).await?;

    Session::with(servers, async |session| {
        let lock = session.lock(&path)?;
        loop {
            let guard = lock.acquire().await?;
            // An error here says that a later holder has been in the database, so this worker is late.
            let mut transaction = Fence::of(&guard).begin(&pool, &guard).await?;
            let paid = pay_next(&mut transaction).await?;
            transaction.commit().await?;
            guard.release().await?;
            match paid {
                Some(order) => println!("paid {order}"),
                None => return Ok(()),
            }
        }
    })
    .await
}

/// Pays the oldest order, and returns its number. Nobody can call it without a token.
async fn pay_next(transaction: &mut FencedTransaction<'_, Sqlite>) -> Result<Option<i64>, FenceError> {
    let next = "UPDATE orders SET state = 'paid' WHERE id = (SELECT min(id) FROM orders WHERE state = 'new') RETURNING id";
    Ok(sqlx::query_scalar(next).fetch_optional(&mut **transaction).await?)
}
