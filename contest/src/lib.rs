//! Contenders for every member of zklock's family, and the judge of what they saw. They contend on zklock as it ships.
//!
//! ```text
//!   world: now, say, call the register          the torture's processes, or the simulation's
//!     ^
//!   contender: request -> acquire -> hold -> release       what each member asks for: members
//!     | records
//!     v
//!   collector -> history -> checker -> verdict             what each member forbids: members
//! ```
//!
//! This crate starts no thread, and has no clock and no socket of its own: each [`World`](contender::World) supplies them.

pub mod acts;
pub mod announcements;
pub mod asks;
pub mod checker;
pub mod clock;
pub mod collector;
pub mod contender;
pub mod history;
pub mod member;
pub mod members;
pub mod nodes;
pub mod record;
pub mod register;
pub mod request;
pub mod runs;
#[cfg(test)]
mod samples;
pub mod spans;
