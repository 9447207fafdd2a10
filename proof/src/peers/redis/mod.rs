//! The locks on Redis, as the originals have them.

mod client;
mod redisson;
mod set_nx_px;

pub(super) use redisson::Redisson;
pub(super) use set_nx_px::SetNxPx;
