//! A service that handles payments of accounts. Its tasks lock accounts by key, and hand a lock to each other inside the
//! process; another process has its turn in between. A method that holds the lock calls one that locks, too: the caller
//! gives it a share of its own guard.
//!
//!     cargo run --example registry -- 127.0.0.1:2181

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use zklock::{FenceGate, Guard, Locks, Session, fence::StaleToken};

const TASKS: u32 = 8;
const PAYMENTS: u32 = 5;
const ACCOUNT: &str = "alice@example.com";

type Failure = Box<dyn Error + Send + Sync>;

/// The balances by account, each with the gate that refuses late writes: of an earlier process, or of an earlier turn.
#[derive(Default)]
struct Balances(Mutex<HashMap<String, (FenceGate, u32)>>);

impl Balances {
    fn read(&self, account: &str) -> u32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(account).map_or(0, |(_, balance)| *balance)
    }

    fn write(&self, held: &Guard, account: &str, balance: u32) -> Result<(), StaleToken> {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (gate, stored) = accounts.entry(account.to_owned()).or_default();
        gate.admit(held.token())?;
        *stored = balance;
        Ok(())
    }
}

/// One process of the service.
#[derive(Clone)]
struct Service {
    accounts: Locks,
    balances: Arc<Balances>,
}

impl Service {
    /// Pays in one, under the lock of the account. A caller that holds the lock already gives a share of its guard.
    async fn pay(&self, account: &str, held: Option<Guard>) -> Result<(), Failure> {
        let held = match held {
            Some(share) => share,
            None => self.accounts.acquire(account).await?,
        };
        let balance = self.balances.read(account);
        // Without the lock, somebody would pay in meanwhile.
        held.run(tokio::task::yield_now()).await?;
        self.balances.write(&held, account, balance + 1)?;
        // With the last guard, the lock passes to the next task of this process, or to another process.
        held.release().await?;
        Ok(())
    }

    async fn pay_twice(&self, account: &str) -> Result<(), Failure> {
        let held = self.accounts.acquire(account).await?;
        self.pay(account, Some(held.another())).await?;
        self.pay(account, Some(held.another())).await?;
        held.release().await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".into());
    let balances = Arc::new(Balances::default());
    let mut tasks = Vec::new();
    for _process in 0..2 {
        // Each has a session of its own, as two processes have.
        let accounts = Session::connect(&servers).await?.locks("/lock/account")?;
        let service = Service { accounts, balances: balances.clone() };
        for task in 0..TASKS {
            let service = service.clone();
            tasks.push(tokio::spawn(async move {
                for _ in 0..PAYMENTS {
                    match task % 2 {
                        0 => service.pay(ACCOUNT, None).await?,
                        _ => service.pay_twice(ACCOUNT).await?,
                    }
                }
                Ok::<(), Failure>(())
            }));
        }
    }
    for task in tasks {
        task.await??;
    }
    println!("{} payments are booked", balances.read(ACCOUNT));
    Ok(())
}
