//! What idle sessions cost the servers: sessions of zklock, and of Curator.
//!
//! The servers are processes of this machine, and so are the sessions. Processor time is counted for each server, so it shows what
//! the sessions take from one another only where the machine is busy throughout. The servers' Java machines compile while they
//! run: the first load costs more than the same load later.

mod servers;

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin};
use zklock::Session;
use zklock_test_support::peers::java;

use crate::args::Scale;
use servers::{Rates, Servers};

/// How many sessions are opened at the same time.
const AT_ONCE: usize = 100;

/// For how long each load is measured.
const WINDOW: Duration = Duration::from_secs(20);

/// Measures and prints.
pub(crate) async fn run(scale: &Scale) -> anyhow::Result<()> {
    let servers = Servers::start().await?;
    let timeout = Duration::from_secs(scale.timeout);
    println!("{} idle sessions, session timeout {timeout:?}, {WINDOW:?} each; a second:", scale.sessions);
    println!("{:<10} {:>10} {:>12} {:>16}", "", "requests", "leader, ms", "a follower, ms");
    print("none", &servers.rates(WINDOW).await?);
    // The first load warms the servers up.
    idle(scale.sessions, timeout, &servers).await?;
    let machine = curator(&servers.connect_string(), scale.sessions, timeout).await?;
    measure("curator", scale.sessions, &servers).await?;
    drop(machine);
    servers.wait_for_sessions(0).await?;
    idle(scale.sessions, timeout, &servers).await
}

/// Measures sessions of zklock, and ends them.
async fn idle(sessions: usize, timeout: Duration, servers: &Servers) -> anyhow::Result<()> {
    let opened = (0..sessions).map(|_| {
        let builder = Session::builder(servers.connect_string()).session_timeout(timeout);
        async move { builder.connect().await }
    });
    let opened: Vec<_> = stream::iter(opened).buffer_unordered(AT_ONCE).try_collect().await?;
    measure("idle", sessions, servers).await?;
    drop(opened);
    servers.wait_for_sessions(0).await
}

/// Measures once the servers know of so many sessions.
async fn measure(what: &str, sessions: usize, servers: &Servers) -> anyhow::Result<()> {
    servers.wait_for_sessions(sessions).await?;
    print(what, &servers.rates(WINDOW).await?);
    Ok(())
}

fn print(what: &str, rates: &Rates) {
    let Rates { requests, leader, follower } = rates;
    println!("{what:<10} {requests:>10.1} {:>12.1} {:>16.1}", leader * 1e3, follower * 1e3);
}

/// Starts Curator's sessions, all in one Java machine, which ends with its input: see `bench/curator/Idle.java`.
async fn curator(servers: &str, sessions: usize, timeout: Duration) -> anyhow::Result<(Child, ChildStdin)> {
    let mut machine = java("Idle")
        .args([servers, &sessions.to_string(), &timeout.as_millis().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start java")?;
    let input = machine.stdin.take().context("a pipe")?;
    let mut output = BufReader::new(machine.stdout.take().context("a pipe")?).lines();
    let connected = output.next_line().await?;
    ensure!(connected.is_some(), "the Java machine has ended: `make peers` compiles its program");
    Ok((machine, input))
}
