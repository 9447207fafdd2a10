//! A service that runs only while it leads: on one of many machines at a time.
//!
//!     cargo run --example leader -- 127.0.0.1:2181 /lock/leader
//!
//! Start it twice. The second one takes over within milliseconds when the first is told to stop (SIGTERM, as an
//! orchestrator sends it, or Ctrl-C), and after a session timeout when it is killed.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::interval;
use zklock::{FencingToken, LockOptions, Session};

/// How long the service may take to finish what it is at, before its lead is over.
const WIND_DOWN: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".into());
    let path = arguments.next().unwrap_or_else(|| "/lock/leader".into());

    // Before anything else, so that no signal finds us unprepared.
    let mut stop = pin!(told_to_stop()?);
    let session = Session::connect(servers).await?;
    let lock = session.lock_with(&path, LockOptions::new().stop_margin(WIND_DOWN))?;

    loop {
        println!("standing by");
        let guard = tokio::select! {
            guard = lock.acquire() => guard?,
            () = &mut stop => break,
        };
        println!("leading with token {}", guard.token());
        tokio::select! {
            // By now `serve` is dropped, and there is WIND_DOWN left to clean up after it, unless somebody took the
            // lock from us. Then stand by again.
            Err(lost) = guard.run(serve(guard.token())) => println!("{lost}"),
            () = &mut stop => {
                // Confirmed, and the next one has taken over by then; unless the lock was just lost.
                if let Err(error) = guard.release().await {
                    println!("{error}");
                }
                break;
            }
        }
    }
    session.close().await?;
    println!("stopped");
    Ok(())
}

/// What the leader does, for as long as it leads. Whatever it writes carries the token, for a store that refuses lower
/// ones.
async fn serve(_token: FencingToken) {
    let mut rounds = interval(Duration::from_secs(1));
    loop {
        rounds.tick().await;
    }
}

/// Resolves once this process is told to stop.
fn told_to_stop() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
