//! The shared register of [`zklock_contest`], served to processes: lines of JSON over TCP on loopback, past all faults.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use zklock_contest::register::{Answer, Call, Ledger, Store};

use crate::harness::{now, to_line};

/// The register, as long as it is served.
pub(crate) struct Register {
    address: String,
    store: Arc<Mutex<Store>>,
    _served: JoinSet<()>,
}

impl Register {
    pub(crate) async fn open() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot open the register")?;
        let address = listener.local_addr()?.to_string();
        let store = Arc::new(Mutex::new(Store::default()));
        let (mut served, its) = (JoinSet::new(), store.clone());
        served.spawn(async move {
            // A client that cannot be accepted connects again.
            loop {
                if let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, its.clone()));
                }
            }
        });
        Ok(Self { address, store, _served: served })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn ledger(&self) -> Ledger {
        locked(&self.store).ledger.clone()
    }
}

fn locked(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends with its client.
async fn serve(stream: TcpStream, store: Arc<Mutex<Store>>) {
    let _ = stream.set_nodelay(true);
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(call) = serde_json::from_str(&line) else { return };
        let answer = locked(&store).take(call, now());
        let Ok(answer) = to_line(&answer) else { return };
        if writer.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A contender's connection to the register.
pub(crate) struct Desk {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl Desk {
    pub(crate) async fn connect(address: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("the register is gone")?;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        Ok(Self { lines: BufReader::new(reader).lines(), writer })
    }

    /// If this is dropped before the answer has come, the next request gets that answer.
    pub(crate) async fn ask(&mut self, call: Call) -> anyhow::Result<Answer> {
        let line = to_line(&call)?;
        self.writer.write_all(line.as_bytes()).await.context("the register is gone")?;
        let answer = self.lines.next_line().await?.context("the register is gone")?;
        Ok(serde_json::from_str(&answer)?)
    }
}
