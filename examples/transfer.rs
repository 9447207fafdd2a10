//! Transfers between two accounts, each behind a lock of its own. A transfer acquires both locks at once, so transfers in
//! opposite directions do not deadlock, whichever account they name first.
//!
//!     cargo run --example transfer -- 127.0.0.1:2181

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;
use zklock::{FenceGate, MultiGuard, Session, fence::StaleToken};

const TRANSFERS: u32 = 10;
const ALICE: &str = "/lock/account/alice";
const BOB: &str = "/lock/account/bob";

/// The balances by their locks, each with the gate that refuses late writes.
struct Bank {
    accounts: Mutex<HashMap<&'static str, (FenceGate, i64)>>,
}

impl Bank {
    fn balance(&self, account: &str) -> i64 {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)[account].1
    }

    /// Writes both balances or none. The guard has one token for both accounts.
    fn write(&self, held: &MultiGuard, balances: [(&'static str, i64); 2]) -> Result<(), StaleToken> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        for (account, _) in balances {
            accounts.entry(account).or_default().0.admit(held.token())?;
        }
        for (account, balance) in balances {
            accounts.entry(account).or_default().1 = balance;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".into());
    let accounts = [ALICE, BOB].map(|account| (account, (FenceGate::new(), 100)));
    let bank = Arc::new(Bank { accounts: Mutex::new(accounts.into()) });

    // Each direction has a session of its own, as on two machines.
    let (one, other) = (Session::connect(&servers).await?, Session::connect(&servers).await?);
    let there = tokio::spawn(transfer(one, bank.clone(), [ALICE, BOB], 3));
    let back = tokio::spawn(transfer(other, bank.clone(), [BOB, ALICE], 2));
    there.await??;
    back.await??;

    println!("alice has {}, bob has {}", bank.balance(ALICE), bank.balance(BOB));
    Ok(())
}

async fn transfer(
    session: Session,
    bank: Arc<Bank>,
    [from, to]: [&'static str; 2],
    amount: i64,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let both = session.lock_all([from, to])?;
    for _ in 0..TRANSFERS {
        let held = both.acquire().await?;
        let balances = [(from, bank.balance(from) - amount), (to, bank.balance(to) + amount)];
        // Without the locks, the other direction would change the balances meanwhile.
        held.run(sleep(Duration::from_millis(10))).await?;
        bank.write(&held, balances)?;
        held.release().await?;
    }
    session.close().await?;
    Ok(())
}
