//! What a process is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// A holder holds on for so long from now.
    Stay(Duration),
    /// For so long from now, acquisitions and releases are not polled.
    Neglect(Duration),
    /// Each contender is to be granted once more, and then to stop.
    Finish,
    /// Observers are to observe no more, and witnesses are to let go.
    LookAway,
    /// The session is to be closed, and the process to end.
    End,
}

#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    stay: Option<Instant>,
    neglect: Option<Instant>,
    finish: bool,
    look_away: bool,
    end: bool,
}

#[derive(Clone, Debug)]
pub struct Orders(watch::Receiver<Standing>);

#[derive(Debug, Default)]
pub struct Orderer(watch::Sender<Standing>);

impl Orderer {
    pub fn give(&self, order: Order) {
        self.0.send_modify(|standing| match order {
            Order::Stay(time) => standing.stay = Some(Instant::now() + time),
            Order::Neglect(time) => standing.neglect = Some(Instant::now() + time),
            Order::Finish => standing.finish = true,
            Order::LookAway => standing.look_away = true,
            Order::End => standing.end = true,
        });
    }

    /// What it has ordered so far, and orders from now on.
    pub fn orders(&self) -> Orders {
        Orders(self.0.subscribe())
    }
}

impl Orders {
    pub fn is_to_finish(&self) -> bool {
        self.0.borrow().finish
    }

    /// Resolves at this instant, or later if it is to stay.
    pub async fn stay(&mut self, until: Instant) {
        loop {
            let stay = self.0.borrow_and_update().stay;
            let until = stay.map_or(until, |stay| stay.max(until));
            tokio::select! {
                () = tokio::time::sleep_until(until) => return,
                // Its sender lives as long as the process.
                _ = self.0.changed() => {}
            }
        }
    }

    /// Resolves as soon as no call is to be polled, with the instant until which that is so.
    pub async fn neglect(&mut self) -> Instant {
        let is_on = |standing: &Standing| standing.neglect.filter(|until| *until > Instant::now());
        loop {
            if let Some(until) = is_on(&self.0.borrow_and_update()) {
                return until;
            }
            // Its sender lives as long as the process.
            let _changed = self.0.changed().await;
        }
    }

    /// Observes or witnesses until that is to stop.
    pub async fn unless_looking_away(mut self, looking: impl Future<Output = ()>) {
        tokio::select! {
            _ended = self.0.wait_for(|standing| standing.look_away) => {}
            () = looking => {}
        }
    }

    pub async fn end(&mut self) {
        let _ended = self.0.wait_for(|standing| standing.end).await;
    }
}
