//! The client processes, the links between them and the servers, and what can be done to both.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use zklock_testcontainers::{Ensemble, Link};

use super::args::Recipe;
use super::client::{DELAY, END};
use super::record::{Instant, Record, Who};
use super::slew::{self, Brake};

/// How every client is set up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) lock: Recipe,
    pub(crate) path: String,
    pub(crate) register: String,
    pub(crate) seed: u64,
    pub(crate) session_timeout: Duration,
    pub(crate) tick: Duration,
    /// What slews the clocks of a process.
    pub(crate) shim: PathBuf,
}

/// What is heard from a client process.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Heard {
    Said(Record),
    /// It was killed, and said nothing more.
    Killed {
        client: u16,
        killed: Killed,
    },
    /// It ended though nobody told it to.
    Crashed {
        client: u16,
        at: Instant,
    },
}

/// One client: its links, and its process while it has one.
pub(crate) struct Client {
    pub(crate) number: u16,
    pub(crate) tasks: u16,
    /// One to each server.
    pub(crate) links: Vec<Link>,
    setup: Setup,
    heard: UnboundedSender<Heard>,
    /// The takeover delay that it was told of, in milliseconds: a process that is started anew has to be told, too.
    delay: AtomicU64,
    /// How much faster than true time its clocks are to run from the next start on, in parts per million.
    slew: AtomicI64,
    brake: Brake,
    process: tokio::sync::Mutex<Option<Process>>,
}

struct Process {
    child: Child,
    orders: ChildStdin,
    /// Set before it is made to end.
    ending: Arc<AtomicBool>,
    /// Ends when all that it said was heard.
    listener: JoinHandle<()>,
}

/// When a process was killed: just before the signal, and when it was certainly dead.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Killed {
    pub(crate) at: Instant,
    pub(crate) dead: Instant,
}

impl Client {
    /// Lays the links; does not start the process yet.
    pub(crate) async fn new(
        number: u16,
        ensemble: &Ensemble,
        setup: Setup,
        heard: UnboundedSender<Heard>,
    ) -> anyhow::Result<Self> {
        let mut links = Vec::new();
        for server in 0..ensemble.len() {
            links.push(Link::start(ensemble.address(server)).await?);
        }
        // In every third process two tasks contend with each other on one session.
        let tasks = if number.is_multiple_of(3) { 2 } else { 1 };
        let brake = Brake::new(&setup.shim, number)?;
        let slew = if slew::is_slewed(number) { slew::rate(u32::from(number / 2)) } else { 0 };
        let (delay, slew, process) =
            (AtomicU64::default(), AtomicI64::new(slew), tokio::sync::Mutex::default());
        Ok(Self { number, tasks, links, setup, heard, delay, slew, brake, process })
    }

    pub(crate) fn contenders(&self) -> impl Iterator<Item = Who> + use<> {
        let client = self.number;
        (1..=self.tasks).map(move |task| Who { client, task })
    }

    /// Stops its `CLOCK_BOOTTIME` if its clocks are slewed.
    pub(crate) fn stop_clock(&self) -> anyhow::Result<()> {
        self.brake.stop()
    }

    /// Lets that clock go on, as if it had never stopped.
    pub(crate) fn start_clock(&self) -> anyhow::Result<()> {
        self.brake.go()
    }

    /// Has its clocks run so many parts per million too fast from the next start on.
    pub(crate) fn slew(&self, slew: i64) {
        self.slew.store(slew, Ordering::SeqCst);
    }

    /// Starts the process. `life` tells it from the ones before.
    pub(crate) async fn start(&self, life: u64) -> anyhow::Result<()> {
        // It makes sure that its clocks are slewed.
        self.start_clock()?;
        let slew = self.slew.load(Ordering::SeqCst);
        let program = std::env::current_exe().context("cannot find this program to start clients")?;
        let servers: Vec<_> = self.links.iter().map(Link::address).collect();
        let Setup { lock, path, register, seed, session_timeout, tick, shim } = &self.setup;
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(u64::from(self.number) * 10_007 + life * 101);
        let lock = match lock {
            Recipe::Zklock => "zklock",
            Recipe::ZookeeperClient => "zookeeper-client",
        };
        let mut child = Command::new(program)
            .arg("torture-client")
            .args(["--number", &self.number.to_string(), "--tasks", &self.tasks.to_string()])
            .args(["--servers", &servers.join(","), "--path", path, "--lock", lock])
            .args(["--register", register, "--seed", &seed.to_string()])
            .args(["--session-timeout", &session_timeout.as_millis().to_string()])
            .args(["--tick", &tick.as_millis().to_string(), "--slew", &slew.to_string()])
            .envs(slew::environment(shim, slew, &self.brake))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            // Ctrl-C is for the coordinator, which ends the clients.
            .process_group(0)
            .spawn()
            .context("cannot start a client")?;
        let orders = child.stdin.take().context("no pipe")?;
        let output = child.stdout.take().context("no pipe")?;
        let ending = Arc::<AtomicBool>::default();
        let listener = tokio::spawn(listen(self.number, output, self.heard.clone(), ending.clone()));
        *self.process.lock().await = Some(Process { child, orders, ending, listener });
        self.order(&format!("{DELAY} {}", self.delay.load(Ordering::SeqCst))).await
    }

