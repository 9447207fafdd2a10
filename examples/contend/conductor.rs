//! The conductor: it starts the contenders, follows them, and injects the faults of the script.

use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::args::Show;
use crate::counter::Counter;
use crate::faults::{Cue, Killed, Script};
use crate::process::Processes;
use crate::record::{Event, Instant, Record, read_journal};
use crate::servers::{Servers, server_of};
use crate::timeline::{Timeline, say};
use crate::verdict::{Evidence, Verdict};

/// The longest time in which nothing may happen. The longest silences are a killed holder's session timeout and an
/// election.
const SILENCE: Duration = Duration::from_secs(30);

/// Runs the demo. Returns true if the verdict is PASS.
pub(crate) async fn run(show: &Show) -> anyhow::Result<bool> {
    let directory =
        tempfile::Builder::new().prefix("contend-").tempdir().context("cannot make a directory")?;
    let (counter, journal) = (directory.path().join("counter"), directory.path().join("journal"));
    Counter::open(&counter).write(0)?;
    std::fs::File::create(&journal).context("cannot create the journal")?;

    if show.connect.is_none() {
        say("Starting three ZooKeeper servers ..");
    }
    let servers = Servers::open(show.connect.as_deref(), show.session_timeout).await?;
    introduce(show, &servers);

    let lock = format!("/zklock-demo/contend-{}", uuid::Uuid::new_v4());
    let (heard, records) = mpsc::unbounded_channel();
    let start = Instant::now();
    let processes = Processes::start(show, &servers.connect_string(), &lock, &counter, &journal, heard)?;
    let mut conductor = Conductor {
        timeline: Timeline::new(show.contenders, start),
        script: Script::new(show.contenders, show.rounds, servers.ours().is_some()),
        sessions: vec![None; usize::from(show.contenders)],
        restart: None,
        processes,
        servers,
    };
    conductor.timeline.print_header();
    let fell_silent = conductor.follow(records).await?;

    // Contenders that still run are killed first. After that nobody writes to the journal any more.
    let ends = conductor.processes.ends(fell_silent).await?;
    let verdict = Verdict::of(&Evidence {
        rounds: show.rounds,
        session_timeout: show.session_timeout,
        records: read_journal(&journal)?,
        counter: Counter::open(&counter).read()?,
        killed: conductor.script.killed,
        outage: conductor.servers.ours().map(|_| conductor.script.outage),
        ends,
        fell_silent,
    });
    say(&format!("\n{verdict}"));
    if !verdict.passed() {
        say(&format!("The journal and the counter are in {}", directory.keep().display()));
    }
    let word = if verdict.passed() { "PASS" } else { "FAIL" };
    say(&format!("{word} after {:.1} s", Instant::now().since(start).as_secs_f64()));
    Ok(verdict.passed())
}

fn introduce(show: &Show, servers: &Servers) {
    let Show { contenders, rounds, hold, session_timeout, .. } = show;
    say(&format!(
        "{contenders} processes make {rounds} increments each: read, sleep {hold:?}, write. The session timeout is \
         {session_timeout:?}."
    ));
    say(match servers.ours() {
        Some(_) => "On the way the holder is killed, then a server.",
        None => "On the way the holder is killed. The servers are not ours: none of them is killed.",
    });
}

struct Conductor {
    timeline: Timeline,
    script: Script,
    processes: Processes,
    servers: Servers,
    /// The present session of each contender.
    sessions: Vec<Option<i64>>,
    /// The server that is being restarted, if any.
    restart: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Conductor {
    /// Follows the contenders until all have ended. Returns true if they fell silent before.
    async fn follow(&mut self, mut records: mpsc::UnboundedReceiver<Record>) -> anyhow::Result<bool> {
        let mut speaking = true;
        while speaking || self.restart.is_some() {
            tokio::select! {
                record = records.recv(), if speaking => match record {
                    Some(record) => self.hear(&record).await?,
                    None => speaking = false,
                },
                restarted = restarted(&mut self.restart), if self.restart.is_some() => {
                    self.restart = None;
                    restarted?;
                    self.server_back();
                }
                () = sleep(SILENCE) => {
                    self.timeline.note(Instant::now(), &format!("nothing has happened for {SILENCE:?}: giving up"));
                    return Ok(true);
                }
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted.context("cannot wait for Ctrl-C")?;
                    anyhow::bail!("interrupted");
                }
            }
        }
        Ok(false)
    }

    async fn hear(&mut self, record: &Record) -> anyhow::Result<()> {
        if let Event::Connected { session } = record.event
            && let Some(present) = self.sessions.get_mut(usize::from(record.contender) - 1)
        {
            *present = Some(session);
        }
        let leaderless = self.script.is_leaderless();
        let cue = self.script.hear(record);
        // The fault comes first, because a holder that must be killed sleeps only for a short time.
        if let Some(Cue::KillHolder(contender)) = cue {
            let at = Instant::now();
            self.processes.kill(contender).await?;
            self.script.holder_killed(Killed { contender, at, dead: Instant::now() });
        }
        self.timeline.hear(record);
        match cue {
            Some(Cue::KillHolder(contender)) => self.holder_killed(contender),
            Some(Cue::KillServerOf(holder)) => self.kill_server_of(holder).await?,
            Some(Cue::Restart(server)) => self.restart(server),
            None => {}
        }
        if leaderless
            && !self.script.is_leaderless()
            && let Some(killed) = self.script.killed
        {
            let gap = record.at.since(killed.at).as_secs_f64();
            let text = format!("c{} has the lock, {gap:.3} s after the kill", record.contender);
            self.timeline.note(record.at, &text);
        }
        Ok(())
    }

    fn holder_killed(&mut self, contender: u16) {
        self.timeline.killed(contender);
        self.timeline.note(Instant::now(), &format!("SIGKILL to c{contender}, the holder, before it wrote"));
    }

    async fn kill_server_of(&mut self, holder: u16) -> anyhow::Result<()> {
        let session = self.sessions.get(usize::from(holder) - 1).copied().flatten();
        let (Some(ensemble), Some(session)) = (self.servers.ours(), session) else { return Ok(()) };
        // A session may be between two servers. Then the server of the next holder is killed instead.
        let Some(server) = server_of(ensemble, session).await? else { return Ok(()) };
        let at = Instant::now();
        ensemble.kill(server).await?;
        self.script.server_killed(server, at);
        self.timeline.note(at, &format!("server {server}, to which c{holder} is connected, is killed"));
        Ok(())
    }

    fn restart(&mut self, server: usize) {
        if let Some(ensemble) = self.servers.ours().cloned() {
            self.timeline.note(Instant::now(), &format!("server {server} is being restarted"));
            self.restart = Some(tokio::spawn(async move {
                ensemble.restart(server).await.context("cannot restart a server")
            }));
        }
    }

    fn server_back(&mut self) {
        let now = Instant::now();
        self.script.server_back(now);
        self.timeline.note(now, "the server is back");
    }
}

/// Resolves once the server has restarted. It never resolves if no server is being restarted.
async fn restarted(restart: &mut Option<JoinHandle<anyhow::Result<()>>>) -> anyhow::Result<()> {
    match restart {
        Some(restart) => restart.await.context("restarting a server failed")?,
        None => std::future::pending().await,
    }
}
