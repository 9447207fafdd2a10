//! What each member is about: what contenders ask for, what nobody may see, and what a run has to show.
//!
//! The faults are the same for all members. So is what nobody may see: two guards in conflict, tokens out of order, a lost
//! update, an orphan, an acquisition without an end. A member may forbid more.

mod election;
mod keys;
mod once;
mod pool;
pub mod program;
mod queue;
mod readwrite;
mod rules;
mod semaphore;
mod several;
mod slots;

use crate::member::Member;
pub use queue::{DELAY, SYNC_LIMIT, TICK, unpaused};
use rules::ONE_LOCK;
pub use rules::{Extras, Moment, Rules};

pub fn rules(member: Member) -> &'static Rules {
    match member {
        Member::Lock => &ONE_LOCK,
        Member::Readwrite => &readwrite::RULES,
        Member::Several => &several::RULES,
        Member::Election => &election::RULES,
        Member::Keys => &keys::RULES,
        Member::Semaphore => &semaphore::RULES,
        Member::Slots => &slots::RULES,
        Member::Once => &once::RULES,
        Member::Queue => &queue::RULES,
        Member::Program => &program::RULES,
    }
}
