//! What a client sees of Java: the order of a `HashSet`, and the numbers of `Random`.

use std::collections::BTreeMap;

/// A set of strings that lists them in the order of a Java `HashSet`: `getChildren` answers in that order, and the
/// ephemeral nodes of a session go in it. Names of one bucket stay in the order in which they came. (A bucket of
/// eight becomes a tree in Java. Its order is not rebuilt here.)
#[derive(Clone, Debug)]
pub(crate) struct HashSet {
    capacity: u32,
    next: u64,
    names: BTreeMap<String, (u32, u64)>,
}

impl HashSet {
    /// A set with room for so many buckets, a power of two.
    pub(crate) fn new(capacity: u32) -> Self {
        Self { capacity, next: 0, names: BTreeMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn insert(&mut self, name: &str) {
        if self.names.contains_key(name) {
            return;
        }
        self.names.insert(name.into(), (spread(name), self.next));
        self.next += 1;
        while self.names.len() as u64 * 4 > u64::from(self.capacity) * 3 {
            self.capacity *= 2;
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.names.remove(name);
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort_unstable_by_key(|(_, (hash, number))| (hash & (self.capacity - 1), *number));
        names.into_iter().map(|(name, _)| name.as_str()).collect()
    }

    /// What Java's `clone` makes of the set: the names go into as many buckets as they need, in the order of this set.
    pub(crate) fn copy(&self) -> Self {
        let wanted = (self.len() as f32 / 0.75 + 1.0) as u32;
        let mut copy = Self::new(wanted.next_power_of_two());
        self.names().into_iter().for_each(|name| copy.insert(name));
        copy
    }
}

/// The hash of a string by which a Java `HashMap` chooses the bucket.
fn spread(name: &str) -> u32 {
    let hash = hash(name);
    hash ^ (hash >> 16)
}

fn hash(name: &str) -> u32 {
    name.encode_utf16().fold(0, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()))
}

/// Which of the 16 buckets of a small set a record with these fields is in.
pub(crate) fn bucket(fields: &[&str]) -> u32 {
    let hash = fields.iter().fold(17_u32, |sum, field| sum.wrapping_mul(37).wrapping_add(hash(field)));
    (hash ^ (hash >> 16)) & 15
}

/// ZooKeeper's secret (`ZooKeeperServer.superSecret`).
const SECRET: i64 = 0xB341_5C00;

/// The password of a session: the first 16 bytes of `Random`, seeded by the id and the secret. With this password a
/// client can resume the session at a real server, too.
pub fn password(session: i64) -> [u8; 16] {
    const MULTIPLIER: i64 = 0x5_DEEC_E66D;
    const MASK: i64 = (1 << 48) - 1;
    let mut state = (session ^ SECRET ^ MULTIPLIER) & MASK;
    let mut bytes = [0; 16];
    for chunk in bytes.chunks_mut(4) {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        chunk.copy_from_slice(&((state >> 16) as u32).to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_those_java_generates() {
        let hex = |id| password(id).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        // By `new java.util.Random(id ^ 0xB3415C00L).nextBytes(new byte[16])` on OpenJDK 17.
        assert_eq!(hex(1), "054cc74a37327db215e702e20c73f005");
        assert_eq!(hex(0x0300_0123_4567_89ab), "237710bc62d77989a42e8da77022789d");
        assert_eq!(hex(-1), "20f62cb5648dc2d771471c8a2486a9ee");
    }
}
