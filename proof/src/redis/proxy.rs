//! A TCP proxy between one client and Redis that holds back the reply to a command, and all that comes after it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::redis::resp;

/// The proxy. Dropping it closes its connections; what it holds is then lost.
pub(crate) struct Proxy {
    address: String,
    armed: Armed,
    server: JoinHandle<()>,
}

/// The holds that wait for their command.
type Armed = Arc<Mutex<VecDeque<Rule>>>;

#[derive(Clone)]
struct Rule {
    command: &'static str,
    stage: watch::Sender<Stage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Armed,
    Reached,
    Over,
}

/// Something that will be, or is, held back, until this is released or dropped.
#[must_use = "dropping it lets go what is held"]
pub(crate) struct Hold {
    stage: watch::Sender<Stage>,
}

impl Proxy {
    /// A proxy on loopback to `upstream`, a `host:port`.
    pub(crate) async fn start(upstream: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?.to_string();
        let armed = Armed::default();
        let server = tokio::spawn(serve(listener, upstream.to_owned(), armed.clone()));
        Ok(Self { address, armed, server })
    }

    /// Where the client connects to.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Holds back the reply to the next `command`: Redis has done it, and the client does not know.
    pub(crate) fn hold(&self, command: &'static str) -> Hold {
        let stage = watch::Sender::new(Stage::Armed);
        lock(&self.armed).push_back(Rule { command, stage: stage.clone() });
        Hold { stage }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Hold {
    /// Resolves once it is held back.
    pub(crate) async fn reached(&self) {
        // An error would mean that the sender is gone, and this is one.
        let _ = self.stage.subscribe().wait_for(|stage| *stage >= Stage::Reached).await;
    }

    /// Lets it go.
    pub(crate) fn release(self) {}
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.stage.send_replace(Stage::Over);
    }
}

impl Rule {
    /// Returns once it may go on.
    async fn wait(&self) {
        self.stage.send_if_modified(|stage| {
            let forward = *stage < Stage::Reached;
            *stage = (*stage).max(Stage::Reached);
            forward
        });
        let _ = self.stage.subscribe().wait_for(|stage| *stage == Stage::Over).await;
    }
}

fn lock(armed: &Armed) -> MutexGuard<'_, VecDeque<Rule>> {
    armed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rule for this command, which is then no longer armed.
fn take(armed: &Armed, command: &str) -> Option<Rule> {
    let mut armed = lock(armed);
    armed.retain(|rule| *rule.stage.borrow() < Stage::Over);
    let position = armed.iter().position(|rule| rule.command.eq_ignore_ascii_case(command))?;
    armed.remove(position)
}

async fn serve(listener: TcpListener, upstream: String, armed: Armed) {
    // They end with this task.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = TcpStream::connect(&upstream).await else { continue };
        // Commands are small, and their latency is measured.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let (hold, held) = watch::channel(None);
        connections.spawn(requests(from_client, to_server, armed.clone(), hold));
        connections.spawn(replies(from_server, to_client, held));
    }
}

/// Passes commands on, one by one.
async fn requests(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    armed: Armed,
    hold: watch::Sender<Option<Rule>>,
) {
    let mut buffer = Vec::new();
    loop {
        while let Some(command) = resp::first(&buffer) {
            if let Some(rule) = take(&armed, &command.name) {
                // Before the command is passed on, so that no reply to it slips through.
                drop(hold.send(Some(rule)));
            }
            if server.write_all(&buffer[..command.length]).await.is_err() {
                return;
            }
            buffer.drain(..command.length);
        }
        match client.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Passes replies on. What comes after a held one waits behind it.
async fn replies(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    mut held: watch::Receiver<Option<Rule>>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = match server.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        let rule = held.borrow_and_update().clone();
        if let Some(rule) = rule {
            rule.wait().await;
        }
        if client.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
