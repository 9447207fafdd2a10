//! A service that runs only while it is the leader: on one of many machines at a time.
//!
//!     cargo run --example leader -- 127.0.0.1:2181 /lock/leader
//!
//! Start it twice. The second process takes over within milliseconds if the first one is told to stop (by SIGTERM, as
//! an orchestrator sends it, or by Ctrl-C). It takes over after a session timeout if the first one is killed.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::interval;
use zklock::{FencingToken, LockOptions, Session};

/// How long the service may take to finish its work before it stops being the leader.
const WIND_DOWN: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".into());
    let path = arguments.next().unwrap_or_else(|| "/lock/leader".into());

    // This comes first, so that no signal comes before its handler.
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
            // By now `serve` is dropped. If the lease is about to end, WIND_DOWN is left for cleaning up; if somebody
            // took the lock from us, no time is left. After that, stand by again.
            Err(lost) = guard.run(serve(guard.token())) => println!("{lost}"),
            () = &mut stop => {
                // Once this returns `Ok`, ZooKeeper has confirmed the release, and the next process can take over. It
                // fails if the guard was just lost.
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

/// The work of the leader, for as long as it leads. All that it writes carries the token, for a store that refuses
/// lower tokens.
async fn serve(_token: FencingToken) {
    let mut rounds = interval(Duration::from_secs(1));
    loop {
        rounds.tick().await;
    }
}

/// Resolves once a signal tells this process to stop.
fn told_to_stop() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
