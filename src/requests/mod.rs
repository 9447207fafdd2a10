//! The recipe's requests in ZooKeeper's terms. Each function sends one command, and turns the reply into an event.
//!
//! zookeeper-client sends a request when its method is called. So calls made in one poll are sent back to back, in the
//! order of the calls.

mod enter;
mod foreign;
mod lost;
mod own;
mod queue;
mod read;
mod reply;
mod tree;
mod watch;

pub(crate) use enter::{create_directory, enter};
pub(crate) use foreign::foreigners;
pub(crate) use lost::{Search, Searches, find, recover, sweep};
pub(crate) use own::{
    Certainty, HELD_VERSION, check_version, confirm, confirm_version, delete, heartbeat, release, sync,
};
pub(crate) use queue::{contenders, list};
pub(crate) use read::Node;
pub(crate) use reply::{Reply, end, failure};
pub(crate) use tree::{Branch, Holding, branch, is_suspect};
pub(crate) use watch::{watch_own, watch_predecessor};
