//! The shared register that a lock protects: a number, which holders read, and write one higher.
//!
//! Requests are lines of JSON over TCP on loopback, past all faults. The register compares the token of each request, reads
//! included: a former holder is refused as soon as its successor has read, so two writes are never built on the same value.
//! Requests without a token are always admitted, as a store behind a lock without tokens does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use zklock::{FenceGate, FencingToken};

use super::clock::Instant;
use super::speech::to_line;

/// What a holder asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Request<W> {
    /// `shared` if its guard is a reader's.
    Read {
        who: W,
        token: Option<FencingToken>,
        shared: bool,
    },
    Write {
        who: W,
        token: Option<FencingToken>,
        read: u64,
        value: u64,
    },
}

/// What the register answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Value(u64),
    Accepted,
    /// A higher token was there before: of anybody for a writer, of a writer for a reader.
    Stale,
}

/// A write that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Write<W> {
    pub(crate) at: Instant,
    pub(crate) who: W,
    pub(crate) token: Option<FencingToken>,
    /// What its writer had read.
    pub(crate) read: u64,
    pub(crate) value: u64,
}

#[cfg(test)]
impl<W> Write<W> {
    /// One of a value that is one higher than what was read, for tests.
    pub(crate) fn sample(at: u64, who: W, token: i64, read: u64) -> Self {
        Self { at: Instant(at), who, token: Some(FencingToken::new(token)), read, value: read + 1 }
    }
}

/// A reader's read that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look<W> {
    pub(crate) who: W,
    pub(crate) token: Option<FencingToken>,
    /// What it was told.
    pub(crate) value: u64,
    /// How many writes had been accepted before.
    pub(crate) writes: usize,
}

/// What the register was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Ledger<W> {
    pub(crate) value: u64,
    pub(crate) writes: Vec<Write<W>>,
    pub(crate) looks: Vec<Look<W>>,
    /// Reads of writers.
    pub(crate) reads: u64,
    /// Reads and writes that were refused for their tokens.
    pub(crate) refused_reads: u64,
    pub(crate) refused_writes: u64,
}

impl<W> Default for Ledger<W> {
    fn default() -> Self {
        let (writes, looks) = (Vec::new(), Vec::new());
        Self { value: 0, writes, looks, reads: 0, refused_reads: 0, refused_writes: 0 }
    }
}

#[cfg(test)]
impl<W> Ledger<W> {
    /// One that was written to, for tests.
    pub(crate) fn sample(writes: Vec<Write<W>>) -> Self {
        Self { value: writes.len() as u64, writes, ..Self::default() }
    }
}

/// The register, as long as its task serves it.
pub(crate) struct Register<W> {
    address: String,
    store: Arc<Mutex<Store<W>>>,
    task: tokio::task::JoinHandle<()>,
}

struct Store<W> {
    gate: FenceGate,
    ledger: Ledger<W>,
}

impl<W: Clone + DeserializeOwned + Send + 'static> Register<W> {
    pub(crate) async fn open() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot open the register")?;
        let address = listener.local_addr()?.to_string();
        let store = Arc::new(Mutex::new(Store { gate: FenceGate::new(), ledger: Ledger::default() }));
        let task = tokio::spawn({
            let store = store.clone();
            async move {
                // A client that cannot be accepted connects again.
                loop {
                    if let Ok((stream, _)) = listener.accept().await {
                        tokio::spawn(serve(stream, store.clone()));
                    }
                }
            }
        });
        Ok(Self { address, store, task })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// What it was asked for so far.
    pub(crate) fn ledger(&self) -> Ledger<W> {
        locked(&self.store).ledger.clone()
    }
}

