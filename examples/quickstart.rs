//! Acquires a lock, does some work, and releases the lock.
//!
//!     cargo run --example quickstart -- 127.0.0.1:2181 /lock/orders

use std::error::Error;

use zklock::Session;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".into());
    let path = arguments.next().unwrap_or_else(|| "/lock/orders".into());

    // However the block ends, the session is closed, so that the next contender need not wait until it expires.
    Session::with(servers, async |session| {
        let guard = session.lock(&path)?.acquire().await?;
        println!("holding {} with token {}", guard.node(), guard.token());

        // The work that nobody else may do at the same time goes in here. `run` drops it the moment the guard is lost. Each
        // process that acquires the lock does the work. For work that only one of them may do, see `Session::once`.
        guard.run(async { println!("inside") }).await?;

        Ok(guard.release().await?)
    })
    .await
}
