//! The shared register that a lock protects: a number, which holders read, and write one higher.
//!
//! The register compares the token of each call, reads included: a former holder is refused as soon as its successor has read, so two
//! writes are never built on the same value. Calls without a token are always admitted, as a store behind a lock without tokens does.

use serde::{Deserialize, Serialize};
use zklock::{FenceGate, FencingToken};

use crate::clock::Instant;
use crate::record::Who;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub who: Who,
    pub token: Option<FencingToken>,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
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
pub type Answer = Option<u64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    pub at: Instant,
    pub who: Who,
    pub token: Option<FencingToken>,
    /// What its writer had read.
    pub read: u64,
    pub value: u64,
}

impl Write {
    pub fn sample(at: u64, who: Who, token: i64, read: u64) -> Self {
        Self { at: Instant(at), who, token: Some(FencingToken::new(token)), read, value: read + 1 }
    }
}

/// A reader's read that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub who: Who,
    pub token: Option<FencingToken>,
    /// What it was told.
    pub value: u64,
    /// How many writes had been accepted before.
    pub writes: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub value: u64,
    pub writes: Vec<Write>,
    pub looks: Vec<Look>,
}

impl Ledger {
    pub fn sample(writes: Vec<Write>) -> Self {
        Self { value: writes.len() as u64, writes, ..Self::default() }
    }
}

#[derive(Debug, Default)]
pub struct Store {
    gate: FenceGate,
    pub ledger: Ledger,
}

impl Store {
    pub fn take(&mut self, Call { who, token, what }: Call, at: Instant) -> Answer {
        let Self { gate, ledger } = self;
        let is_admitted = token.is_none_or(|token| match what {
            What::Look => gate.admit_shared(token).is_ok(),
            What::Read | What::Write { .. } => gate.admit(token).is_ok(),
        });
        if !is_admitted {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked for one after the other, with these tokens, and the answers.
    fn asked(calls: &[(Option<i64>, What, Answer)]) -> Ledger {
        let mut store = Store::default();
        for (number, (token, what, answer)) in calls.iter().enumerate() {
            let call =
                Call { who: Who { client: 1, task: 1 }, token: token.map(FencingToken::new), what: *what };
            assert_eq!(store.take(call, Instant(1)), *answer, "call {number}");
        }
        store.ledger
    }

    const FIRST: What = What::Write { read: 0, value: 1 };

    #[test]
    fn a_holder_that_was_succeeded_is_refused_once_its_successor_has_read() {
        let ledger = asked(&[
            (Some(5), What::Read, Some(0)),
            (Some(6), What::Read, Some(0)),
            (Some(5), FIRST, None),
            (Some(6), FIRST, Some(1)),
            (Some(5), What::Read, None),
        ]);
        assert_eq!((ledger.value, ledger.writes.len(), ledger.looks.len()), (1, 1, 0));
    }

    #[test]
    fn readers_share_the_register_until_a_writer_comes() {
        let ledger = asked(&[
            (Some(6), What::Look, Some(0)),
            (Some(5), What::Look, Some(0)),
            (Some(5), FIRST, None),
            (Some(7), FIRST, Some(1)),
            (Some(6), What::Look, None),
            (Some(8), What::Look, Some(1)),
        ]);
        let looks: Vec<_> = ledger.looks.iter().map(|look| (look.token, look.writes)).collect();
        let token = |token| Some(FencingToken::new(token));
        assert_eq!(looks, [(token(6), 0), (token(5), 0), (token(8), 1)]);
    }

    #[test]
    fn without_tokens_everything_is_taken() {
        let ledger = asked(&[(None, FIRST, Some(1)), (None, FIRST, Some(1))]);
        assert_eq!((ledger.value, ledger.writes.len()), (1, 2));
    }
}
