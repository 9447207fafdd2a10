//! Five processes contend for one lock on three real servers. The holder is killed, a server is killed, and a holder is
//! paused and writes too late. The story is told as it happens, and ends with a verdict: exit code 0 or 1.
//!
//!     cargo run -p contend
//!
//! `contender.rs` is what each process does, by the public API alone. `stage.rs` starts the processes, and is the store
//! that they write to. This file does the harm. `verdict.rs` judges what was recorded.

mod contender;
mod stage;
mod verdict;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use contender::SESSION_TIMEOUT;
use stage::{Said, Stage};
use tokio::time::Instant;
use zklock_testcontainers::Ensemble;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    if let Some(servers) = std::env::args().nth(1) {
        contender::run(&servers).await?;
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "Three ZooKeeper servers start, and five processes, p1 to p5, contend for one lock. Each holder"
    );
    println!(
        "counts one up in a store, which refuses low tokens. The session timeout is {SESSION_TIMEOUT:?}.\n"
    );
    let servers = Ensemble::builder(3).tick_time(Duration::from_secs(1)).start().await?;
    let mut stage = Stage::open(&servers.connect_string())?;
    let told = story(&mut stage, &servers).await;
    let record = stage.finish().await?;
    println!(
        "\nThe lock was held {} times, and {} writes were accepted.",
        record.holds.len(),
        record.accepted
    );
    let mut faults = record.faults();
    faults.extend(told.err().map(|error| error.to_string()));
    if faults.is_empty() {
        println!("PASS: never two holders at once, ever higher tokens, no count lost, nobody left waiting");
        return Ok(ExitCode::SUCCESS);
    }
    println!("FAIL: {} faults, such as: {}", faults.len(), faults[..faults.len().min(4)].join("; "));
    Ok(ExitCode::FAILURE)
}

/// Does the harm, and tells what follows.
async fn story(stage: &mut Stage, servers: &Ensemble) -> Result<(), Failure> {
    let (first, token) = stage.until_granted().await?;
    stage.tell(format_args!("p{first} holds, token {token}; the others wait"));

    stage.pass(Duration::from_secs(4)).await?;
    let (dead, token) = stage.until_granted().await?;
    let since = Instant::now();
    stage.tell(format_args!("KILL p{dead}, the holder, token {token}"));
    stage.kill(dead).await?;
    let (next, token) = stage.until_granted().await?;
    let later = since.elapsed().as_secs_f64();
    stage.tell(format_args!("p{next} holds, token {token} ({later:.1} s: p{dead}'s session expired)"));

    stage.pass(Duration::from_secs(3)).await?;
    let leader = servers.leader().await?;
    let (holder, token) = stage.until_granted().await?;
    let since = Instant::now();
    let leads = leader + 1;
    stage.tell(format_args!("KILL server {leads}, which leads the others; p{holder} holds, token {token}"));
    servers.kill(leader).await?;
    // What was said before the server was dead.
    stage.pass(Duration::from_millis(100)).await?;
    let (next, token) = stage.until_granted().await?;
    let later = since.elapsed().as_secs_f64();
    stage.tell(format_args!("p{next} holds, token {token} ({later:.1} s: another server leads by now)"));

    stage.pass(Duration::from_secs(3)).await?;
    let (paused, token) = stage.pause().await?;
    let since = Instant::now();
    stage.tell(format_args!("PAUSE p{paused}, the holder, token {token}, right before it writes"));
    let (next, token) = stage.until_granted().await?;
    let later = since.elapsed().as_secs_f64();
    stage.tell(format_args!("p{next} holds, token {token} ({later:.1} s: p{paused}'s session expired)"));
    stage.until(|process, said| process == next && matches!(said, Said::Writes { .. })).await?;
    stage.tell(format_args!("p{next} writes, token {token}: accepted"));
    stage.tell(format_args!("WAKE p{paused}, which takes itself for the holder"));
    stage.wake(paused)?;
    stage.until(|process, said| process == paused && matches!(said, Said::Lost { .. })).await?;

    stage.pass(Duration::from_secs(2)).await?;
    stage.tell("END: each process that lives holds the lock once more");
    Ok(())
}
