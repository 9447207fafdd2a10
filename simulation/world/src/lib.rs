//! The world that zklock's simulation runs the shipped code in: one thread, one seed, and a heap of events in global time.
//!
//! ```text
//!  process  ── async-io, async-net (shims) ──▶ timers, network ──▶ heap ──▶ World::advance ──▶ the servers' side
//!     ▲                                                             │
//!     └────────────── step until idle (clocks of its own) ◀─────────┘
//! ```
//!
//! A simulated process is a current-thread runtime of tokio. The world steps it whenever bytes or a timer reach it, until
//! it is idle. The other end of each connection belongs to the caller of [`World::advance`]: servers are state machines
//! there, on the same heap, by [`at`].
//!
//! Two runs with the same seed take the same steps if nothing in a process depends on an address, on the environment, or
//! on another thread.

mod clocks;
mod heap;
mod ids;
mod libc;
mod network;
mod random;
mod sockets;
mod state;
mod timers;
mod world;

pub use clocks::{Clock, Clocks, MILLISECOND, SECOND};
pub use ids::{ConnectionId, Direction, Happening, Host, ProcessId};
pub use libc::Preemption;
pub use network::{Latency, retransmission};
pub use random::Random;
pub use sockets::{Connecting, Socket};
pub use timers::Timer;
pub use world::World;

/// Has [`World::advance`] return `Custom` with this number at this instant.
pub fn at(instant: u64, number: u64) {
    state::with(|state| state.heap.push(instant, heap::Event::Custom(number)));
}

/// The name of the process that is being stepped.
pub fn current() -> String {
    libc::current().map_or_else(String::new, |process| format!("p{}", process.0))
}

/// The instant of global time: inside a step it includes what preemptions have taken.
pub fn now() -> u64 {
    state::with(|state| state.heap.now())
}
