//! What the coordinator tells a client.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::harness::listen;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// A holder holds on for so long from now.
    Stay(Duration),
    /// For so long from now, acquisitions and releases are not polled.
    Neglect(Duration),
    /// A contender that comes to the queue from now on has this takeover delay.
    Delay(Duration),
    /// Each contender is to be granted once more, and then to stop.
    Finish,
    /// Observers are to observe no more, and witnesses are to let go.
    LookAway,
    /// The session is to be closed, and the process to end.
    End,
}

#[derive(Clone, Copy, Debug, Default)]
struct Present {
    stay: Option<Instant>,
    neglect: Option<Instant>,
    delay: Duration,
    finish: bool,
    look_away: bool,
    end: bool,
}

/// What was ordered so far.
#[derive(Clone, Debug)]
pub(super) struct Orders(watch::Receiver<Present>);

/// Follows the orders.
pub(super) fn follow() -> anyhow::Result<Orders> {
    let (told, orders) = watch::channel(Present::default());
    listen(move |order| {
        told.send_modify(|present| match order {
            Order::Stay(time) => present.stay = Some(Instant::now() + time),
            Order::Neglect(time) => present.neglect = Some(Instant::now() + time),
            Order::Delay(delay) => present.delay = delay,
            Order::Finish => present.finish = true,
            Order::LookAway => present.look_away = true,
            Order::End => present.end = true,
        });
    })?;
    Ok(Orders(orders))
}

impl Orders {
    pub(super) fn is_to_finish(&self) -> bool {
        self.0.borrow().finish
    }

    /// The takeover delay of a contender that comes now.
    pub(super) fn delay(&self) -> Duration {
        self.0.borrow().delay
    }

    /// Resolves at this instant, or later if it is to stay.
    pub(super) async fn stay(&mut self, until: Instant) {
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
    pub(super) async fn neglect(&mut self) -> Instant {
        let is_on = |present: &Present| present.neglect.filter(|until| *until > Instant::now());
        loop {
            if let Some(until) = is_on(&self.0.borrow_and_update()) {
                return until;
            }
            // Its sender lives as long as the process.
            let _changed = self.0.changed().await;
        }
    }

    /// Observes or witnesses until that is to stop.
    pub(super) async fn unless_looking_away(
        mut self,
        looking: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        tokio::select! {
            _ended = self.0.wait_for(|present| present.look_away) => Ok(()),
            failed = looking => failed,
        }
    }

    pub(super) async fn end(&mut self) {
        let _ended = self.0.wait_for(|present| present.end).await;
    }
}