impl<W> Drop for Register<W> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn locked<W>(store: &Mutex<Store<W>>) -> MutexGuard<'_, Store<W>> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends with its client.
async fn serve<W: DeserializeOwned>(stream: TcpStream, store: Arc<Mutex<Store<W>>>) {
    let _ = stream.set_nodelay(true);
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(request) = serde_json::from_str(&line) else { return };
        let answer = locked(&store).take(request, Instant::now());
        let Ok(answer) = to_line(&answer) else { return };
        if writer.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

impl<W> Store<W> {
    fn take(&mut self, request: Request<W>, at: Instant) -> Answer {
        let (Request::Read { token, .. } | Request::Write { token, .. }) = request;
        let shared = matches!(request, Request::Read { shared: true, .. });
        let admitted = token.is_none_or(|token| match shared {
            true => self.gate.admit_shared(token).is_ok(),
            false => self.gate.admit(token).is_ok(),
        });
        match request {
            Request::Read { who, .. } if admitted && shared => {
                let (value, writes) = (self.ledger.value, self.ledger.writes.len());
                self.ledger.looks.push(Look { who, token, value, writes });
                Answer::Value(value)
            }
            Request::Read { .. } if admitted => {
                self.ledger.reads += 1;
                Answer::Value(self.ledger.value)
            }
            Request::Write { who, token, read, value } if admitted => {
                self.ledger.value = value;
                self.ledger.writes.push(Write { at, who, token, read, value });
                Answer::Accepted
            }
            Request::Read { .. } => {
                self.ledger.refused_reads += 1;
                Answer::Stale
            }
            Request::Write { .. } => {
                self.ledger.refused_writes += 1;
                Answer::Stale
            }
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
    pub(crate) async fn ask<W: Serialize>(&mut self, request: Request<W>) -> anyhow::Result<Answer> {
        let line = to_line(&request)?;
        self.writer.write_all(line.as_bytes()).await.context("the register is gone")?;
        let answer = self.lines.next_line().await?.context("the register is gone")?;
        Ok(serde_json::from_str(&answer)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: u16 = 1;

    #[tokio::test]
    async fn a_holder_that_was_succeeded_is_refused_once_its_successor_has_read() {
        let register = Register::<u16>::open().await.unwrap();
        let mut desk = Desk::connect(register.address()).await.unwrap();
        let read = |token| Request::Read { who: WHO, token: Some(FencingToken::new(token)), shared: false };
        let write = |token, read| Request::Write {
            who: WHO,
            token: Some(FencingToken::new(token)),
            read,
            value: read + 1,
        };
        assert_eq!(desk.ask(read(5)).await.unwrap(), Answer::Value(0));
        assert_eq!(desk.ask(read(6)).await.unwrap(), Answer::Value(0));
        assert_eq!(desk.ask(write(5, 0)).await.unwrap(), Answer::Stale);
        assert_eq!(desk.ask(write(6, 0)).await.unwrap(), Answer::Accepted);
        assert_eq!(desk.ask(read(5)).await.unwrap(), Answer::Stale);
        let ledger = register.ledger();
        assert_eq!((ledger.value, ledger.writes.len(), ledger.reads), (1, 1, 2));
        assert_eq!((ledger.refused_reads, ledger.refused_writes), (1, 1));
    }

    #[tokio::test]
    async fn readers_share_the_register_until_a_writer_comes() {
        let register = Register::<u16>::open().await.unwrap();
        let mut desk = Desk::connect(register.address()).await.unwrap();
        let look = |token| Request::Read { who: WHO, token: Some(FencingToken::new(token)), shared: true };
        let write =
            |token| Request::Write { who: WHO, token: Some(FencingToken::new(token)), read: 0, value: 1 };
        for token in [6, 5] {
            assert_eq!(desk.ask(look(token)).await.unwrap(), Answer::Value(0));
        }
        assert_eq!(desk.ask(write(5)).await.unwrap(), Answer::Stale);
        assert_eq!(desk.ask(write(7)).await.unwrap(), Answer::Accepted);
        assert_eq!(desk.ask(look(6)).await.unwrap(), Answer::Stale);
        assert_eq!(desk.ask(look(8)).await.unwrap(), Answer::Value(1));
        let looks: Vec<_> = register.ledger().looks.iter().map(|look| (look.token, look.writes)).collect();
        assert_eq!(
            looks,
            [(6, 0), (5, 0), (8, 1)].map(|(token, writes)| (Some(FencingToken::new(token)), writes))
        );
    }

    #[tokio::test]
    async fn without_tokens_everything_is_taken() {
        let register = Register::<u16>::open().await.unwrap();
        let mut desk = Desk::connect(register.address()).await.unwrap();
        let write = Request::Write { who: WHO, token: None, read: 0, value: 1 };
        assert_eq!(desk.ask(write).await.unwrap(), Answer::Accepted);
        assert_eq!(desk.ask(write).await.unwrap(), Answer::Accepted);
        let ledger = register.ledger();
        assert_eq!((ledger.value, ledger.writes.len()), (1, 2));
    }
}
