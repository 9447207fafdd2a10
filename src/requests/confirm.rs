//! Requests that ask whether our nodes are there, and whether a quorum answers.

use std::sync::Arc;

use futures::future::{join, join_all};
use zklock_recipe::acquisition::Certainty;
use zklock_recipe::nodes::confirmation;
use zklock_recipe::transaction::UNTOUCHED;
use zklock_recipe::{Event, Own, Report};
use zookeeper_client::{Client, Error, Stat};

use super::evidence::{Acknowledged, Synced};
use super::reply::{Reply, failure};
use super::transaction::commit;
use crate::path::parent_of;
use crate::settings::Settings;

/// A contender's node: the lock in whose queue it is, and the node.
pub(crate) type OwnNode = (Arc<Settings>, Own);

pub(crate) fn path_of((lock, own): &OwnNode) -> String {
    lock.queue.path.contender(own.place)
}

/// Makes sure that the node of our node's name is our node, by a look unless that is certain. `Err` is the event that
/// takes the place of the request: `gone` if it is not our node, or what the look failed with.
pub(crate) async fn still_ours(
    client: &Client,
    path: &str,
    own: Own,
    certainty: Certainty,
    gone: Event,
) -> Result<(), Event> {
    match certainty {
        Certainty::Seen(_) => Ok(()),
        Certainty::Unsure => look_for_own(client, path, own).await?.then_some(()).ok_or(gone),
    }
}

/// Looks whether our node exists, on a server that has what a quorum had when this was asked. The write in front makes sure
/// that every request which was sent before it on this connection has taken effect, or never will: a server handles one
/// session's requests in order. The leader refuses requests that come by a server which the session has left. But if that
/// server had been asked to resume the session, too, the leader may take the session for having gone back there
/// (`zk::session::late_creates`).
async fn look_for_own(client: &Client, path: &str, own: Own) -> Result<bool, Event> {
    let (answered, there) = join(answer_of_quorum(client), is_own_there(client, path, own)).await;
    answered?;
    there
}

/// Whether a node that was found under our node's name is our node. Once the directory was made again, names are used
/// again.
pub(crate) fn is_own(found: Option<&Stat>, own: Own) -> bool {
    found.is_some_and(|stat| stat.czxid == own.czxid)
}

/// Reads our node. Returns whether it exists, or what went wrong.
pub(crate) async fn is_own_there(client: &Client, path: &str, own: Own) -> Result<bool, Event> {
    match client.get_data(path).await {
        Ok((_, stat)) => Ok(is_own(Some(&stat), own)),
        Err(Error::NoNode) => Ok(false),
        Err(Error::NoAuth) => is_own_hidden(client, path).await,
        Err(error) => Err(failure(error)),
    }
}

/// Whether a node that this session may not read is its own, or what went wrong. A server lists a session's own nodes
/// whatever their ACLs say (`getEphemerals`, `FinalRequestProcessor`).
pub(crate) async fn is_own_hidden(client: &Client, path: &str) -> Result<bool, Event> {
    let own = client.list_ephemerals(parent_of(path)).await.map_err(failure)?;
    Ok(own.iter().any(|own| own == path))
}

/// Checks whether our node exists after a reply about it was lost.
pub(crate) async fn recover(client: Arc<Client>, lock: Arc<Settings>, own: Own) -> Reply {
    let path = lock.queue.path.contender(own.place);
    match look_for_own(&client, &path, own).await {
        Ok(there) => Event::Recovered(there.then_some(own)),
        Err(failure) => failure,
    }
    .into()
}

/// Sends a sync, which the leader must answer.
pub(crate) async fn sync(client: Arc<Client>) -> Result<Synced, Event> {
    client.sync("/").await.map(|()| Synced).map_err(failure)
}

/// Returns once the server has answered, whatever it says, all that was sent before on this connection.
pub(crate) async fn answered(client: &Client) {
    let _ = client.check_stat("/").await;
}

