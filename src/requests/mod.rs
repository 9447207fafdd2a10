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
mod evidence;
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

pub(crate) use announcement::{Announced, read_announcement, watch_announcement};
pub(crate) use ask::{Holders, MadeAsk, OwnAsk, find_holders, make_ask, watch_ask, watch_end, withdraw_ask};
pub(crate) use companion::{SharedCompanion, delete_companion, read_companion};
pub(crate) use confirm::{
    OwnNode, answered, check, confirm, confirm_version, heartbeat, path_of, recover, sync,
};
pub(crate) use directory::{create_directories, create_directory};
pub(crate) use enter::enter;
#[cfg(test)]
pub(crate) use evidence::Synced;
pub(crate) use evidence::{Acknowledged, Answer};
pub(crate) use foreign::find_foreigners;
pub(crate) use holder::{holder, watch_holder};
pub(crate) use leave::{delete, release, release_one};
pub(crate) use pool::{
    PoolWatched, Stocked, admission_failure, create_pool, look_at_pool, read_permits, recover_attempt,
    send_attempt, set_stock, watch_pool,
};
pub(crate) use queue::{list, read_queue, review};
pub(crate) use read_nodes::{QueueNode, are_there};
pub(crate) use records::{
    Kept, RecordsPage, create_records, leader_time, read_all_records, read_record, read_records,
    read_records_page,
};
pub(crate) use reply::{Reply, end, failure, worded};
pub(crate) use search::{KnownNode, LostCreate, Searches, Swept, find, sweep};
pub(crate) use sighting::{Found, Sighting};
pub(crate) use transaction::{Operand, commit};
pub(crate) use tree::{Branch, FirstHolder, Pooled, is_suspect_path, read_branch};
pub(crate) use watch::{watch_own, watch_predecessor};
pub(crate) use watchers::{Watchers, Watching, remove_left};
