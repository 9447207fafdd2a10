//! A holder in a process of its own.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use zklock_test_support::within;

use super::contest::{TIMEOUT, session};
use crate::harness::{Process, Voice, orders, say};

/// What the holder's process is told at its start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    servers: String,
    path: String,
}

/// What the holder is to do next.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Ask its guard whether it is held.
    Check,
    /// Write its token by a transaction under its lock.
    Write,
}

/// The holder's answer to [`Order::Check`] while its guard is valid; otherwise it says why it was lost.
pub(crate) const HELD: &str = "held";

/// Its answer to [`Order::Write`] if its token is in the store.
pub(crate) const WRITTEN: &str = "written";

pub(crate) struct Holder {
    pub(crate) process: Process,
    voice: Voice,
}

impl Holder {
    pub(crate) fn start(servers: &str, path: &str) -> Self {
        let part = Part { servers: servers.to_owned(), path: path.to_owned() };
        let (process, voice) = Process::start("margins-holder", &part, Vec::new()).expect("a process");
        Self { process, voice }
    }

    pub(crate) async fn says(&mut self) -> String {
        within("the holder's word", self.voice.next()).await.expect("a word").expect("the holder ended")
    }

    pub(crate) async fn answers(&mut self, order: Order) -> String {
        self.process.tell(&order).await.expect("the holder listens");
        self.says().await
    }
}

/// The holder: acquires the lock and says its token, then obeys until nobody gives orders any more.
pub(crate) async fn hold(Part { servers, path }: Part) -> anyhow::Result<()> {
    let mut orders = orders()?;
    let session = session(servers, TIMEOUT).await;
    let guard = session.lock(&path)?.acquire().await?;
    let token = guard.token().to_string();
    say(&token)?;
    loop {
        match orders.recv().await.context("no orders any more")? {
            Order::Check => {
                say(&guard.check().map_or_else(|lost| lost.reason.to_string(), |()| HELD.to_owned()))?;
            }
            Order::Write => {
                let store = format!("{path}-store");
                let written = guard.transaction().set(store, token.as_str(), None).commit().await;
                say(&written.map_or_else(|refused| refused.to_string(), |_| WRITTEN.to_owned()))?;
            }
        }
    }
}
