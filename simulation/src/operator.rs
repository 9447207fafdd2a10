//! An operator: a process with a plain client that deletes and writes nodes of contenders. In the end it looks at what is left.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use world::Random;
use zklock_contest::clock::Instant;
use zklock_contest::history::{Effect, Fault};
use zklock_contest::member::Member;
use zklock_contest::members::rules;
use zklock_contest::nodes::{Records, logs, make_logs, owner, records};
use zklock_contest::record::Entry;
use zookeeper_client::{Client, Error, Stat};

use crate::announcement;
use crate::cluster::Cluster;
use crate::history;
use crate::interventions::{self, Ended, Others, directory};
use crate::part::Part;
use crate::trace::note;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed {
    /// It makes what contenders write to.
    Prepare,
    /// It deletes the node of a contender, or a leader's announcement.
    Delete,
    /// It deletes a directory with all contenders in it.
    Clear,
    /// It ends the session of a contender.
    EndSession,
    /// It deletes the node of the one contender that is left, and no announcement.
    Evict,
    /// It writes the data of a contender's node once more, or another value to a leader's announcement.
    Touch,
    /// It gives a pool this capacity.
    Resize(u32),
}

/// What the names of zklock's nodes have in a queue that another client shares. A holder of the other client hears of no operator.
const OURS: &str = "/_c_7a6b6c6f-636b-";

/// A node that goes with its session.
struct Ephemeral {
    path: String,
    stat: Stat,
}

pub(crate) async fn run(deed: Deed, part: Part, mut random: Random) {
    let client = part.connect().await;
    let done = match deed {
        Deed::Touch => touch(&client, &part, &mut random).await,
        // These take no time.
        Deed::Delete | Deed::Clear | Deed::EndSession => Ok(()),
        Deed::Prepare => return prepare(client, &part).await,
        Deed::Evict => return evict(client, &part, random).await,
        Deed::Resize(capacity) => return resize(client, capacity, &part).await,
    };
    if let Err(error) = done {
        note("operator", error);
    }
}

/// Looks at the tree until nothing is left that goes with a session. What is there all the time, and longer than this, is an
/// orphan.
pub(crate) async fn audit(part: Part, patience: Duration) {
    let began = tokio::time::Instant::now();
    let mut left = None::<Vec<(String, i64)>>;
    loop {
        let client = part.connect().await;
        if let Ok(Ok(found)) = timeout(part.timeout * 5, ephemerals(&client)).await {
            let found = found.into_iter().map(|node| (node.path, node.stat.czxid)).collect::<Vec<_>>();
            let still = left.take().map_or(found.clone(), |left| {
                left.into_iter().filter(|node| found.contains(node)).collect::<Vec<_>>()
            });
            if still.is_empty() || began.elapsed() > patience {
                let orphans = still.iter().map(|(path, czxid)| format!("{path}, zxid {czxid}"));
                if let Ok(found) = written(&client, &part).await {
                    return history::audited(orphans.collect(), found);
                }
                continue;
            }
            left = Some(still);
        }
        sleep(part.timeout).await;
    }
}

/// What contenders have written for good: logs of locks, and records of runs.
async fn written(client: &Client, part: &Part) -> Result<(Vec<Vec<Entry>>, Records), Error> {
    // Servers that forget may have forgotten these.
    if part.forgets {
        return Ok(<(Vec<Vec<Entry>>, Records)>::default());
    }
    let locks = if rules(part.member).keeps_logs { rules(part.member).locks } else { 0 };
    Ok((logs(client, part.member, locks).await?, records(client, part.member).await?))
}

async fn prepare(mut client: Client, part: &Part) {
    while make_logs(&client, part.member, rules(part.member).locks).await.is_err() {
        client = part.connect().await;
    }
}