/// Sends a transaction that a quorum must acknowledge.
pub(crate) async fn heartbeat(client: Arc<Client>) -> Result<Acknowledged, Event> {
    answer_of_quorum(&client).await
}

/// Sends a transaction that a quorum must acknowledge. If the root does not exist, as a chroot may not, a quorum has still answered.
pub(crate) async fn answer_of_quorum(client: &Client) -> Result<Acknowledged, Event> {
    match check(client, "/", None).await {
        Ok(()) | Err(Event::OwnTouched) => Ok(Acknowledged(())),
        Err(event) => Err(event),
    }
}

/// Asks a quorum whether our nodes exist. In a queue that is shared, a write to one of them is a request to leave.
pub(crate) async fn confirm(client: Arc<Client>, nodes: Vec<OwnNode>) -> Result<Acknowledged, Report> {
    let shared = nodes.iter().map(|(lock, _)| lock).filter(|lock| lock.queue.layout().is_shared());
    let version = shared.clone().next().map(|_| UNTOUCHED);
    // The release of a predecessor has written to it.
    let looks = join_all(shared.map(async |lock| {
        if let Ok(Some(stat)) = client.check_stat(lock.queue.path.as_str()).await {
            lock.hints.saw_shared_directory(&stat);
        }
    }));
    let nodes =
        nodes.iter().map(|(lock, own)| (lock.queue.path.contender(own.place), *own)).collect::<Vec<_>>();
    let (confirmed, _) = join(confirm_version(&client, &nodes, version), looks).await;
    confirmed.map_err(|(index, event)| report_failure(index, event))
}

/// Asks a quorum whether these nodes of ours exist with this version. `Err` says what is wrong, and with which of them.
/// The transaction knows only their names, so reads go with it. A server handles one session's requests in order, so no
/// read is older than the transaction.
pub(crate) async fn confirm_version(
    client: &Client,
    nodes: &[(String, Own)],
    version: Option<i32>,
) -> Result<Acknowledged, (usize, Event)> {
    let paths = nodes.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>();
    let reads = join_all(nodes.iter().map(|(path, own)| is_own_there(client, path, *own)));
    let (checked, seen) = join(check_all(client, &paths, version), reads).await;
    for (index, seen) in seen.into_iter().enumerate() {
        match seen {
            Ok(true) => {}
            Ok(false) => return Err((index, Event::OwnTouched)),
            Err(failure) => return Err((index, failure)),
        }
    }
    checked.map(Acknowledged)
}

/// As [`check`], for several nodes in one transaction.
async fn check_all(client: &Client, paths: &[&str], version: Option<i32>) -> Result<(), (usize, Event)> {
    let checks = confirmation(0..paths.len(), version).collect::<Vec<_>>();
    match commit(client, &checks, |index| paths[*index]).await {
        Ok(_) => Ok(()),
        Err((Some(index), Error::NoNode)) => Err((*index, Event::OwnTouched)),
        Err((Some(index), Error::BadVersion)) => Err((*index, Event::OwnWritten)),
        // A node that this session may not read exists all the same. The server has not looked at those behind it.
        Err((Some(index), Error::NoAuth)) => {
            let (checked, rest) = paths.split_at(index + 1);
            if rest.is_empty() {
                return Ok(());
            }
            let behind = Box::pin(check_all(client, rest, version)).await;
            behind.map_err(|(index, event)| (checked.len() + index, event))
        }
        Err((index, error)) => Err((index.copied().unwrap_or(0), failure(error))),
    }
}

/// Sends a transaction that checks one node, and that it has this version, if one is given. It changes nothing, but it is a
/// write, so only a quorum can acknowledge it.
pub(crate) async fn check(client: &Client, node: &str, version: Option<i32>) -> Result<(), Event> {
    check_all(client, &[node], version).await.map_err(|(_, event)| event)
}

/// Returns what an event about one node means for a request about several.
pub(crate) fn report_failure(index: usize, event: Event) -> Report {
    match event {
        Event::Unanswered | Event::SessionOver(_) => Report::All(event),
        event => Report::Failed(index, event),
    }
}