    /// Ends the process with SIGKILL, if there is one.
    pub(crate) async fn kill(&self) -> anyhow::Result<Option<Killed>> {
        let Some(mut process) = self.process.lock().await.take() else { return Ok(None) };
        process.ending.store(true, Ordering::SeqCst);
        let at = Instant::now();
        process.child.kill().await.with_context(|| format!("cannot kill client {}", self.number))?;
        let killed = Killed { at, dead: Instant::now() };
        process.listener.await.context("a listener failed")?;
        // Behind everything that it said, and before anything that its successor does.
        let _ = self.heard.send(Heard::Killed { client: self.number, killed });
        Ok(Some(killed))
    }

    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP).await
    }

    pub(crate) async fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT).await
    }

    async fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let process = self.process.lock().await;
        // It may have been killed meanwhile.
        let Some(process) = process.as_ref() else { return Ok(()) };
        let id = process.child.id().context("a client ended by itself")?;
        let pid = Pid::from_raw(id.try_into()?).context("no process id")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal client {}", self.number))?;
        Ok(())
    }

    /// Tells it the takeover delay of whoever comes to the queue from now on.
    pub(crate) async fn set_delay(&self, delay: Duration) -> anyhow::Result<()> {
        self.delay.store(u64::try_from(delay.as_millis())?, Ordering::SeqCst);
        self.order(&format!("{DELAY} {}", delay.as_millis())).await
    }

    /// Tells it something; whoever is dead need not hear it.
    pub(crate) async fn order(&self, order: &str) -> anyhow::Result<()> {
        if let Some(process) = self.process.lock().await.as_mut() {
            let line = format!("{order}\n");
            process.orders.write_all(line.as_bytes()).await.context("a client ended by itself")?;
        }
        Ok(())
    }

    /// Tells it to end, and waits until it has.
    pub(crate) async fn end(&self) -> anyhow::Result<()> {
        if let Some(process) = self.process.lock().await.as_ref() {
            process.ending.store(true, Ordering::SeqCst);
        }
        self.order(END).await?;
        let Some(mut process) = self.process.lock().await.take() else { return Ok(()) };
        // Not by `wait`, which closes its standard input: then it ends at once.
        let status = loop {
            match process.child.try_wait()? {
                Some(status) => break status,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        process.listener.await.context("a listener failed")?;
        if !status.success() {
            bail!("client {} ended with {status}", self.number);
        }
        Ok(())
    }

    /// The server it is connected to, if to one only.
    pub(crate) fn server(&self) -> Option<usize> {
        let mut connected = self.links.iter().enumerate().filter(|(_, link)| link.connections() > 0);
        match (connected.next(), connected.next()) {
            (Some((server, _)), None) => Some(server),
            _ => None,
        }
    }
}

/// Hears one process out.
async fn listen(client: u16, output: ChildStdout, heard: UnboundedSender<Heard>, ending: Arc<AtomicBool>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(record) => drop(heard.send(Heard::Said(record))),
            // The last line of one that was killed may be cut short.
            Err(_) if ending.load(Ordering::SeqCst) => {}
            // What it says from here on would be judged with a gap. It ends as nobody listens any more.
            Err(_) => {
                eprintln!("torture: client {client} said: {line}");
                break;
            }
        }
    }
    if !ending.load(Ordering::SeqCst) {
        let _ = heard.send(Heard::Crashed { client, at: Instant::now() });
    }
}

/// Where everything that is heard and done is written down, if it is to be kept.
#[derive(Clone, Default)]
pub(crate) struct Journal(Option<Arc<Mutex<File>>>);

impl Journal {
    pub(crate) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let file = path.map(File::create).transpose().context("cannot create the journal")?;
        Ok(Self(file.map(|file| Arc::new(Mutex::new(file)))))
    }

    pub(crate) fn write(&self, entry: &impl serde::Serialize) {
        if let (Some(file), Ok(line)) = (&self.0, serde_json::to_string(entry)) {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            // What is judged is in memory.
            let _ = writeln!(file, "{line}");
        }
    }
}