/// Takes something from a contender at once: mostly from the holder that is in somebody's way, or from a contender of this client.
pub(crate) fn take(cluster: &mut Cluster, deed: Deed, part: &Part, client: Option<u16>, random: &mut Random) {
    let Some(leader) = cluster.leader() else { return };
    let nodes = leader.ephemerals().filter(|node| node.path.starts_with("/lock/"));
    let nodes = nodes.filter(|node| part.member != Member::Queue || node.path.contains(OURS));
    let nodes = nodes.map(|node| (owner(node.data), node)).collect::<Vec<_>>();
    let Some((_, oldest)) = nodes.iter().min_by_key(|(_, node)| node.czxid) else { return };
    let aimed = nodes.iter().filter(|(who, _)| client.is_some() && who.map(|who| who.client) == client);
    let aimed = aimed.map(|(_, node)| node).collect::<Vec<_>>();
    let any = &nodes[random.below(nodes.len() as u64) as usize].1;
    // Of several queues, some contenders are first in one and wait in another.
    let in_its_queue = nodes.iter().filter(|(_, node)| directory(node.path) == directory(any.path));
    let first = in_its_queue.map(|(_, node)| node).min_by_key(|node| node.czxid).unwrap_or(oldest);
    let chosen = match random.below(4) {
        0 => oldest,
        1 => first,
        2 if !aimed.is_empty() => aimed[random.below(aimed.len() as u64) as usize],
        _ => any,
    };
    let directory = directory(chosen.path);
    // Capacities and announcements are no directory's children alone, and another client's nodes are nobody's to delete.
    let keeps = part.member == Member::Queue
        || chosen.path == part.member.announcement()
        || rules(part.member).is_pool && directory == part.member.permits();
    let (deed, directory) = if let Deed::Clear = deed
        && !keeps
    {
        (deed, Some(directory))
    } else {
        (deed, None)
    };
    let is_met =
        |path: &str| path == chosen.path || directory.is_some_and(|it| interventions::directory(path) == it);
    // Who is there for two timeouts has looked at the queue by then, or has lost the connection and will look again.
    let since = world::now().saturating_sub(2 * part.timeout.as_nanos() as u64);
    let known = || nodes.iter().filter(|(_, node)| interventions::is_there_since(node.czxid, since));
    let mut others = Others { tokens: known().map(|(_, node)| node.czxid).collect(), ..Others::default() };
    if rules(part.member).is_pool {
        let turnstile = part.member.path(0);
        let waiting = known().filter(|(_, node)| {
            interventions::directory(node.path) == turnstile && node.owner != chosen.owner
        });
        others.in_turnstile = (since, waiting.filter_map(|(who, _)| *who).collect());
    }
    let session = chosen.owner;
    let is_session = matches!(deed, Deed::EndSession);
    let mut paths = Vec::new();
    for (_, node) in nodes.iter().filter(|(_, node)| is_met(node.path)) {
        note("operator", format_args!("{deed:?} {}, zxid {}", node.path, node.czxid));
        say(deed, part, node.path, (node.owner, node.czxid));
        let ended = if is_session { Ended::Session(session) } else { Ended::Node(node.czxid) };
        interventions::ending(ended, others.clone());
        interventions::frees(node.path);
        paths.push(node.path.to_owned());
    }
    paths.extend(directory.map(str::to_owned));
    if is_session { cluster.end_session(session) } else { cluster.delete(&paths) }
}

/// Writes to a node that goes with a session.
async fn touch(client: &Client, part: &Part, random: &mut Random) -> Result<(), Error> {
    let mut nodes = ephemerals(client).await?;
    nodes.retain(|node| part.member != Member::Queue || node.path.contains(OURS));
    let Some(oldest) = nodes.iter().min_by_key(|node| node.stat.czxid) else { return Ok(()) };
    let any = &nodes[random.below(nodes.len() as u64) as usize];
    let chosen = if random.once_in(2) { oldest } else { any };
    let announced = nodes.iter().find(|node| node.path == part.member.announcement());
    let announced = announced.filter(|it| it.path != chosen.path && random.once_in(2));
    for node in [chosen].into_iter().chain(announced) {
        write(client, part, node).await?;
    }
    Ok(())
}

