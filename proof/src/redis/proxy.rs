//! The way from a client to its server, on which replies can be held back.

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use zklock_testcontainers::{Held, Link, RequestKind};

use super::kind::Kind;
use super::servers::Servers;

/// A client's way to its server; closed when it is dropped.
pub(super) enum Way {
    Redis(Proxy),
    ZooKeeper(Link, Option<Held>),
}

impl Way {
    pub(super) async fn lay(servers: &Servers, kind: Kind, number: usize) -> anyhow::Result<Self> {
        Ok(if kind.is_zklock() {
            let ensemble = &servers.ensemble;
            Self::ZooKeeper(Link::start(&ensemble.address(number % ensemble.len())).await?, None)
        } else {
            Self::Redis(Proxy::start(servers.redis.socket()).await?)
        })
    }

    pub(super) fn address(&self) -> String {
        match self {
            Self::Redis(proxy) => proxy.address.clone(),
            Self::ZooKeeper(link, _) => link.address(),
        }
    }

    /// Holds back the reply to the request that takes a free lock, or a later one if so many come before it, and all that comes
    /// after it. The server has done what was asked, and the client does not know.
    pub(super) fn hold(&mut self, replies_before: usize) {
        match self {
            Self::Redis(proxy) => drop(proxy.gate.send_replace(Gate::After(replies_before))),
            Self::ZooKeeper(link, held) => *held = Some(link.hold_reply(RequestKind::Create)),
        }
    }

    /// Resolves once the reply is held back. From then on nothing passes: a ZooKeeper client that hears nothing on one connection
    /// makes another, on which it would learn what was held back. A Redis client waits for the reply.
    pub(super) async fn held(&self) {
        match self {
            Self::Redis(proxy) => proxy.reached(Gate::Shut).await,
            Self::ZooKeeper(link, held) => {
                if let Some(held) = held {
                    held.reached().await;
                }
                link.black_hole();
            }
        }
    }

    pub(super) fn release(&mut self) {
        match self {
            Self::Redis(proxy) => drop(proxy.gate.send_replace(Gate::Open)),
            Self::ZooKeeper(link, held) => {
                held.take().into_iter().for_each(Held::release);
                link.restore();
            }
        }
    }
}

/// A proxy on loopback to Redis's socket. A client sends one command after the other, so each read is a reply.
pub(super) struct Proxy {
    address: String,
    gate: watch::Sender<Gate>,
    _task: JoinSet<()>,
}

/// What becomes of the next reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// So many replies pass before the one that is held back.
    After(usize),
    Shut,
}

impl Proxy {
    async fn start(socket: std::path::PathBuf) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let (address, gate) = (listener.local_addr()?.to_string(), watch::Sender::new(Gate::Open));
        let (mut task, gates) = (JoinSet::new(), gate.clone());
        task.spawn(async move {
            // They end with this task.
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = UnixStream::connect(&socket).await {
                    connections.spawn(pass(client, server, gates.clone()));
                }
            }
        });
        Ok(Self { address, gate, _task: task })
    }

    async fn reached(&self, gate: Gate) {
        // An error would mean that the sender is gone, and this is one.
        let _ = self.gate.subscribe().wait_for(|present| *present == gate).await;
    }
}

/// Passes commands on as they come, and replies one by one.
async fn pass(mut client: TcpStream, mut server: UnixStream, gate: watch::Sender<Gate>) {
    let (mut commands, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let replies = async {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let Ok(read @ 1..) = from_server.read(&mut buffer).await else { return };
            gate.send_if_modified(|gate| {
                let before = *gate;
                *gate = match before {
                    Gate::After(0) => Gate::Shut,
                    Gate::After(replies) => Gate::After(replies - 1),
                    before => before,
                };
                *gate != before
            });
            let _ = gate.subscribe().wait_for(|gate| *gate != Gate::Shut).await;
            if to_client.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = copy(&mut commands, &mut to_server) => {}
        () = replies => {}
    }
}
