//! What the lock protects: a store in the conductor's process, which remembers what it accepted and when.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use zklock::{FenceGate, FencingToken};

use crate::clock::Instant;

/// A write that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) contender: usize,
    pub(crate) at: Instant,
}

/// The store. It serves until it is dropped.
pub(crate) struct Store {
    /// Holds the socket.
    directory: TempDir,
    shelf: Arc<Mutex<Shelf>>,
    server: JoinHandle<()>,
}

/// What is behind the store's mutex: the gate, and what it protects.
#[derive(Default)]
struct Shelf {
    /// `None` for a store that looks at no token.
    gate: Option<FenceGate>,
    accepted: Vec<Write>,
    refused: usize,
}

#[derive(Serialize, Deserialize)]
struct Request {
    contender: usize,
    token: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct Reply {
    accepted: bool,
}

impl Store {
    /// Opens an empty store, which compares tokens if it is `fenced`.
    pub(crate) fn open(fenced: bool) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("strictness-").tempdir()?;
        let listener = UnixListener::bind(directory.path().join("store")).context("cannot open a store")?;
        let shelf = Arc::new(Mutex::new(Shelf { gate: fenced.then(FenceGate::new), ..Shelf::default() }));
        let server = tokio::spawn(serve(listener, shelf.clone()));
        Ok(Self { directory, shelf, server })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    /// The writes that were accepted, in order.
    pub(crate) fn accepted(&self) -> Vec<Write> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner).accepted.clone()
    }

    /// How many writes were refused.
    pub(crate) fn refused(&self) -> usize {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner).refused
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: UnixListener, shelf: Arc<Mutex<Shelf>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shelf = shelf.clone();
        // It ends with its client.
        tokio::spawn(async move {
            let (requests, mut replies) = stream.into_split();
            let mut requests = BufReader::new(requests).lines();
            while let Ok(Some(request)) = requests.next_line().await {
                let Ok(request) = serde_json::from_str(&request) else { return };
                let accepted = shelf.lock().unwrap_or_else(PoisonError::into_inner).write(&request);
                if send(&mut replies, &Reply { accepted }).await.is_err() {
                    return;
                }
            }
        });
    }
}

impl Shelf {
    /// Whether it was accepted.
    fn write(&mut self, request: &Request) -> bool {
        if let (Some(gate), Some(token)) = (&mut self.gate, request.token)
            && gate.admit(FencingToken::new(token)).is_err()
        {
            self.refused += 1;
            return false;
        }
        self.accepted.push(Write { contender: request.contender, at: Instant::now() });
        true
    }
}

/// A contender's way to the store.
pub(crate) struct Pen {
    contender: usize,
    requests: OwnedWriteHalf,
    replies: tokio::io::Lines<BufReader<OwnedReadHalf>>,
}

impl Pen {
    pub(crate) async fn open(socket: &Path, contender: usize) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket).await.context("cannot reach the store")?;
        let (replies, requests) = stream.into_split();
        Ok(Self { contender, requests, replies: BufReader::new(replies).lines() })
    }

    /// Whether the write was accepted.
    pub(crate) async fn write(&mut self, token: Option<i64>) -> anyhow::Result<bool> {
        send(&mut self.requests, &Request { contender: self.contender, token }).await?;
        let reply = self.replies.next_line().await?.context("the store is gone")?;
        let Reply { accepted } = serde_json::from_str(&reply)?;
        Ok(accepted)
    }
}

async fn send(to: &mut OwnedWriteHalf, message: &impl Serialize) -> anyhow::Result<()> {
    let line = serde_json::to_string(message)? + "\n";
    Ok(to.write_all(line.as_bytes()).await?)
}
