//! What is tortured: a mode is what contenders ask for, and what a run of it has to show.
//!
//! The faults are the same for all modes. So is what nobody may see: two guards in conflict, tokens out of order, a lost
//! update, an orphan, an acquisition without an end. A mode may forbid more.

mod election;
mod lock;
mod multi;
mod once;
mod pool;
mod registry;
mod rules;
mod rw;
mod semaphore;
mod slots;

use super::args::Mode;
pub(crate) use rules::{Extras, Rules};

pub(crate) fn rules(mode: Mode) -> &'static dyn Rules {
    match mode {
        Mode::Lock => &lock::OneLock,
        Mode::Rw => &rw::ReadersAndWriters,
        Mode::Multi => &multi::SeveralLocks,
        Mode::Election => &election::Candidates,
        Mode::Registry => &registry::Lines,
        Mode::Semaphore => &semaphore::Permits,
        Mode::Slots => &slots::Places,
        Mode::Once => &once::RunsThatHappenOnce,
    }
}
