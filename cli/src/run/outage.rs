//! An outage while a command waits: since when no server answers, and what zklock says of it.

use std::cell::Cell;
use std::convert::Infallible;
use std::fmt::Display;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use zklock::SessionState;

use crate::console::Console;
use crate::duration;

/// How long the servers may be away before zklock says so.
const UNTOLD: Duration = Duration::from_secs(2);

/// How often it looks whether they are.
const LOOK: Duration = Duration::from_millis(250);

/// Since when no server answers this session.
#[derive(Default)]
pub(super) struct Outage {
    since: Cell<Option<Instant>>,
    is_told: Cell<bool>,
}

impl Outage {
    /// Learns the session's state. In every state but one it has no server.
    pub(super) fn hear(&self, state: SessionState) {
        match state {
            SessionState::Connected => self.since.set(None),
            _ if self.since.get().is_none() => self.since.set(Some(Instant::now())),
            _ => {}
        }
    }

    /// How long it has lasted at least. `None` if the session has a server.
    pub(super) fn length(&self) -> Option<Duration> {
        self.since.get().map(|since| since.elapsed())
    }

    /// Says that no server answers, and later that one does.
    pub(super) async fn tell(&self, names: &impl Display, console: Console) -> Infallible {
        let mut is_away = false;
        loop {
            sleep(LOOK).await;
            match self.length() {
                Some(length) if length >= UNTOLD => {
                    is_away = true;
                    self.say(names, length, console);
                }
                None if is_away => {
                    is_away = false;
                    self.is_told.set(false);
                    console.note(format_args!("waiting for {names}: ZooKeeper answers again"));
                }
                _ => {}
            }
        }
    }

    /// Says that no server has answered for so long, once in an outage.
    pub(super) fn say(&self, names: &impl Display, length: Duration, console: Console) {
        if !self.is_told.replace(true) {
            let length = duration::text(length);
            console.alarm(format_args!(
                "waiting for {names}: ZooKeeper has not answered for {length}; zklock goes on trying"
            ));
        }
    }
}
