//! Curator's semaphore, in a Java machine of its own: see `bench/curator/Permits.java`.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, ensure};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{OnceCell, oneshot};

use super::client::{Client, DATA, Release};
use super::peer::PERMITS;

/// All clients are in one machine, which ends with this process.
static MACHINE: OnceCell<Machine> = OnceCell::const_new();

struct Machine {
    _process: Child,
    input: tokio::sync::Mutex<ChildStdin>,
    answers: Answers,
    clients: AtomicUsize,
}

/// Those who wait for an answer, by their number.
type Waiting = HashMap<usize, oneshot::Sender<()>>;

/// `None` once the machine is gone.
#[derive(Clone)]
struct Answers(Arc<Mutex<Option<Waiting>>>);

pub(super) struct CuratorPermits {
    machine: &'static Machine,
    number: usize,
}

impl CuratorPermits {
    pub(super) async fn connect(address: &str, directory: &str) -> anyhow::Result<Self> {
        let machine = MACHINE.get_or_try_init(async || Machine::start()).await?;
        let number = machine.clients.fetch_add(1, Ordering::Relaxed);
        let data = std::str::from_utf8(DATA)?;
        machine.ask(number, &format!("open {number} {address} {directory} {PERMITS} {data}")).await?;
        Ok(Self { machine, number })
    }
}

impl Machine {
    fn start() -> anyhow::Result<Self> {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
        let (classes, jars) = (target.join("peers"), target.join("zookeeper-3.9.5"));
        ensure!(
            classes.join("Permits.class").exists(),
            "Curator is not here: run scripts/have-peers.sh (or `make peers`)"
        );
        let jars = format!("{0}:{1}/lib/*:{1}/curator/*", classes.display(), jars.display());
        let mut process = Command::new("java")
            .args(["-Dorg.apache.logging.log4j.level=OFF", "-cp", &jars, "Permits"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start java")?;
        let input = tokio::sync::Mutex::new(process.stdin.take().context("a pipe")?);
        let answers = Answers(Arc::new(Mutex::new(Some(HashMap::new()))));
        tokio::spawn(listen(process.stdout.take().context("a pipe")?, answers.clone()));
        Ok(Self { _process: process, input, answers, clients: AtomicUsize::new(0) })
    }

    async fn ask(&self, number: usize, line: &str) -> anyhow::Result<()> {
        let answered = self.answers.expect(number);
        self.input.lock().await.write_all(format!("{line}\n").as_bytes()).await?;
        answered.await.context("the Java machine has ended")
    }
}

/// Passes answers on until there are no more.
async fn listen(output: ChildStdout, answers: Answers) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(answer) = line.parse().ok().and_then(|number| answers.lock().as_mut()?.remove(&number)) {
            let _nobody_waits = answer.send(());
        }
    }
    answers.lock().take();
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn expect(&self, number: usize) -> oneshot::Receiver<()> {
        let (answer, answered) = oneshot::channel();
        if let Some(answers) = self.lock().as_mut() {
            answers.insert(number, answer);
        }
        answered
    }
}

impl Client for CuratorPermits {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Release<'_>>> {
        async {
            let Self { machine, number } = self;
            machine.ask(*number, &format!("acquire {number}")).await?;
            Ok(async move { machine.ask(*number, &format!("release {number}")).await }.boxed())
        }
        .boxed()
    }
}
