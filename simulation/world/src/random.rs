//! A small generator of random numbers. Its sequence depends on the seed alone.

/// The generator (SplitMix64).
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator from a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number below this one, or 0 if it is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a random number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Returns true once in so many calls.
    pub fn once_in(&mut self, calls: u64) -> bool {
        self.below(calls) == 0
    }

    /// Makes a generator whose sequence is independent of this one's.
    pub fn fork(&mut self) -> Self {
        Self(self.bits())
    }
}
