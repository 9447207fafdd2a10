//! The recipe's requests in ZooKeeper's terms. Each function sends one command, and turns the reply into an event.
//!
//! zookeeper-client sends a request when its method is called. So calls made in one poll are sent back to back, in the
//! order of the calls.

mod announcement;
mod ask;
mod companion;
mod confirm;
mod directory;
mod enter;
mod enter_one;
mod foreign;
mod holder;
mod leave;
mod path_kind;
mod pool;
mod queue;
mod read_nodes;
mod records;
mod reply;
mod search;
mod sighting;
mod transaction;
mod tree;
mod watch;
mod watchers;

pub(crate) use announcement::{Announced, announcement, watch_announcement};
pub(crate) use ask::{Holders, OwnAsk, PlacedAsk, holders, place, watch_ask, watch_end, withdraw};
pub(crate) use companion::{SharedCompanion, delete_companion, read_companion};
pub(crate) use confirm::{
    OwnNode, answered, check, confirm, confirm_version, heartbeat, path_of, recover, sync,
};
pub(crate) use directory::{create_directories, create_directory};
pub(crate) use enter::enter;
pub(crate) use foreign::foreigners;
pub(crate) use holder::{holder, watch_holder};
pub(crate) use leave::{delete, release, release_one};
pub(crate) use pool::{
    PoolWatched, Stocked, admit, create_pool, look_at_pool, permits, recover_attempt, set_stock, unmet,
    watch_pool,
};
pub(crate) use queue::{contenders, list, review};
pub(crate) use read_nodes::{QueueNode, are_there};
pub(crate) use records::{
    Kept, RecordsPage, all_records, create_records, leader_time, page, record, records,
};
pub(crate) use reply::{Reply, end, failure, worded};
pub(crate) use search::{KnownNode, LostCreate, Searches, Swept, find, sweep};
pub(crate) use sighting::{Found, Sighting};
pub(crate) use transaction::{Operand, commit};
pub(crate) use tree::{Branch, FirstHolder, Pooled, branch, is_suspect};
pub(crate) use watch::{watch_own, watch_predecessor};
pub(crate) use watchers::{Watchers, Watching, remove_left};
