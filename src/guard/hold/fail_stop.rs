//! Fail-stop: a thread of the operating system ends the process once a guard is lost that its caller has kept.
//!
//! The thread serves all holds of the process. It needs no runtime, and runs no foreign code: a caller's waker or a subscriber of
//! `tracing` may block as the runtime does. So it wakes nobody for the end of a lease or of a `max_hold`: each task that waits
//! for such an end has a timer of its own.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::turn::Turn;
use crate::guard::lost::LostReason;
use crate::mutex::Mutex;

/// How often the thread looks at least. Its clock stops while the machine is suspended, and nobody wakes it for a loss.
const OFTEN: Duration = Duration::from_millis(100);

/// For how long the message may delay the end of the process: its pipe may be full.
const MESSAGE: Duration = Duration::from_millis(50);

static WATCHED: Mutex<Option<Sender<Weak<Turn>>>> = Mutex::new(None);

/// Starts the thread, unless it runs already.
pub(crate) fn start() -> io::Result<()> {
    let mut watched = WATCHED.lock();
    if watched.is_none() {
        let (sender, receiver) = channel();
        thread::Builder::new().name("zklock-fail-stop".to_owned()).spawn(move || watch(&receiver))?;
        *watched = Some(sender);
    }
    Ok(())
}

impl Turn {
    /// From here on, the process ends if this turn is lost while a guard of it is there.
    pub(crate) fn fail_stop(self: &Arc<Self>) {
        // The thread runs for as long as the process does.
        let _sent = WATCHED.lock().as_ref().map(|watched| watched.send(Arc::downgrade(self)));
    }
}

fn watch(added: &Receiver<Weak<Turn>>) {
    let mut turns = Vec::new();
    let mut pause = OFTEN;
    loop {
        let next = if turns.is_empty() {
            added.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            added.recv_timeout(pause)
        };
        match next {
            Ok(turn) => turns.push(turn),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        pause = OFTEN;
        turns.retain(|turn: &Weak<Turn>| match turn.upgrade().and_then(|turn| look(&turn)) {
            Some(left) => {
                pause = pause.min(left);
                true
            }
            None => false,
        });
    }
}

/// For how long the turn is certainly held. `None` if it is over, and nobody has a guard of it.
fn look(turn: &Turn) -> Option<Duration> {
    let Some(mark) = turn.held.look() else { return (!turn.is_over()).then(|| turn.held.remaining()) };
    let reason = mark.loss.reason;
    if turn.is_over() || reason == LostReason::Released || turn.shares.load(Ordering::Acquire) == 0 {
        return None;
    }
    end(format!(
        "zklock ends this process: {}, and its guard was neither released nor dropped",
        turn.as_lost(reason)
    ))
}

fn end(message: String) -> ! {
    let began = Instant::now();
    if let Ok(told) = thread::Builder::new().spawn(move || eprintln!("{message}")) {
        while !told.is_finished() && began.elapsed() < MESSAGE {
            thread::sleep(Duration::from_millis(1));
        }
    }
    // `exit` would run handlers, which may block as well.
    std::process::abort()
}
