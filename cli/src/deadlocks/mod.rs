//! `zklock deadlocks`: circles of holders that wait for each other.
//!
//! Reads of several queues are no snapshot of one moment. So a circle is told only if a second read shows the same nodes: each of them
//! was there from its first read to its second, so all of them were there at once, between the two.

mod circle;

use std::collections::HashMap;
use std::process::ExitCode;

use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;
use zklock::Session;

use crate::args::Deadlocks;
use crate::closing;
use crate::connection::Connection;
use crate::console::Console;
use crate::exit::Code;
use crate::failure::{Failure, Outcome};
use crate::layout::Layout;
use crate::place::Place;
use crate::pool::Pool;
use crate::queue::{self, entries};
use crate::table::{self, Column};
use crate::{output, text};
use circle::{Circle, Queue, circles};

/// How many queues are read at the same time.
const IN_FLIGHT: usize = 16;

/// How often circles are looked for at most, if some of them end between two reads.
const ROUNDS: usize = 5;

/// What the servers cannot show.
const UNSEEN: &str = "zklock sees sessions, and not tasks: a process that holds a lock in one task and waits in another may release it. \
    If a circle does not end by itself, end one of its processes, or take its lock with `zklock release --force`";

/// A path where somebody waits: whose queue it is, and whether it is a pool.
type Waited = (String, Option<Layout>, bool);

/// Prints the circles.
pub(crate) async fn deadlocks(wish: Deadlocks, connection: &Connection, console: Console) -> Outcome {
    let session = connection.session_as_granted().await?;
    let seen = seen(&session, &wish.root, console).await;
    closing::session(&session).await;
    let (exists, found) = seen?;
    if wish.json {
        output::print_json(&found)?;
    } else if !found.is_empty() {
        let now = Timestamp::now();
        output::print(&found.iter().map(|circle| lines(circle, now)).collect::<Vec<_>>().join("\n"))?;
        console.note(UNSEEN);
    }
    if !exists {
        Place::of(connection, &wish.root).await?.missing(connection, &wish.root)?;
    }
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { Code::No.into() })
}

/// Whether the root exists, and the circles below it that two reads have shown.
async fn seen(session: &Session, root: &str, console: Console) -> Result<(bool, Vec<Circle>), Failure> {
    let below = session.locks_below(root).await?;
    let number = below.locks.len() + below.pools.len();
    let locks = below.locks.into_iter().filter(|lock| lock.waiting > 0);
    let pools = below.pools.into_iter().filter(|pool| pool.waiting > 0);
    let locks = locks.map(|lock| (lock.path, Layout::of(lock.layout), false));
    let waited = locks.chain(pools.map(|pool| (pool.path, None, true))).collect::<Vec<_>>();
    let waits = waited.len();
    let found = match waits {
        // One queue alone makes no circle.
        0 | 1 => Vec::new(),
        _ => twice(session, read(session, waited).await?).await?,
    };
    if found.is_empty() && below.exists {
        let root = text::harmless(root);
        console.note(format_args!(
            "no circle below {root}: {waits} of {number} held locks, slots and semaphores have waiters. Locks elsewhere \
             are not seen, and two sessions of one process count as two"
        ));
    }
    if below.hidden > 0 {
        console.note(format_args!(
            "these credentials may not list {} of the nodes, so zklock did not see the nodes below",
            below.hidden
        ));
    }
    Ok((below.exists, found))
}

/// The circles in these queues that a second read shows, too. Those that have gone meanwhile may have hidden others.
async fn twice(session: &Session, mut queues: Vec<Queue>) -> Result<Vec<Circle>, Failure> {
    for round in 1.. {
        let mut found = circles(&queues);
        let number = found.len();
        confirm(session, &mut queues, &mut found).await?;
        if found.len() == number || round == ROUNDS {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Reads the queues of circles again. Drops from the queues who has gone, and circles that do not stand any more. A
/// circle through a pool that has room now is only possible.
async fn confirm(session: &Session, queues: &mut [Queue], found: &mut Vec<Circle>) -> Result<(), Failure> {
    let is_in = |queue: &&Queue| found.iter().any(|circle| circle.goes_through(&queue.path));
    let again = queues.iter().filter(is_in).map(|queue| (queue.path.clone(), queue.layout, queue.is_pool()));
    let paths = again.collect::<Vec<_>>();
    let again = read(session, paths.clone()).await?.into_iter().map(|queue| (queue.path.clone(), queue));
    let again = again.collect::<HashMap<_, _>>();
    found.retain_mut(|circle| {
        let mut now = circle.steps.iter().map(|step| again.get(&step.path));
        circle.possible |= now.any(|queue| queue.is_some_and(Queue::has_room));
        circle.steps.iter().all(|step| {
            let queue = again.get(&step.path);
            queue.is_some_and(|queue| queue.has(&step.waiter) && queue.has(&step.blocker))
        })
    });
    for queue in queues.iter_mut().filter(|queue| paths.iter().any(|(path, ..)| *path == queue.path)) {
        let now = again.get(&queue.path);
        queue.entries.retain(|entry| now.is_some_and(|now| now.has(entry)));
        queue.room = now.map_or(queue.room, |now| now.room);
    }
    Ok(())
}

/// Reads who holds and who waits at these paths. Paths that are no locks any more are left out.
async fn read(session: &Session, paths: Vec<Waited>) -> Result<Vec<Queue>, Failure> {
    let one = async |(path, layout, is_pool): Waited| {
        let seen = match (is_pool, session.lock(&path)) {
            (true, _) => Pool::at(session, &path).await?.map(|pool| {
                let room = Some(pool.free());
                let holders = pool.holders.into_iter().map(|holder| holder.entry);
                (room, holders.chain(pool.waiting).collect())
            }),
            (false, Err(_)) => None,
            (false, Ok(lock)) => {
                let lock = if layout.is_none() { lock } else { queue::lock(session, &path, layout).await?.0 };
                Some((None, entries(&lock.contenders().await?)))
            }
        };
        Ok::<_, Failure>(seen.map(|(room, entries)| Queue { path, layout, room, entries }))
    };
    let read = stream::iter(paths).map(one).buffered(IN_FLIGHT).try_collect::<Vec<_>>().await?;
    Ok(read.into_iter().flatten().collect())
}

/// One step: the path that the waiter holds, and the step.
type Row<'a> = (String, &'a circle::Step);

/// The lines of a circle.
fn lines(circle: &Circle, now: Timestamp) -> String {
    let sessions = circle.steps.len();
    let age = circle.age(now).map_or_else(String::new, |age| format!(", complete for {}", text::age(age)));
    let first = match circle.possible {
        true => format!("possible circle of {sessions}{age}: a pool has room or another holder\n"),
        false => format!("circle of {sessions}{age}\n"),
    };
    let before = circle.steps.iter().cycle().skip(sessions - 1);
    let rows = before.zip(&circle.steps).map(|(before, step)| {
        let path = text::harmless(&before.path);
        (if before.blocker.holds { path } else { format!("{path} (in front)") }, step)
    });
    let columns: [Column<'_, Row<'_>>; 5] = [
        ("OWNER", true, &|(_, step)| step.waiter.owner_text()),
        ("SESSION", true, &|(_, step)| step.waiter.session_text()),
        ("HOLDS", true, &|(holds, _)| holds.clone()),
        ("WAITS FOR", true, &|(_, step)| text::harmless(&step.path)),
        ("SINCE", true, &|(_, step)| step.waiter.since_text(now)),
    ];
    format!("{first}{}", table::of_columns(&columns, &rows.collect::<Vec<_>>()))
}
