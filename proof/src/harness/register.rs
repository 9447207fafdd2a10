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
use tokio::task::JoinSet;
use zklock::{FenceGate, FencingToken};

use super::clock::Instant;
use super::speech::to_line;

/// What a holder asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request<W> {
    pub(crate) who: W,
    pub(crate) token: Option<FencingToken>,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    Read,
    /// A read under the guard of a reader.
    Look,
    /// A write of this value by one that has read the other one.
    Write {
        read: u64,
        value: u64,
    },
}

/// What the register has then; `None` if a higher token was there before: of anybody for a writer, of a writer for a reader.
pub(crate) type Answer = Option<u64>;

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
    /// Reads and writes that were refused for their tokens.
    pub(crate) refused_reads: u64,
    pub(crate) refused_writes: u64,
}

impl<W> Default for Ledger<W> {
    fn default() -> Self {
        let (writes, looks) = (Vec::new(), Vec::new());
        Self { value: 0, writes, looks, refused_reads: 0, refused_writes: 0 }
    }
}

#[cfg(test)]
impl<W> Ledger<W> {
    /// One that was written to, for tests.
    pub(crate) fn sample(writes: Vec<Write<W>>) -> Self {
        Self { value: writes.len() as u64, writes, ..Self::default() }
    }
}

/// The register, as long as it is served.
pub(crate) struct Register<W> {
    address: String,
    store: Arc<Mutex<Store<W>>>,
    _served: JoinSet<()>,
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

    /// What it was asked for so far.
    pub(crate) fn ledger(&self) -> Ledger<W> {
        locked(&self.store).ledger.clone()
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
    fn take(&mut self, Request { who, token, what }: Request<W>, at: Instant) -> Answer {
        let Self { gate, ledger } = self;
        let is_admitted = token.is_none_or(|token| match what {
            What::Look => gate.admit_shared(token).is_ok(),
            What::Read | What::Write { .. } => gate.admit(token).is_ok(),
        });
        if !is_admitted {
            let is_write = matches!(what, What::Write { .. });
            *(if is_write { &mut ledger.refused_writes } else { &mut ledger.refused_reads }) += 1;
            return None;
        }
        match what {
            What::Read => {}
            What::Look => {
                let (value, writes) = (ledger.value, ledger.writes.len());
                ledger.looks.push(Look { who, token, value, writes });
            }
            What::Write { read, value } => {
                ledger.value = value;
                ledger.writes.push(Write { at, who, token, read, value });
            }
        }
        Some(ledger.value)
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

    /// What is asked for one after the other, with these tokens, and the answers.
    async fn asked(requests: &[(Option<i64>, What, Answer)]) -> Ledger<u16> {
        let register = Register::<u16>::open().await.unwrap();
        let mut desk = Desk::connect(register.address()).await.unwrap();
        for (number, (token, what, answer)) in requests.iter().enumerate() {
            let request = Request { who: 1_u16, token: token.map(FencingToken::new), what: *what };
            assert_eq!(desk.ask(request).await.unwrap(), *answer, "request {number}");
        }
        register.ledger()
    }

    const FIRST: What = What::Write { read: 0, value: 1 };

    #[tokio::test]
    async fn a_holder_that_was_succeeded_is_refused_once_its_successor_has_read() {
        let ledger = asked(&[
            (Some(5), What::Read, Some(0)),
            (Some(6), What::Read, Some(0)),
            (Some(5), FIRST, None),
            (Some(6), FIRST, Some(1)),
            (Some(5), What::Read, None),
        ])
        .await;
        assert_eq!((ledger.value, ledger.writes.len(), ledger.looks.len()), (1, 1, 0));
        assert_eq!((ledger.refused_reads, ledger.refused_writes), (1, 1));
    }

    #[tokio::test]
    async fn readers_share_the_register_until_a_writer_comes() {
        let ledger = asked(&[
            (Some(6), What::Look, Some(0)),
            (Some(5), What::Look, Some(0)),
            (Some(5), FIRST, None),
            (Some(7), FIRST, Some(1)),
            (Some(6), What::Look, None),
            (Some(8), What::Look, Some(1)),
        ])
        .await;
        let looks: Vec<_> = ledger.looks.iter().map(|look| (look.token, look.writes)).collect();
        let token = |token| Some(FencingToken::new(token));
        assert_eq!(looks, [(token(6), 0), (token(5), 0), (token(8), 1)]);
    }

    #[tokio::test]
    async fn without_tokens_everything_is_taken() {
        let ledger = asked(&[(None, FIRST, Some(1)), (None, FIRST, Some(1))]).await;
        assert_eq!((ledger.value, ledger.writes.len()), (1, 2));
    }
}
