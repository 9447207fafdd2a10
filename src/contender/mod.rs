//! An acquisition under way: the group of its contenders, driven by ZooKeeper's replies.

mod attended;
mod companion;
mod driver;
mod member;
mod procedure;
mod stages;

pub(crate) use attended::{Attended, Work};
pub(crate) use driver::{Aside, Driver, Outcome};
pub(crate) use procedure::{Course, Performed, Procedure};
pub(crate) use stages::{attend, finish_write};
