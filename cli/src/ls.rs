//! `zklock ls`: the locks below a node.

use std::process::ExitCode;

use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;
use serde::Serialize;
use zklock::{
    Session,
    inspect::{HeldLock, HeldPool, Kind},
};

use crate::args::List;
use crate::connection::Connection;
use crate::console::Console;
use crate::election::{IN_FLIGHT, LedElection};
use crate::failure::{Failure, Outcome};
use crate::layout::Layout;
use crate::pool::{Shares, Stock};
use crate::queue::{Entry, known_text};
use crate::table::{self, Column};
use crate::text::counted;
use crate::{output, unheld};

/// Prints the locks that somebody holds, in the order of their paths.
pub(crate) async fn print_locks(list: List, connection: &Connection, console: Console) -> Outcome {
    let (exists, hidden, locks) =
        connection.in_session(console, async |inquiry| find_locks(inquiry.session, &list).await).await?;
    if hidden > 0 {
        console.note(format_args!(
            "these credentials may not list {}, so zklock did not see the nodes below",
            counted(hidden, "node")
        ));
    }
    if list.json {
        output::print_json(&locks)?;
    } else if !locks.is_empty() {
        let now = Timestamp::now();
        let has_foreign = locks.iter().any(|lock| lock.foreign > 0);
        let is_shared = locks.iter().any(|lock| lock.layout.is_some());
        let columns: [Column<'_, Listed>; 7] = [
            ("PATH", true, &|lock| lock.path.clone()),
            ("HOLDER", true, &Listed::holder_text),
            ("ARRIVED", true, &|lock| lock.holder.since_text(now)),
            ("WAITING", true, &|lock| lock.waiting.to_string()),
            ("LAYOUT", is_shared, &|lock| known_text(lock.layout.map(Layout::text))),
            ("ZKLOCK", is_shared, &|lock| lock.zklocks.to_string()),
            ("FOREIGN", has_foreign, &|lock| lock.foreign.to_string()),
        ];
        let table = table::of_columns(&columns, &locks);
        output::print(&table)?;
    }
    if exists { Ok(ExitCode::SUCCESS) } else { Err(unheld::missing_failure(&list.root)) }
}

/// Whether a node exists, how many nodes below it are hidden, and the locks there.
async fn find_locks(session: &Session, list: &List) -> Result<(bool, usize, Vec<Listed>), Failure> {
    let mut below = session.locks_below(&list.root).await?;
    below.others.retain(|queue| list.layout.is_some_and(|layout| layout.has(queue.layout)));
    let held = async |lock: HeldLock| {
        let election = LedElection::of_queue(session, &lock.path).await?;
        Ok::<_, Failure>(Listed { election, ..Listed::from(lock) })
    };
    let locks = stream::iter(below.locks.into_iter().chain(below.others)).map(held).buffered(IN_FLIGHT);
    let mut locks = locks.try_collect::<Vec<_>>().await?;
    locks.extend(below.pools.into_iter().map(Listed::from));
    locks.sort_by(|one, other| one.path.cmp(&other.path));
    Ok((below.exists, below.hidden, locks))
}

/// A lock that somebody holds. Its fields are those of the JSON, by these names.
#[derive(Serialize)]
struct Listed {
    path: String,
    /// The first one, if several hold it.
    holder: Entry,
    /// How many hold it: one, several readers, or several that have some of a semaphore or of slots.
    holders: usize,
    waiting: usize,
    /// The client whose queue it is, if that is another one.
    layout: Option<Layout>,
    /// How many of those that hold it or wait are zklock's.
    #[serde(rename = "zklock")]
    zklocks: usize,
    /// How many contenders of other clients are in its directory, and cannot share the queue.
    foreign: usize,
    /// The election whose candidates queue for this lock, if somebody leads it.
    election: Option<LedElection>,
    /// What there is, and how much of it is held, if this is a semaphore, or if these are slots.
    pool: Option<Shares>,
}

impl From<HeldLock> for Listed {
    fn from(lock: HeldLock) -> Self {
        let HeldLock { path, holder, holders, waiting, layout, zklocks, foreign, .. } = lock;
        let holder = Entry::from(&holder);
        let layout = Layout::of(layout);
        Self { path, holder, holders, waiting, layout, zklocks, foreign, election: None, pool: None }
    }
}

impl From<HeldPool> for Listed {
    fn from(pool: HeldPool) -> Self {
        Self {
            holder: Entry::from(&pool.holder),
            holders: pool.holders,
            waiting: pool.waiting,
            layout: None,
            zklocks: pool.holders + pool.waiting,
            foreign: pool.foreign,
            election: None,
            pool: Some(Shares { stock: Stock::from(&pool), held: pool.held }),
            path: pool.path,
        }
    }
}

impl Listed {
    fn holder_text(&self) -> String {
        if let Some(election) = &self.election {
            return election.text();
        }
        let owner = self.holder.owner_text();
        let more = if self.holders > 1 { ", …" } else { "" };
        if let Some(Shares { stock, held }) = &self.pool {
            return format!("{}: {owner}{more}", stock.text(*held));
        }
        match (self.holder.kind, self.holders) {
            (Kind::Shared, 1) => format!("1 reader: {owner}"),
            (Kind::Shared, several) => format!("{several} readers: {owner}, …"),
            _ => owner,
        }
    }
}
