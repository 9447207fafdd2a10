//! What the sessions do that are measured.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use zklock::{Guard, Session};
use zklock_test_support::peers::java;
use zookeeper_client::Client;

use super::pings::Pinging;
use super::servers::Servers;
use crate::args::{Scale, What};

/// How many sessions are opened or closed at the same time.
const AT_ONCE: usize = 100;

/// How many contend for one lock that is handed over.
const CONTENDERS: usize = 8;

/// Sessions, and what they do.
pub(super) struct Load {
    sessions: Vec<Session>,
    plain: Vec<Client>,
    tasks: JoinSet<anyhow::Result<()>>,
    stop: watch::Sender<bool>,
    cycles: Arc<AtomicU64>,
    /// The Java machine. It ends with its input.
    curator: Option<(Child, ChildStdin)>,
    /// The lock that others wait for, and its session.
    held: Option<(Guard, Session)>,
}

impl Load {
    /// Opens the sessions. Returns once each does what it is to do, except for watches that are still to come.
    pub(super) async fn start(
        what: What,
        scale: &Scale,
        servers: &Servers,
        root: &str,
    ) -> anyhow::Result<Self> {
        let timeout = Duration::from_secs(scale.timeout);
        let (stop, stopped) = watch::channel(false);
        let mut load = Self {
            sessions: Vec::new(),
            plain: Vec::new(),
            tasks: JoinSet::new(),
            stop,
            cycles: Arc::default(),
            curator: None,
            held: None,
        };
        match what {
            What::Curator => {
                load.curator = Some(curator(&servers.connect_string(), scale.sessions, timeout).await?);
                return Ok(load);
            }
            What::Pinging => {
                let opened = (0..scale.sessions).map(|number| {
                    let address = servers.address(number);
                    async move { Pinging::open(&address, timeout).await }
                });
                for mut session in
                    stream::iter(opened).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?
                {
                    let mut stopped = stopped.clone();
                    load.tasks.spawn(async move {
                        tokio::select! {
                            pinged = session.ping() => pinged,
                            () = told(&mut stopped) => session.close().await,
                        }
                    });
                }
                return Ok(load);
            }
            What::Plain => {
                let opened = (0..scale.sessions).map(|number| {
                    let address = servers.address(number);
                    async move { Client::connector().with_session_timeout(timeout).connect(&address).await }
                });
                load.plain = stream::iter(opened).buffer_unordered(AT_ONCE).try_collect().await?;
                return Ok(load);
            }
            What::Idle
            | What::Holding
            | What::Waiting
            | What::Observing
            | What::Keys
            | What::Permits
            | What::Cycling
            | What::Handing
            | What::Connecting => {}
        }
        let servers = servers.connect_string();
        if matches!(what, What::Waiting | What::Observing) {
            let session = Session::builder(&servers).session_timeout(timeout).connect().await?;
            load.held = Some((session.lock(&format!("{root}/one"))?.acquire().await?, session));
        }
        let opened = (0..scale.sessions)
            .map(|_| async { Session::builder(&servers).session_timeout(timeout).connect().await });
        load.sessions = stream::iter(opened).buffer_unordered(AT_ONCE).try_collect().await?;
        let each = if what == What::Idle { 0 } else { scale.each };
        let (begun, mut beginnings) = mpsc::channel::<()>(1);
        for (number, session) in load.sessions.iter().enumerate() {
            for part in 0..each {
                let task = Task {
                    session: session.clone(),
                    servers: servers.clone(),
                    root: root.to_owned(),
                    place: number * each + part,
                    permits: u32::try_from(scale.sessions * each)?,
                    stopped: stopped.clone(),
                    cycles: load.cycles.clone(),
                };
                load.tasks.spawn(task.run(what, begun.clone()));
            }
        }
        drop(begun);
        // Each task drops its end once it does what it is to do. One that fails does so, too.
        let _nothing = beginnings.recv().await;
        load.check(load.sessions.len() * each).await?;
        Ok(load)
    }

