//! An operator harms a leader's announcement while nothing else is wrong. The leader must make the announcement anew.

use std::time::Duration;

use tokio::time::sleep;
use world::{Direction, Random};
use zklock_contest::clock::Instant;
use zklock_contest::history::{Effect, Fault};
use zklock_contest::nodes::{self, Node};
use zookeeper_client::{Acl, AuthId, Client, Error, Permission};

use crate::cluster::{self, Cluster, Moment, host_of};
use crate::history;
use crate::part::Part;
use crate::trace::note;

#[derive(Clone, Copy, Debug)]
enum Harm {
    Deleted,
    /// Another value was written to it.
    Written,
    /// It was deleted while nobody may create another one.
    Forbidden,
}

/// Harms the announcement up to three times.
pub(crate) async fn harm(client: &mut Client, part: &Part, random: &mut Random) -> Result<(), Error> {
    for _ in 0..random.below(4) {
        let Some(leader) = leader(client, part).await? else { return Ok(()) };
        begins(part, &leader);
        if let Some(who) = leader.who
            && random.once_in(3)
        {
            cluster::later(world::now(), move |cluster| reset(cluster, who.client));
            sleep(part.timeout / 100 * random.below(100) as u32).await;
        }
        let harm = [Harm::Deleted, Harm::Written, Harm::Forbidden][random.below(3) as usize];
        note("operator", format_args!("{harm:?}: the announcement of {}", leader.path));
        inflict(harm, client, part, random).await?;
        // The connection may have broken. A leader whose announcement is not there several times in a row pauses for a second.
        let patience = part.timeout * 2 + Duration::from_secs(2);
        let since = tokio::time::Instant::now();
        while !is_announced(client, part, &leader).await? {
            if self::leader(client, part).await?.is_none_or(|now| now.czxid != leader.czxid) {
                return Ok(());
            }
            if since.elapsed() > patience {
                let node = &leader.path;
                history::wrong(format!(
                    "the announcement of {node} was {harm:?}, and is not there after {patience:?}"
                ));
                return Ok(());
            }
            sleep(part.timeout / 20).await;
        }
    }
    Ok(())
}

async fn inflict(harm: Harm, client: &mut Client, part: &Part, random: &mut Random) -> Result<(), Error> {
    let announcement = part.member.announcement();
    let root = part.member.root();
    match harm {
        Harm::Deleted => gone(client.delete(&announcement, None).await),
        Harm::Written => write(client, &announcement).await,
        Harm::Forbidden => {
            let all_but_create =
                Permission::READ | Permission::WRITE | Permission::DELETE | Permission::ADMIN;
            let list = [Acl::new(all_but_create, AuthId::anyone())];
            let mut done = client.set_acl(&root, &list, None).await.map(drop);
            if done.is_ok() {
                done = gone(client.delete(&announcement, None).await);
                sleep(part.timeout / 100 * random.below(100) as u32).await;
            }
            let open = [Acl::new(Permission::ALL, AuthId::anyone())];
            while gone(client.set_acl(&root, &open, None).await.map(drop)).is_err() {
                *client = part.connect().await;
            }
            done
        }
    }
}

/// Writes another value to an announcement.
async fn write(client: &Client, announcement: &str) -> Result<(), Error> {
    let (data, _) = match client.get_data(announcement).await {
        Err(Error::NoNode) => return Ok(()),
        read => read?,
    };
    gone(client.set_data(announcement, &forged(&data), None).await.map(drop))
}

/// The same announcement, with a value that nobody has announced.
pub(crate) fn forged(data: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(data).replace("\"value\":\"", "\"value\":\"not ").into_bytes()
}

/// The first candidate.
async fn leader(client: &Client, part: &Part) -> Result<Option<Node>, Error> {
    client.sync("/").await?;
    Ok(nodes::queue(client, part.member.path(0)).await?.into_iter().min_by_key(|node| node.czxid))
}

/// Whether this leader is announced, and nobody has written to the announcement.
async fn is_announced(client: &Client, part: &Part, leader: &Node) -> Result<bool, Error> {
    let announcement = part.member.announcement();
    client.sync(&announcement).await?;
    match client.get_data(&announcement).await {
        Ok((data, stat)) => {
            let token = format!("\"token\":{},", leader.czxid);
            let is_its = String::from_utf8_lossy(&data).contains(&token);
            Ok(is_its && stat.ephemeral_owner == leader.session && stat.version == 0)
        }
        Err(Error::NoNode) => Ok(false),
        Err(error) => Err(error),
    }
}

fn begins(part: &Part, leader: &Node) {
    let what = format!("harm to {}", part.member.announcement());
    let harm = Fault::begins(what, Effect::Writes, Instant(world::now()));
    history::add(&Fault { session: Some(leader.session), node: Some(leader.czxid), ..harm });
}

/// Breaks connections of candidates and observers, here and there in the next few session timeouts.
pub(crate) fn disturb(cluster: &mut Cluster, part: &Part, random: &mut Random) {
    for _ in 0..16 {
        let client = random.between(1, 6) as u16;
        let at = part.timeout / 100 * random.below(400) as u32;
        cluster.after(at, move |cluster| reset(cluster, client));
    }
}

/// Resets the connection of this client, if it has one.
fn reset(cluster: &mut Cluster, client: u16) {
    let host = host_of(client);
    if let Some(server) = cluster.world.server_of(host) {
        note("operator", format_args!("resets the connection of client {client}"));
        history::breaks(client, cluster.world.now());
        cluster.reset(host, server);
    }
}

/// Deletes the node of a leader: by itself, right behind a write to its announcement, or while the leader makes the announcement anew. Its connection
/// may break while it takes the announcement back.
pub(crate) async fn evict(
    client: &Client,
    part: &Part,
    node: &str,
    random: &mut Random,
) -> Result<(), Error> {
    let announcement = part.member.announcement();
    let leader = leader(client, part).await?.filter(|leader| leader.path == node);
    let Some(who) = leader.and_then(|leader| leader.who) else { return Ok(()) };
    let leader = host_of(who.client);
    match random.below(3) {
        0 => client.delete(node, None).await?,
        1 => {
            let (data, _) = client.get_data(&announcement).await?;
            let data = forged(&data);
            let written = client.set_data(&announcement, &data, None);
            let deleted = client.delete(node, None);
            written.await?;
            deleted.await?;
        }
        _ => {
            // The leader looks for its announcement then, or makes it anew.
            let moment = Moment::Bytes(leader, Direction::ToServer, random.below(4) as u32);
            let latest = part.timeout;
            let node = node.to_owned();
            cluster::later(world::now(), move |cluster| {
                cluster.amid(moment, latest, move |cluster| cluster.delete(&[node]));
            });
            gone(client.delete(&announcement, None).await)?;
        }
    }
    if random.once_in(2) {
        return Ok(());
    }
    // Until it has heard of that, a break would keep it from hearing.
    let since = tokio::time::Instant::now();
    while !history::was_evicted() && since.elapsed() < part.timeout {
        sleep(Duration::from_millis(1)).await;
    }
    if history::was_evicted() {
        let direction = [Direction::ToServer, Direction::ToClient][random.below(2) as usize];
        let moment = Moment::Bytes(leader, direction, random.below(3) as u32);
        cluster::later(world::now(), move |cluster| {
            cluster.amid(moment, Duration::from_millis(100), move |cluster| reset(cluster, who.client));
        });
    }
    Ok(())
}

/// Somebody else may have deleted it.
fn gone(done: Result<(), Error>) -> Result<(), Error> {
    if let Err(Error::NoNode) = done { Ok(()) } else { done }
}
