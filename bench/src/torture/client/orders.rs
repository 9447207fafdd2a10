//! What the coordinator tells a client, in lines on standard input.

use std::io::BufRead;
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::sync::watch;
use tokio::time::Instant;

/// Whoever holds, holds on for so many milliseconds from now.
pub(in crate::torture) const STAY: &str = "stay";
/// For so many milliseconds from now, acquisitions are not polled.
pub(in crate::torture) const NEGLECT: &str = "neglect";
/// From now on, whoever comes to the queue has a takeover delay of so many milliseconds.
pub(in crate::torture) const DELAY: &str = "delay";
/// Each contender is to be granted once more, and then to stop.
pub(in crate::torture) const FINISH: &str = "finish";
/// The session is to be closed, and the process to end.
pub(in crate::torture) const END: &str = "end";

#[derive(Clone, Copy, Debug, Default)]
struct Present {
    stay: Option<Instant>,
    neglect: Option<Instant>,
    delay: Duration,
    finish: bool,
    end: bool,
}

/// What was ordered so far.
#[derive(Clone, Debug)]
pub(super) struct Orders(watch::Receiver<Present>);

/// Follows the orders. This process ends with the coordinator, however that comes about, stopped or not.
pub(super) fn listen() -> anyhow::Result<Orders> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let (told, orders) = watch::channel(Present::default());
    // A thread of its own, so that nothing keeps it from doing so.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let mut words = line.split(' ');
            match (words.next(), words.next().and_then(|number| number.parse().ok())) {
                (Some(STAY), Some(time)) => {
                    let until = Instant::now() + Duration::from_millis(time);
                    told.send_modify(|present| present.stay = Some(until));
                }
                (Some(NEGLECT), Some(time)) => {
                    let until = Instant::now() + Duration::from_millis(time);
                    told.send_modify(|present| present.neglect = Some(until));
                }
                (Some(DELAY), Some(time)) => {
                    told.send_modify(|present| present.delay = Duration::from_millis(time));
                }
                (Some(FINISH), _) => told.send_modify(|present| present.finish = true),
                (Some(END), _) => told.send_modify(|present| present.end = true),
                _ => eprintln!("a client does not understand {line:?}"),
            }
        }
        std::process::exit(3);
    });
    Ok(Orders(orders))
}

impl Orders {
    pub(super) fn is_to_finish(&self) -> bool {
        self.0.borrow().finish
    }

    /// The takeover delay of whoever comes now.
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

    /// Resolves as soon as acquisitions are not to be polled, with the instant until which that is so.
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

    pub(super) async fn end(&mut self) {
        let _ended = self.0.wait_for(|present| present.end).await;
    }
}
