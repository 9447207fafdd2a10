//! Timers of a process, on its own `CLOCK_MONOTONIC`, in nanoseconds.

use std::task::Waker;

use crate::ids::ProcessId;
use crate::{libc, state};

/// A timer that is set. Dropping it takes it back.
#[derive(Debug)]
pub struct Timer {
    process: ProcessId,
    key: (u64, u64),
}

impl Timer {
    /// Has the waker woken so many nanoseconds after the clock that the process has read last.
    pub fn set(nanoseconds: u64, waker: Waker) -> Self {
        let process = libc::current().expect("a simulated process");
        let at = libc::last_read().saturating_add(nanoseconds);
        let key = state::with(|state| {
            let process = state.processes.get_mut(&process).expect("the process that is being stepped");
            process.set += 1;
            process.timers.insert((at, process.set), waker);
            (at, process.set)
        });
        Self { process, key }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let waker = state::with(|state| {
            state.processes.get_mut(&self.process).map(|process| process.timers.remove(&self.key))
        });
        drop(waker);
    }
}
