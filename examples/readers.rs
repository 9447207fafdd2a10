//! A price list that many read at once, and one writer changes alone. The store refuses those who come too late.
//!
//!     cargo run --example readers -- 127.0.0.1:2181 /lock/prices

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;
use zklock::{FenceGate, FencingToken, Guard, ReadGuard, Session, fence::StaleToken};

/// The prices, behind the same mutex as the gate that admits readers and writers.
#[derive(Default)]
struct Store {
    guarded: Mutex<(FenceGate, Vec<u32>)>,
}

impl Store {
    fn prices(&self, token: FencingToken) -> Result<Vec<u32>, StaleToken> {
        let mut guarded = self.guarded.lock().unwrap_or_else(PoisonError::into_inner);
        // Readers may hold the lock together, so a reader's token is refused only after that of a later writer.
        guarded.0.admit_shared(token)?;
        Ok(guarded.1.clone())
    }

    fn replace(&self, token: FencingToken, prices: Vec<u32>) -> Result<(), StaleToken> {
        let mut guarded = self.guarded.lock().unwrap_or_else(PoisonError::into_inner);
        guarded.0.admit(token)?;
        guarded.1 = prices;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".into());
    let path = arguments.next().unwrap_or_else(|| "/lock/prices".into());

    let session = Session::connect(servers).await?;
    let (lock, store) = (session.rw_lock(&path)?, Store::default());

    let writing = lock.write().await?;
    raise(&writing, &store, vec![100, 200]).await?;
    println!("a reader is let in beside the writer: {}", lock.try_read().await?.is_some());
    writing.release().await?;

    // In a real service each reader is a process of its own.
    let (one, other) = tokio::try_join!(lock.read(), lock.read())?;
    let holders = lock.contenders().await?.iter().filter(|contender| contender.holds).count();
    println!("readers that hold the lock at once: {holders}");
    // The writer waits until both have released it.
    let reading = async {
        for reader in [one, other] {
            println!("a reader sees {:?}", read(&reader, &store).await?);
            reader.release().await?;
        }
        Ok::<_, Box<dyn Error>>(())
    };
    let writing = async {
        let writing = lock.write().await?;
        raise(&writing, &store, vec![110, 220]).await?;
        writing.release().await?;
        Ok(())
    };
    tokio::try_join!(reading, writing)?;

    let last = lock.read().await?;
    println!("a reader sees {:?}", read(&last, &store).await?);
    last.release().await?;
    session.close().await?;
    Ok(())
}

/// Nobody can call this with the guard of a reader: that is a `ReadGuard`.
async fn raise(alone: &Guard, store: &Store, prices: Vec<u32>) -> Result<(), Box<dyn Error>> {
    // The work of a writer. `run` drops it the moment the guard is lost.
    alone.run(sleep(Duration::from_millis(20))).await?;
    store.replace(alone.token(), prices)?;
    Ok(())
}

async fn read(beside: &ReadGuard, store: &Store) -> Result<Vec<u32>, Box<dyn Error>> {
    let prices = store.prices(beside.token())?;
    // The work of a reader.
    beside.run(sleep(Duration::from_millis(20))).await?;
    Ok(prices)
}
