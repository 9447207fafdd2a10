//! Looks for locks in a tree of nodes.

use std::sync::Arc;

use zklock_recipe::{Event, Kind, PathKind, QueueLayout, QueuePlace, Stock};
use zookeeper_client::{Client, Error};

use crate::lock::requests::{First, first_there};
use crate::node::PoolData;
use crate::path::name_of;
use crate::requests::evidence::Evidence;
use crate::requests::foreign::{self, is_foreign};
use crate::requests::read_nodes::{QueueNode, permits_among};
use crate::requests::reply::failure;

/// What a look at a node showed.
pub(crate) enum Branch {
    /// The node exists, and this session may list it.
    Listed {
        /// The first contender that holds the lock of this directory, if any.
        holder: Option<Box<FirstHolder>>,
        /// What the pool has, if this is the directory of its permits.
        pool: Option<Box<Pooled>>,
        /// The names of all children that are neither contenders nor permits of that pool.
        children: Vec<String>,
    },
    /// The node is a contender of another client.
    Foreign,
    /// This session may not list the node.
    Hidden,
    Gone,
}

impl Evidence for Branch {}

/// The first contender that holds the lock of a directory.
pub(crate) struct FirstHolder {
    pub(crate) node: QueueNode,
    /// How many contenders hold the lock: one, or all readers that no writer is in front of.
    pub(crate) holders: usize,
    /// How many contenders wait behind them.
    pub(crate) waiting: usize,
    /// Whose contenders are in the queue.
    pub(crate) layout: QueueLayout,
    /// How many of the contenders are zklock's, by their names.
    pub(crate) zklocks: usize,
    /// Whether the node only looks like zklock's.
    pub(crate) is_lookalike: bool,
}

/// What a pool has, and who holds some of it.
pub(crate) struct Pooled {
    pub(crate) stock: Stock,
    /// The oldest permit, if there is any.
    pub(crate) oldest: Option<QueueNode>,
    /// How many permits are held.
    pub(crate) holders: usize,
    /// How much of the stock they are.
    pub(crate) held: u64,
}

pub(crate) fn is_suspect_path(path: &str) -> bool {
    foreign::is_suspect(QueueLayout::Own, name_of(path))
}

/// Looks at one node. Contenders have no children, so it does not list them.
pub(crate) async fn read_branch(client: Arc<Client>, path: String) -> Result<Branch, Event> {
    let (mut children, stat) = match client.get_children(&path).await {
        Ok(listed) => listed,
        Err(Error::NoNode) => return Ok(Branch::Gone),
        Err(Error::NoAuth) => return Ok(Branch::Hidden),
        Err(error) => return Err(failure(error)),
    };
    if is_foreign(name_of(&path), stat.ephemeral_owner) {
        return Ok(Branch::Foreign);
    }
    let layout = QueueLayout::of_queue(children.iter().map(String::as_str)).unwrap_or_default();
    let holder = find_first_holder(&client, &path, layout, &layout.queue(&children)).await?.map(Box::new);
    children.retain(|name| layout.place(name).is_none());
    let pool = match name_of(&path) {
        PathKind::PERMITS => read_pool(&client, &path, &mut children).await?.map(Box::new),
        _ => None,
    };
    Ok(Branch::Listed { holder, pool, children })
}

/// Returns the first of these contenders that still exists, and who holds the lock beside it.
async fn find_first_holder(
    client: &Client,
    path: &str,
    layout: QueueLayout,
    contenders: &[(QueuePlace, &str)],
) -> Result<Option<FirstHolder>, Event> {
    let Some(First { gone, node, is_lookalike }) = first_there(client, path, layout, contenders).await?
    else {
        return Ok(None);
    };
    let present = &contenders[gone..];
    let readers = present.iter().take_while(|(place, _)| place.kind == Kind::Shared).count();
    let holders = readers.max(1);
    let zklocks = present.iter().filter(|(_, name)| layout.own(name).is_some()).count();
    Ok(Some(FirstHolder { node, holders, waiting: present.len() - holders, layout, zklocks, is_lookalike }))
}

/// Returns what a pool has, and takes its permits out of the children of its directory. `None` if this is no pool.
async fn read_pool(client: &Client, path: &str, children: &mut Vec<String>) -> Result<Option<Pooled>, Event> {
    let data = match client.get_data(path).await {
        Ok((data, _)) => data,
        Err(Error::NoNode | Error::NoAuth) => return Ok(None),
        Err(error) => return Err(failure(error)),
    };
    let Some(stock) = PoolData::decode(&data) else { return Ok(None) };
    let permits = permits_among(children);
    let oldest = first_there(client, path, QueueLayout::Own, &permits).await?;
    let present = &permits[oldest.as_ref().map_or(permits.len(), |first| first.gone)..];
    let held = present.iter().map(|(permit, _)| match permit.kind {
        Kind::Permit(weight) => u64::from(weight),
        _ => 1,
    });
    let holders = present.len();
    let held = held.sum();
    children.retain(|name| QueuePlace::parse_permit(name).is_none());
    Ok(Some(Pooled { stock, oldest: oldest.map(|first| first.node), holders, held }))
}
