//! Leads while no other instance does, and resigns on SIGTERM or Ctrl-C. Start it in two terminals.
//!
//!     cargo run --example leader -- 127.0.0.1:2181 /service

use std::error::Error;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use zklock::{FencingToken, Session};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".into());
    let path = arguments.next().unwrap_or_else(|| "/service".into());
    let name = format!("process {}", std::process::id());
    // First of all, so that no signal is missed.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;

    // However this ends, the session is closed, so that the next candidate leads at once.
    Session::with(servers, async |session| {
        tokio::select! {
            led = lead(&session, &path, &name) => led,
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    })
    .await
}

/// Campaigns, and campaigns again after each leadership that was lost.
async fn lead(session: &Session, path: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let election = session.election(path)?;
    loop {
        println!("{name} waits");
        let leadership = election.campaign(name).await?;
        println!("{name} leads, token {}", leadership.token());
        // `run` drops the work the moment the leadership is lost. Dropping all of this resigns.
        if let Err(lost) = leadership.run(work(leadership.token())).await {
            println!("{name} leads no more: {lost}");
        }
    }
}

/// What only the leader does. It sends the token with everything that it writes.
async fn work(token: FencingToken) {
    loop {
        println!("working, token {token}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