    /// Fails if a task has ended: a guard was lost, a connection was lost.
    pub(super) async fn check(&mut self, tasks: usize) -> anyhow::Result<()> {
        while let Some(ended) = self.tasks.try_join_next() {
            ended?.context("a task has failed")?;
        }
        anyhow::ensure!(self.tasks.len() == tasks, "{} of {tasks} tasks are left", self.tasks.len());
        Ok(())
    }

    pub(super) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// How many locks were acquired and released again so far.
    pub(super) fn cycles(&self) -> u64 {
        self.cycles.load(Ordering::Relaxed)
    }

    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        drop(self.plain);
        if let Some((mut machine, input)) = self.curator {
            drop(input);
            machine.wait().await?;
        }
        if let Some((guard, session)) = self.held {
            guard.release().await?;
            session.close().await?;
        }
        let closed = self.sessions.iter().map(|session| async move { session.close().await });
        stream::iter(closed).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        Ok(())
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
    output.next_line().await?.context("the Java machine has ended: `make peers` compiles its program")?;
    Ok((machine, input))
}

/// Returns once it is told to stop.
async fn told(stopped: &mut watch::Receiver<bool>) {
    let _until = stopped.wait_for(|stopped| *stopped).await;
}

/// Holds it until it is lost, which is a failure.
async fn held<K: 'static>(guard: Guard<K>) -> anyhow::Result<()> {
    anyhow::bail!("a guard was lost: {}", guard.lost().await)
}

/// One lock, key, permit or observer of one session.
struct Task {
    session: Session,
    servers: String,
    root: String,
    /// Its number among all of them.
    place: usize,
    /// How many there are.
    permits: u32,
    stopped: watch::Receiver<bool>,
    cycles: Arc<AtomicU64>,
}

impl Task {
    async fn run(mut self, what: What, begun: mpsc::Sender<()>) -> anyhow::Result<()> {
        let mut stopped = self.stopped.clone();
        tokio::select! {
            ended = self.act(what, begun) => ended,
            () = told(&mut stopped) => Ok(()),
        }
    }

    async fn act(&mut self, what: What, begun: mpsc::Sender<()>) -> anyhow::Result<()> {
        let Self { session, root, place, .. } = self;
        match what {
            What::Curator | What::Pinging | What::Plain | What::Idle => Ok(()),
            What::Holding => {
                let guard = session.lock(&format!("{root}/{place}"))?.acquire().await?;
                drop(begun);
                held(guard).await
            }
            What::Waiting => {
                let lock = session.lock(&format!("{root}/one"))?;
                drop(begun);
                drop(lock.acquire().await?);
                anyhow::bail!("a waiter was granted the lock")
            }
            What::Observing => {
                let mut holders = session.lock(&format!("{root}/one"))?.holders();
                holders.next().await.context("an observer has ended")?;
                drop(begun);
                while holders.next().await.is_some() {}
                anyhow::bail!("an observer has ended")
            }
            What::Keys => {
                let guard = session.locks(root)?.acquire(&place.to_string()).await?;
                drop(begun);
                held(guard).await
            }
            What::Permits => {
                let permit = session.semaphore(root, self.permits)?.acquire().await?;
                drop(begun);
                held(permit).await
            }
            What::Cycling | What::Handing => {
                let lock = if what == What::Handing { *place / CONTENDERS } else { *place };
                let lock = session.lock(&format!("{root}/{lock}"))?;
                lock.acquire().await?.release().await?;
                drop(begun);
                self.cycle(&lock).await
            }
            What::Connecting => {
                self.connect().await?;
                drop(begun);
                loop {
                    self.connect().await?;
                    self.cycles.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Opens and closes a session of the same timeout.
    async fn connect(&self) -> anyhow::Result<()> {
        let timeout = self.session.timeout();
        Ok(Session::builder(&self.servers).session_timeout(timeout).connect().await?.close().await?)
    }

    async fn cycle(&self, lock: &zklock::Lock) -> anyhow::Result<()> {
        loop {
            lock.acquire().await?.release().await?;
            self.cycles.fetch_add(1, Ordering::Relaxed);
        }
    }
}
