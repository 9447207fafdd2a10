//! The requests that all members share, in ZooKeeper's terms. Each function sends one command, and turns the reply into an event.
//! A member's own requests lie in its folder.
//!
//! zookeeper-client sends a request when its method is called. So calls made in one poll are sent back to back, in the
//! order of the calls.

pub(crate) mod ask_node;
mod companion;
pub(crate) mod confirm;
pub(crate) mod directory;
mod enter;
mod enter_one;
pub(crate) mod evidence;
pub(crate) mod foreign;
mod leave;
pub(crate) mod path_kind;
mod queue;
pub(crate) mod read_nodes;
pub(crate) mod reply;
pub(crate) mod search;
pub(crate) mod sighting;
pub(crate) mod transaction;
pub(crate) mod watch;
pub(crate) mod watchers;

pub(crate) use companion::{SharedCompanion, delete_companion, read_companion};
pub(crate) use confirm::{
    OwnNode, answered, check, confirm, confirm_version, heartbeat, path_of, recover, sync,
};
pub(crate) use directory::{create_directories, create_directory};
pub(crate) use enter::enter;
#[cfg(test)]
pub(crate) use evidence::Synced;
pub(crate) use evidence::{Acknowledged, Evidence};
pub(crate) use leave::{delete, release, release_one};
pub(crate) use queue::{list, review};
pub(crate) use read_nodes::{QueueNode, are_there};
pub(crate) use reply::{Reply, end, failure, worded};
pub(crate) use search::{KnownNode, LostCreate, Searches, Swept, find, sweep};
pub(crate) use sighting::{Found, Sighting};
pub(crate) use transaction::{Operand, commit};
pub(crate) use watch::{watch_own, watch_predecessor};
pub(crate) use watchers::{Watchers, Watching, remove_left};
