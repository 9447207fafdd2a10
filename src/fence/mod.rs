//! Fencing: what a store or a server checks by itself, because no lease can stop a process that is paused.

mod gate;
mod sequencer;
mod token;

pub use gate::{FenceGate, StaleToken};
pub use sequencer::{InvalidSequencer, Sequencer};
pub use token::FencingToken;
