//! What is tortured: a mode is what contenders ask for, and what a run of it has to show.
//!
//! The faults are the same for all modes. So is what nobody may see: two guards in conflict, tokens out of order, a lost
//! update, an orphan, an acquisition without an end. A mode may forbid more.

mod election;
mod multi;
mod once;
mod pool;
mod registry;
mod rules;
mod rw;
mod semaphore;
mod shared;
mod slots;

use super::args::Mode;
use rules::ONE_LOCK;
pub(crate) use rules::{Extras, Rules};
pub(crate) use shared::{DELAY, FOREIGN_TIMEOUT, unpaused};

pub(crate) fn rules(mode: Mode) -> &'static Rules {
    match mode {
        Mode::Lock => &ONE_LOCK,
        Mode::Rw => &rw::RULES,
        Mode::Multi => &multi::RULES,
        Mode::Election => &election::RULES,
        Mode::Registry => &registry::RULES,
        Mode::Semaphore => &semaphore::RULES,
        Mode::Slots => &slots::RULES,
        Mode::Once => &once::RULES,
        Mode::Shared => &shared::RULES,
    }
}
