//! The locks: what their users call, as the originals have it.

mod client;
mod contract;
mod redisson;
mod set_nx_px;
mod setnx_expire;
mod setnx_getset;
mod spring;
mod zookeeper;

pub use contract::{Failure, Lock};
pub use redisson::Redisson;
pub use set_nx_px::SetNxPx;
pub use setnx_expire::SetnxExpire;
pub use setnx_getset::SetnxGetset;
pub use spring::Spring;
pub use zookeeper::{TICK as ZOOKEEPER_TICK, Zklock};
