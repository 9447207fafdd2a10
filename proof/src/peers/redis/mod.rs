//! The locks on Redis, as the originals have them.

mod client;
mod redisson;
mod set_nx_px;
mod setnx_expire;
mod spring;

pub(super) use redisson::Redisson;
pub(super) use set_nx_px::SetNxPx;
pub(super) use setnx_expire::SetnxExpire;
pub(super) use spring::Spring;
