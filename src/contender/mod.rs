//! A contender under way: its machine, driven by ZooKeeper's replies.

mod attended;
mod driver;

pub(crate) use attended::{Attended, Finish};
pub(crate) use driver::{Driver, Outcome};
