//! Fail-stop: a thread of the operating system ends the process once a guard is lost that its caller has kept.
//!
//! The thread serves all holds of the process. It needs no runtime, and runs no foreign code: a caller's waker or a subscriber of
//! `tracing` may block as the runtime does. So it wakes nobody for the end of a lease or of a `max_hold`: each task that waits
//! for such an end has a timer of its own. A second thread does what may block: it writes the message, and drops turns.

use std::io;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::turn::Turn;
use crate::guard::lost::LostReason;
use crate::mutex::Mutex;

/// How often the thread looks at each turn at least. Its clock stops while the machine is suspended, and nobody wakes it for a loss.
const OFTEN: Duration = Duration::from_millis(100);

/// For how long the message may delay the end of the process: its pipe may be full.
const MESSAGE: Duration = Duration::from_millis(50);

/// How many turns are taken in before those that are watched have their turn again.
const AT_ONCE: usize = 1_000;

/// The process that has the threads, and the way to the first of them. A child of `fork` has neither thread.
static WATCHED: Mutex<Option<(u32, Sender<Arc<Turn>>)>> = Mutex::new(None);

/// What may block.
enum Chore {
    Drop(Arc<Turn>),
    Write(String, Sender<()>),
}

/// Starts the threads, unless they run already.
pub(crate) fn start() -> io::Result<()> {
    let mut watched = WATCHED.lock();
    if watched.as_ref().is_none_or(|(process, _)| *process != process::id()) {
        let ((sender, added), (chores, given)) = (channel(), channel());
        let thread = |name: &str| thread::Builder::new().name(format!("zklock-{name}"));
        thread("chores").spawn(move || given.into_iter().for_each(perform))?;
        thread("fail-stop").spawn(move || watch(&added, |turn| look_at_turn(turn, &chores)))?;
        *watched = Some((process::id(), sender));
    }
    Ok(())
}

impl Turn {
    /// From here on, the process ends if this turn is lost while a guard of it is there.
    pub(crate) fn fail_stop(self: &Arc<Self>) {
        self.stops_process.store(true, Ordering::Relaxed);
        // The thread runs for as long as the process does.
        let _sent = WATCHED.lock().as_ref().map(|(_, watched)| watched.send(self.clone()));
    }

    /// The caller lets go: from here on a loss does not end the process, though a guard is kept in the background. Returns whether it
    /// would have ended the process before.
    pub(crate) fn let_go(&self) -> bool {
        self.stops_process.swap(false, Ordering::Release)
    }
}

/// Looks at each turn that is added: as it comes, whenever it may be lost, and often. `look` says for how long the turn is
/// certainly held; nothing if the turn need not be watched any more.
fn watch<T>(added: &Receiver<T>, mut look: impl FnMut(T) -> Option<(T, Duration)>) {
    let mut turns = Vec::new();
    let mut next = Instant::now();
    loop {
        let looked = if turns.is_empty() {
            let Ok(turn) = added.recv() else { return };
            next = Instant::now() + OFTEN;
            vec![turn]
        } else if next <= Instant::now() {
            next = Instant::now() + OFTEN;
            // If this takes longer than the pause, the next look is due at once. So those that were added are taken in here, too.
            std::mem::take(&mut turns).into_iter().chain(added.try_iter()).collect::<Vec<_>>()
        } else {
            match added.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(turn) => iter::once(turn).chain(added.try_iter().take(AT_ONCE)).collect(),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        };
        for (turn, left) in looked.into_iter().filter_map(&mut look) {
            next = next.min(Instant::now() + left);
            turns.push(turn);
        }
    }
}

/// Says for how long the turn is certainly held. Has it dropped if it is over, or if nobody has a guard of it.
fn look_at_turn(turn: Arc<Turn>, chores: &Sender<Chore>) -> Option<(Arc<Turn>, Duration)> {
    if let Some(left) = held_for(&turn, chores) {
        return Some((turn, left));
    }
    // The thread for it runs for as long as the process does.
    let _sent = chores.send(Chore::Drop(turn));
    None
}

/// For how long the turn is certainly held. `None` if it is over, or if nobody has a guard of it.
fn held_for(turn: &Turn, chores: &Sender<Chore>) -> Option<Duration> {
    let loss = turn.held.find_loss().map(|mark| mark.loss.reason);
    let is_kept = turn.shares.load(Ordering::Acquire) > 0 && turn.stops_process.load(Ordering::Acquire);
    if turn.is_over() || !is_kept || loss == Some(LostReason::Released) {
        return None;
    }
    let Some(reason) = loss else { return Some(turn.held.remaining()) };
    end(format!("{}, and its guard was neither released nor dropped", turn.as_lost(reason)), chores)
}

fn end(why: String, chores: &Sender<Chore>) -> ! {
    let (written, writes) = channel();
    let _sent = chores.send(Chore::Write(format!("zklock ends this process: {why}"), written));
    let _written = writes.recv_timeout(MESSAGE);
    // `exit` would run handlers, which may block as well.
    process::abort()
}

/// A waker that is dropped with a turn may panic. The thread goes on.
fn perform(chore: Chore) {
    let _panicked = catch_unwind(AssertUnwindSafe(|| match chore {
        Chore::Drop(turn) => drop(turn),
        Chore::Write(message, written) => {
            eprintln!("{message}");
            drop(written);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_looked_at_though_each_look_takes_longer_than_the_pause_between_two() {
        let ((sender, added), (looked, looks)) = (channel(), channel());
        let look = move |turn| {
            thread::sleep(OFTEN);
            looked.send(turn).ok().map(|()| (turn, OFTEN))
        };
        thread::spawn(move || watch(&added, look));
        sender.send("first").unwrap();
        assert_eq!(looks.recv(), Ok("first"));
        sender.send("second").unwrap();
        assert!(looks.iter().take(10).any(|turn| turn == "second"));
    }
}
