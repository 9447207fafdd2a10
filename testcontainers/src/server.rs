//! One server: its state, and what it says about itself.

use std::{io, time::Duration};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use crate::{Error, config::Options, node::Node};

const STARTUP: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(30);
/// A server that is waited for, and does not answer for this long, is asked again.
const PROBE: Duration = Duration::from_secs(3);
const PAUSE_BETWEEN_PROBES: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Paused,
    Killed,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) index: usize,
    pub(crate) node: Node,
    /// The options that the server finds when it starts next.
    options: Mutex<Options>,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) index: usize,
    /// `leader`, `follower`, `standalone`, `observer` or `read-only`.
    pub(crate) mode: String,
    pub(crate) epoch: u64,
}

impl Server {
    pub(crate) fn new(index: usize, node: Node, options: Options) -> Self {
        Self { index, node, options: Mutex::new(options), state: Mutex::new(State::Killed) }
    }

    pub(crate) async fn state(&self) -> State {
        *self.state.lock().await
    }

    pub(crate) async fn launch(&self) -> Result<(), Error> {
        let mut state = self.state.lock().await;
        self.node.start().await?;
        *state = State::Running;
        Ok(())
    }

    pub(crate) async fn kill(&self) -> Result<(), Error> {
        let mut state = self.state.lock().await;
        if *state != State::Killed {
            self.node.kill().await?;
            *state = State::Killed;
        }
        Ok(())
    }

    pub(crate) async fn reconfigure(&self, key: String, value: String) -> Result<(), Error> {
        let mut options = self.options.lock().await;
        let mut changed = options.clone();
        changed.properties.push((key, value));
        changed.check()?;
        self.node.configure(&changed).await?;
        *options = changed;
        Ok(())
    }

    pub(crate) async fn pause(&self) -> Result<(), Error> {
        self.turn(State::Paused, "paused", self.node.pause()).await
    }

    pub(crate) async fn unpause(&self) -> Result<(), Error> {
        self.turn(State::Running, "unpaused", self.node.unpause()).await
    }

    /// Brings a server that is not killed into this state, which is called `action`; by `change`, unless it is in it.
    async fn turn(
        &self,
        to: State,
        action: &'static str,
        change: impl Future<Output = Result<(), Error>>,
    ) -> Result<(), Error> {
        let mut state = self.state.lock().await;
        match *state {
            State::Killed => return Err(Error::NotRunning { index: self.index, action }),
            present if present == to => self.signal(async { Ok(()) }).await?,
            State::Running | State::Paused => self.signal(change).await?,
        }
        *state = to;
        Ok(())
    }

    /// Does this to a server that runs. One that has ended by itself is not signalled: another process may have its id.
    async fn signal(&self, done: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
        if !self.node.has_exited().await {
            match done.await {
                // It may end at any moment.
                Err(_) if self.node.has_exited().await => {}
                done => return done,
            }
        }
        Err(Error::Exited { index: self.index, log: self.node.log().await })
    }

    /// Whether the server was started, and ended though nobody killed it.
    pub(crate) async fn has_exited(&self) -> bool {
        let state = self.state.lock().await;
        *state != State::Killed && self.node.has_exited().await
    }

    pub(crate) async fn admin(&self, word: &str) -> Result<String, Error> {
        let address = self.node.client_address();
        ask(&address, word, ANSWER)
            .await
            .map_err(Error::io(format!("ask the server at {address} for `{word}`")))
    }

    /// The server's role, if it serves.
    pub(crate) async fn standing(&self) -> Option<Standing> {
        let answer = ask(&self.node.client_address(), "srvr", PROBE).await.ok()?;
        let field = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let zxid = field("Zxid: 0x").and_then(|zxid| u64::from_str_radix(zxid, 16).ok());
        Some(Standing { index: self.index, mode: field("Mode: ")?.into(), epoch: zxid.unwrap_or(0) >> 32 })
    }

    /// Waits until the server serves clients, with a quorum behind it.
    pub(crate) async fn wait_until_serving(&self) -> Result<(), Error> {
        self.wait(format!("server {} to serve", self.index), || async {
            self.standing().await.is_some_and(|standing| standing.mode != "read-only")
        })
        .await
    }

    pub(crate) async fn wait_until_up(&self) -> Result<(), Error> {
        self.wait(format!("server {} to answer", self.index), || async {
            ask(&self.node.client_address(), "ruok", PROBE).await.is_ok_and(|answer| !answer.is_empty())
        })
        .await
    }

    async fn wait<F: Future<Output = bool>>(&self, what: String, is_so: impl Fn() -> F) -> Result<(), Error> {
        let is_so = &is_so;
        let outcome = poll(&what, STARTUP, || async move {
            if is_so().await {
                Some(Ok(()))
            } else if self.node.has_exited().await {
                let log = self.node.log().await;
                Some(Err(Error::Exited { index: self.index, log }))
            } else {
                None
            }
        });
        match outcome.await {
            Ok(outcome) => outcome,
            Err(Error::Timeout { what, waited, .. }) => {
                let detail = format!("; the end of its log:\n{}", self.node.log().await);
                Err(Error::Timeout { what, waited, detail })
            }
            Err(error) => Err(error),
        }
    }
}

/// Looks again and again until `look` sees something, for `limit` at most.
pub(crate) async fn poll<T, F: Future<Output = Option<T>>>(
    what: &str,
    limit: Duration,
    look: impl Fn() -> F,
) -> Result<T, Error> {
    let start = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return Ok(seen);
        }
        if start.elapsed() > limit {
            return Err(Error::Timeout { what: what.into(), waited: limit, detail: String::new() });
        }
        sleep(PAUSE_BETWEEN_PROBES).await;
    }
}

async fn ask(address: &str, word: &str, limit: Duration) -> io::Result<String> {
    let conversation = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    timeout(limit, conversation).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