async fn write(client: &Client, part: &Part, Ephemeral { path, stat }: &Ephemeral) -> Result<(), Error> {
    note("operator", format_args!("touches {path}, zxid {}", stat.czxid));
    say(Deed::Touch, part, path, (stat.ephemeral_owner, stat.czxid));
    interventions::touching(stat.czxid);
    let (data, _) = client.get_data(path).await?;
    let data = if *path == part.member.announcement() { announcement::forged(&data) } else { data };
    let stat = client.set_data(path, &data, None).await?;
    interventions::written(stat.czxid);
    Ok(())
}

/// Says what is about to be done to this node.
fn say(deed: Deed, part: &Part, path: &str, (session, node): (i64, i64)) {
    let effect = if let Deed::Touch = deed { Effect::Writes } else { Effect::TakesHold };
    let fault = Fault::begins(format!("{deed:?}"), effect, Instant(world::now()));
    // A deletion may come late, and meet the announcement of a later leader.
    history::add(&match path == part.member.announcement() {
        true => fault,
        false => Fault { session: Some(session), node: Some(node), ..fault },
    });
}

/// Deletes the nodes of contenders, until one has lost what it held. The announcement of a leader is harmed before.
async fn evict(mut client: Client, part: &Part, mut random: Random) {
    while !history::was_evicted() {
        // Long enough for it to be granted what it has asked for.
        sleep(part.timeout + part.delay.unwrap_or_default()).await;
        let is_election = part.member == Member::Election;
        if is_election && announcement::harm(&mut client, part, &mut random).await.is_err() {
            client = part.connect().await;
        }
        let nodes = ephemerals(&client).await.unwrap_or_default();
        // A pool's turnstile is held on the way only.
        let is_pool = rules(part.member).is_pool;
        let may_go = |node: &&Ephemeral| match is_pool {
            true => node.path.starts_with(&part.member.permits()),
            false => node.path != part.member.announcement(),
        };
        for node in nodes.iter().filter(may_go) {
            note("operator", format_args!("evicts {}", node.path));
            interventions::ending(Ended::Node(node.stat.czxid), Others::default());
            say(Deed::Evict, part, &node.path, (node.stat.ephemeral_owner, node.stat.czxid));
            let evicted = if is_election {
                announcement::evict(&client, part, &node.path, &mut random).await
            } else {
                client.delete(&node.path, None).await
            };
            if evicted.is_err() {
                client = part.connect().await;
            }
        }
    }
}

async fn resize(mut client: Client, capacity: u32, part: &Part) {
    let mut before = None;
    loop {
        let written = async {
            let (_, stat) = client.get_data(&part.member.permits()).await?;
            let before = *before.get_or_insert(stat.mzxid);
            let what = if part.member == Member::Slots { "slots" } else { "permits" };
            let data = format!("{{\"{what}\":{capacity}}}");
            // A request that comes late writes nothing then.
            let stat = client.set_data(&part.member.permits(), data.as_bytes(), Some(stat.version)).await?;
            Ok((before, stat.mzxid))
        };
        match timeout(part.timeout * 5, written).await {
            Ok(Ok(zxids)) => {
                note("operator", format_args!("the capacity is {capacity} from zxid {} on", zxids.1));
                return history::resized(capacity, zxids);
            }
            // Nobody has acquired a permit yet.
            Ok(Err(Error::NoNode)) => return,
            Ok(Err(Error::BadVersion)) => {}
            Ok(Err(_)) | Err(_) => client = part.connect().await,
        }
    }
}

/// Finds every node that goes with its session.
async fn ephemerals(client: &Client) -> Result<Vec<Ephemeral>, Error> {
    client.sync("/").await?;
    let (mut found, mut open) = (Vec::new(), vec!["/lock".to_owned()]);
    while let Some(path) = open.pop() {
        let Some(stat) = client.check_stat(&path).await? else { continue };
        if stat.ephemeral_owner != 0 {
            found.push(Ephemeral { path, stat });
        } else if stat.num_children > 0 {
            match client.list_children(&path).await {
                Ok(mut children) => {
                    // A server lists them in the order of a hash.
                    children.sort();
                    open.extend(children.into_iter().map(|child| format!("{path}/{child}")));
                }
                Err(Error::NoNode) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}
