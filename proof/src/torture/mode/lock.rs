//! All contend for one lock.

use fastrand::Rng;

use super::rules::Rules;
use crate::torture::history::History;
use crate::torture::wish::Wish;

pub(super) struct OneLock;

impl Rules for OneLock {
    fn locks(&self) -> usize {
        1
    }

    fn wish(&self, _: &mut Rng) -> Wish {
        Wish::Lock(0)
    }

    fn last_turns(&self) -> u32 {
        1
    }

    fn unproven(&self, _: &History) -> Vec<&'static str> {
        Vec::new()
    }
}
