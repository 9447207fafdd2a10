//! What idle sessions cost the servers: sessions of zklock, of Curator, and bare ones that ping as Curator's do.
//!
//! The servers are processes of this machine, and so are the sessions. Processor time is counted for each server, so it shows what
//! the sessions take from one another only where the machine is busy throughout. The servers' Java machines compile while they
//! run: the first load costs more than the same load later.

mod pings;
mod servers;

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::task::JoinSet;
use zklock::Session;
use zklock_test_support::peers::java;

use crate::args::{Scale, What};
use pings::Pinging;
use servers::{Rates, Servers};

/// How many sessions are opened at the same time.
const AT_ONCE: usize = 100;

/// Measures and prints.
pub(crate) async fn run(scale: &Scale) -> anyhow::Result<()> {
    let servers = Servers::start().await?;
    let window = Duration::from_secs(scale.window);
    println!(
        "{} idle sessions, session timeout {} s, {} s each; a second:",
        scale.sessions, scale.timeout, scale.window
    );
    println!("{:<10} {:>10} {:>12} {:>16}", "", "requests", "leader, ms", "a follower, ms");
    print("none", &servers.rates(window).await?);
    for what in &scale.what {
        let mut sessions = Sessions::open(*what, scale, &servers).await?;
        servers.wait_for_sessions(scale.sessions).await?;
        print(&format!("{what:?}").to_lowercase(), &servers.rates(window).await?);
        if let Some(ended) = sessions.pinging.try_join_next() {
            ended?.context("a session was lost")?;
        }
        drop(sessions);
        servers.wait_for_sessions(0).await?;
    }
    Ok(())
}

fn print(what: &str, rates: &Rates) {
    let Rates { requests, leader, follower } = rates;
    println!("{what:<10} {requests:>10.1} {:>12.1} {:>16.1}", leader * 1e3, follower * 1e3);
}

/// Idle sessions. Once this is dropped, they end, or the servers expire them.
#[derive(Default)]
struct Sessions {
    _idle: Vec<Session>,
    /// Each task ends with an error once its session is lost.
    pinging: JoinSet<anyhow::Result<()>>,
    /// A Java machine with all of Curator's sessions. It ends with its input.
    _curator: Option<(Child, ChildStdin)>,
}

impl Sessions {
    async fn open(what: What, scale: &Scale, servers: &Servers) -> anyhow::Result<Self> {
        let timeout = Duration::from_secs(scale.timeout);
        let mut sessions = Self::default();
        match what {
            What::Idle => {
                let opened = (0..scale.sessions).map(|_| {
                    let builder = Session::builder(servers.connect_string()).session_timeout(timeout);
                    async move { builder.connect().await }
                });
                sessions._idle = stream::iter(opened).buffer_unordered(AT_ONCE).try_collect().await?;
            }
            What::Pinging => {
                let opened = (0..scale.sessions).map(|number| {
                    let address = servers.address(number);
                    async move { Pinging::open(&address, timeout).await }
                });
                let opened: Vec<_> = stream::iter(opened).buffer_unordered(AT_ONCE).try_collect().await?;
                for session in opened {
                    sessions.pinging.spawn(session.ping());
                }
            }
            What::Curator => {
                sessions._curator = Some(curator(&servers.connect_string(), scale.sessions, timeout).await?);
            }
        }
        Ok(sessions)
    }
}

/// Starts Curator's sessions: see `bench/curator/Idle.java`.
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
