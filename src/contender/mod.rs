//! An acquisition under way: the group of its contenders, driven by ZooKeeper's replies.

mod attended;
mod companion;
mod driver;
mod member;
mod place;
mod procedure;
mod punctuality;
mod stages;

pub(crate) use attended::{Attended, Work};
pub(crate) use driver::Driver;
pub(crate) use procedure::{Course, Performed, Procedure};
pub(crate) use stages::{attend, finish_write};
