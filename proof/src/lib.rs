//! What the benchmark has in common with the proofs: Redis locks as their users have them, and servers that end with their starter.

pub mod kept;
pub mod redis_lock;
