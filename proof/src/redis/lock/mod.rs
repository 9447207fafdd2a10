//! The locks: what their users call, as the originals have it.

mod client;
mod contract;
mod redisson;
mod set_nx_px;
mod setnx_expire;
mod setnx_getset;
mod spring;
mod zookeeper;

pub(crate) use contract::Lock;
pub(crate) use redisson::Redisson;
pub(crate) use set_nx_px::SetNxPx;
pub(crate) use setnx_expire::SetnxExpire;
pub(crate) use setnx_getset::SetnxGetset;
pub(crate) use spring::Spring;
pub(crate) use zookeeper::{TICK as ZOOKEEPER_TICK, Zklock};
