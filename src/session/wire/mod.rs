//! The recipe's requests in ZooKeeper's terms: each function sends one command and turns the reply into an event.
//!
//! zookeeper-client sends a request when its method is called, so what is called in one poll is sent back to
//! back, in that order.

mod foreign;
mod lost;
mod watch;

use std::sync::Arc;

pub(crate) use foreign::foreigners;
use foreign::live_suspect;
use futures::future::{BoxFuture, join};
pub(crate) use lost::{Search, Searches, find, recover, sweep};
pub(crate) use watch::{watch_own, watch_predecessor};
use zookeeper_client as zk;
use zookeeper_client::{
    Client, CreateMode, Error, MultiReadResult, MultiWriteError, MultiWriteResult, SessionState,
};

use crate::acl::Acl;
use crate::lock::Settings;
use crate::node::NodeData;
use crate::recipe::{Event, Look, Own, Refusal, Sequence, SessionEnd, Sight};

/// What a request led to: its reply, and the watch it left if it left one.
pub(crate) struct Reply {
    pub(crate) event: Event,
    pub(crate) watch: Option<BoxFuture<'static, Event>>,
}

impl From<Event> for Reply {
    fn from(event: Event) -> Self {
        Self { event, watch: None }
    }
}

/// A contender's node, whosever it is.
pub(crate) struct Node {
    pub(crate) sequence: Sequence,
    /// `None` if it is not ours to read.
    pub(crate) seen: Option<Seen>,
}

/// What reading a node shows.
pub(crate) struct Seen {
    pub(crate) czxid: i64,
    /// The session that created it.
    pub(crate) session: i64,
    /// `None` if it is not zklock's.
    pub(crate) data: Option<NodeData>,
}

/// The version that every node has.
const ANY_VERSION: i32 = -1;

/// How many nodes one request reads.
const READ_CHUNK: usize = 128;

/// Creates a contender and looks at the queue behind it, in one round trip.
pub(crate) async fn enter(client: Arc<Client>, lock: Arc<Settings>, data: Vec<u8>, look: Look) -> Reply {
    if look == Look::Count && lock.may_write_directory() {
        match enter_at_once(&client, &lock, &data).await {
            Some(event) => return event.into(),
            None => lock.must_not_write_directory(),
        }
    }
    let (prefix, acls) = (lock.path.prefix(), acls(&lock.acl));
    let options = CreateMode::EphemeralSequential.with_acls(zk::Acls::new(&acls));
    let create = client.create(&prefix, &data, &options);
    let (created, sight) = match look {
        Look::List => {
            let (created, children) = join(create, client.list_children(lock.path.as_str())).await;
            let sight = match children {
                Ok(children) if created.is_ok() => sight(&client, &lock, children).await,
                _ => Sight::Nothing,
            };
            (created, sight)
        }
        Look::Count => {
            let (created, stat) = join(create, client.check_stat(lock.path.as_str())).await;
            let stat = stat.ok().flatten();
            if let Some(stat) = &stat {
                lock.saw_directory(stat.data_length == 0);
            }
            (created, stat.map_or(Sight::Nothing, |stat| count(&stat)))
        }
    };
    let event = match created {
        Ok((stat, sequence)) => match i32::try_from(sequence.into_i64()) {
            Ok(sequence) => {
                Event::Entered { own: Own { sequence: Sequence(sequence), czxid: stat.czxid }, sight }
            }
            Err(_) => Event::Unanswered,
        },
        Err(error) => create_failure(error),
    };
    event.into()
}

/// As [`enter`] by count, but in one request: a transaction that creates the contender and writes nothing to the
/// directory, for whose stat it is answered. `None` if the directory is not ours to write to.
///
/// Two requests that are sent back to back arrive a round trip apart: zookeeper-client leaves Nagle's algorithm on,
/// which holds the second small segment until the first is acknowledged, mostly by its reply (measured: 4.3 ms for
/// a cycle instead of 3.1 ms, at 1 ms round trip).
async fn enter_at_once(client: &Client, lock: &Settings, data: &[u8]) -> Option<Event> {
    let acls = acls(&lock.acl);
    let options = CreateMode::EphemeralSequential.with_acls(zk::Acls::new(&acls));
    let mut transaction = client.new_multi_writer();
    let built = transaction.add_create(&lock.path.prefix(), data, &options);
    if let Err(error) = built.and(transaction.add_set_data(lock.path.as_str(), &[], None)) {
        return Some(failure(error));
    }
    match transaction.commit().await {
        Ok(results) => match results.as_slice() {
            [MultiWriteResult::Create { path, .. }, MultiWriteResult::SetData { stat }] => {
                let sequence = lock.path.child(path).and_then(Sequence::parse);
                // The one transaction created the node and wrote to the directory.
                let own = sequence.map(|sequence| Own { sequence, czxid: stat.mzxid });
                Some(own.map_or(Event::Unanswered, |own| Event::Entered { own, sight: count(stat) }))
            }
            _ => Some(Event::Unanswered),
        },
        Err(MultiWriteError::OperationFailed { index: 1, source: Error::NoAuth }) => None,
        Err(error) => Some(create_failure(error.into())),
    }
}

fn count(directory: &zk::Stat) -> Sight {
    usize::try_from(directory.num_children).map_or(Sight::Nothing, Sight::Count)
}

/// What an error says about the creation of a contender.
fn create_failure(error: Error) -> Event {
    match error {
        Error::NoNode => Event::NoDirectory,
        Error::NodeExists => Event::Refused(Refusal::Other(
            "the next contender's name is taken, by a node made by hand or because the numbers are at their end; \
             delete that node"
                .to_owned(),
        )),
        error => failure(error),
    }
}

/// Creates the lock's directory and its ancestors, chroot included, as container nodes: ZooKeeper removes those
/// once they are empty.
pub(crate) async fn create_directory(client: Arc<Client>, lock: Arc<Settings>) -> Reply {
    let (ancestors_acls, acls) = (acls(&lock.ancestors_acl), acls(&lock.acl));
    let directory = CreateMode::Container.with_acls(zk::Acls::new(&acls));
    // The directory first: to create an ancestor that exists takes permission to create it.
    let mut created = client.create(lock.path.as_str(), &[], &directory).await;
    if created == Err(Error::NoNode) {
        // A clone at the root always is a good one: "/" is a valid path.
        let root = Client::clone(&client).chroot("/").unwrap_or_else(|unchanged| unchanged);
        let chroot = client.path().trim_end_matches('/');
        let parent = format!("{chroot}{}", lock.path.parent().unwrap_or_default());
        let ancestors = CreateMode::Container.with_acls(zk::Acls::new(&ancestors_acls));
        if let Err(error) = root.mkdir(&parent, &ancestors).await {
            return failure(error).into();
        }
        created = client.create(lock.path.as_str(), &[], &directory).await;
    }
    match created {
        Ok(_) => {
            lock.saw_directory(true);
            Event::DirectoryReady
        }
        // An ancestor that was reaped in between shows when the contender is created.
        Err(Error::NodeExists | Error::NoNode) => Event::DirectoryReady,
        Err(error) => failure(error),
    }
    .into()
}

/// Lists the directory.
pub(crate) async fn list(client: Arc<Client>, lock: Arc<Settings>) -> Reply {
    match client.list_children(lock.path.as_str()).await {
        Ok(children) => match live_suspect(&client, &lock, &children).await {
            Ok(None) => Event::Listed(children),
            Ok(Some(foreign)) => Event::Foreign(foreign),
            Err(error) => failure(error),
        },
        Err(Error::NoNode) => Event::NoDirectory,
        Err(error) => failure(error),
    }
    .into()
}

/// What a listing behind a create saw.
async fn sight(client: &Client, lock: &Settings, children: Vec<String>) -> Sight {
    match live_suspect(client, lock, &children).await {
        Ok(None) => Sight::Children(children),
        Ok(Some(foreign)) => Sight::Foreign(foreign),
        Err(_) => Sight::Nothing,
    }
}

/// Whether a node that was found under our node's name is ours: names are used again once the directory was made
/// again.
fn is(found: Option<&zk::Stat>, own: Own) -> bool {
    found.is_some_and(|stat| stat.czxid == own.czxid)
}

/// Whether our node is there, by a look at it; or what went wrong.
async fn is_there(client: &Client, path: &str, own: Own) -> Result<bool, Event> {
    match client.get_data(path).await {
        Ok((_, stat)) => Ok(is(Some(&stat), own)),
        Err(Error::NoNode) => Ok(false),
        Err(error) => Err(failure(error)),
    }
}

/// Whether what has our node's name is our node, by a look at it unless that is certain.
async fn still_ours(client: &Client, path: &str, own: Own, certainty: Certainty) -> Result<bool, Event> {
    match certainty {
        Certainty::Seen(_) => Ok(true),
        Certainty::Unsure => is_there(client, path, own).await,
    }
}

/// How sure a contender is that what has its node's name is its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// It has seen its node on the present connection, which has this number.
    Seen(u64),
    /// It must look first.
    Unsure,
}

/// Releases as a holder: a write and a deletion that are one transaction grant the successor.
pub(crate) async fn release(
    client: Arc<Client>,
    lock: Arc<Settings>,
    own: Own,
    certainty: Certainty,
) -> Reply {
    let path = lock.path.contender(own.sequence);
    match still_ours(&client, &path, own, certainty).await {
        Ok(true) => {}
        Ok(false) => return Event::Released(false).into(),
        Err(failure) => return failure.into(),
    }
    let mut transaction = client.new_multi_writer();
    if let Err(error) = transaction.add_set_data(&path, &[], None).and(transaction.add_delete(&path, None)) {
        return failure(error).into();
    }
    match transaction.commit().await {
        Ok(_) => Event::Released(true),
        Err(MultiWriteError::OperationFailed { source: Error::NoNode, .. }) => Event::Released(false),
        Err(error) => failure(error.into()),
    }
    .into()
}

/// Has the leader answer; false if it is not known to have.
pub(crate) async fn sync(client: Arc<Client>) -> bool {
    client.sync("/").await.is_ok()
}

/// Has a quorum acknowledge a transaction that names a node: whether there was a node of that name; `None` if no quorum
/// is known to have.
pub(crate) async fn heartbeat(client: Arc<Client>, node: String) -> Option<bool> {
    match check(&client, &node).await {
        Event::Confirmed => Some(true),
        Event::OwnTouched => Some(false),
        _ => None,
    }
}

/// Asks the quorum whether our node is there. The transaction only knows its name, so a read goes with it.
pub(crate) async fn confirm(client: Arc<Client>, lock: Arc<Settings>, own: Own) -> Reply {
    confirm_version(&client, &lock.path.contender(own.sequence), own, ANY_VERSION).await.into()
}

/// As [`confirm`], for our node at `path` with this version. A server takes one session's requests in their order, so
/// the read sees what the transaction saw, or later.
pub(super) async fn confirm_version(client: &Client, path: &str, own: Own, version: i32) -> Event {
    let (checked, seen) = join(check_version(client, path, version), is_there(client, path, own)).await;
    match seen {
        Ok(true) | Err(Event::Refused(Refusal::NotAuthorized)) => checked,
        Ok(false) => Event::OwnTouched,
        Err(failure) => failure,
    }
}

/// A transaction that checks one node: a write, which only a quorum can acknowledge, though it changes nothing.
async fn check(client: &Client, node: &str) -> Event {
    check_version(client, node, ANY_VERSION).await
}

/// As [`check`], and whether the node has this version.
pub(super) async fn check_version(client: &Client, node: &str, version: i32) -> Event {
    let mut transaction = client.new_multi_writer();
    if let Err(error) = transaction.add_check_version(node, version) {
        return failure(error);
    }
    match transaction.commit().await {
        // A node that is not ours to read is there all the same.
        Ok(_) | Err(MultiWriteError::OperationFailed { source: Error::NoAuth, .. }) => Event::Confirmed,
        Err(MultiWriteError::OperationFailed { source: Error::NoNode | Error::BadVersion, .. }) => {
            Event::OwnTouched
        }
        Err(error) => failure(error.into()),
    }
}

/// Leaves the queue.
pub(crate) async fn delete(
    client: Arc<Client>,
    lock: Arc<Settings>,
    own: Own,
    certainty: Certainty,
) -> Reply {
    let path = lock.path.contender(own.sequence);
    match still_ours(&client, &path, own, certainty).await {
        Ok(true) => {}
        Ok(false) => return Event::Deleted.into(),
        Err(failure) => return failure.into(),
    }
    match client.delete(&path, None).await {
        Ok(()) | Err(Error::NoNode) => Event::Deleted,
        Err(error) => failure(error),
    }
    .into()
}

/// Every contender in the queue, first the holder; or what went wrong.
pub(crate) async fn contenders(client: Arc<Client>, lock: Arc<Settings>) -> Result<Vec<Node>, Event> {
    let mut contenders = match client.list_children(lock.path.as_str()).await {
        Ok(children) => children.iter().filter_map(|name| Sequence::parse(name)).collect::<Vec<_>>(),
        Err(Error::NoNode) => Vec::new(),
        Err(error) => return Err(failure(error)),
    };
    contenders.sort_unstable();
    let mut nodes = Vec::with_capacity(contenders.len());
    for chunk in contenders.chunks(READ_CHUNK) {
        nodes.extend(read(&client, &lock, chunk).await.map_err(failure)?);
    }
    Ok(nodes)
}

/// Reads some contenders, in one request. Those that are gone by now are left out.
async fn read(client: &Client, lock: &Settings, contenders: &[Sequence]) -> Result<Vec<Node>, Error> {
    let mut reader = client.new_multi_reader();
    for sequence in contenders {
        reader.add_get_data(&lock.path.contender(*sequence))?;
    }
    let mut nodes = Vec::with_capacity(contenders.len());
    for (sequence, result) in contenders.iter().zip(reader.commit().await?) {
        let seen = match result {
            MultiReadResult::Data { data, stat } => {
                Some(Seen { czxid: stat.czxid, session: stat.ephemeral_owner, data: NodeData::decode(&data) })
            }
            MultiReadResult::Error { err: Error::NoAuth } => None,
            _ => continue,
        };
        nodes.push(Node { sequence: *sequence, seen });
    }
    Ok(nodes)
}

/// How a session in this state has ended, if it has.
pub(crate) fn end(state: SessionState) -> Option<SessionEnd> {
    match state {
        SessionState::Expired => Some(SessionEnd::Expired),
        SessionState::Closed => Some(SessionEnd::Closed),
        SessionState::AuthFailed => Some(SessionEnd::AuthFailed),
        SessionState::Disconnected | SessionState::SyncConnected | SessionState::ConnectedReadOnly => None,
    }
}

/// What an error says about its request. Only a server's own code is a definite answer; a stalled connection,
/// a lost one and anything else unexpected leave the outcome unknown.
pub(crate) fn failure(error: Error) -> Event {
    match error {
        Error::SessionExpired => Event::SessionOver(SessionEnd::Expired),
        Error::ClientClosed => Event::SessionOver(SessionEnd::Closed),
        Error::AuthFailed => Event::SessionOver(SessionEnd::AuthFailed),
        Error::NoAuth => Event::Refused(Refusal::NotAuthorized),
        Error::NoChildrenForEphemerals => Event::Refused(Refusal::EphemeralParent),
        Error::NotReadOnly => Event::Refused(Refusal::ReadOnly),
        Error::InvalidAcl => Event::Refused(Refusal::InvalidAcl),
        error if is_definite(&error) => Event::Refused(Refusal::Other(error.to_string())),
        // Among them `Throttled`: the server did nothing, and asks for a retry.
        _ => Event::Unanswered,
    }
}

fn is_definite(error: &Error) -> bool {
    match error {
        Error::BadArguments(_)
        | Error::BadVersion
        | Error::NoNode
        | Error::NodeExists
        | Error::NotEmpty
        | Error::NoWatcher
        | Error::QuotaExceeded
        | Error::ReconfigDisabled
        | Error::Unimplemented => true,
        // Not `MarshallingError`: the server says so, too, if it fails to answer what it has done.
        // API errors are below -100 (`KeeperException.Code`); -122 is the server giving up on a request that
        // may still be under way.
        Error::UnexpectedErrorCode(code) => *code < -100 && *code != -122,
        _ => false,
    }
}

pub(super) fn acls(acl: &Acl) -> Vec<zk::Acl> {
    let all = [
        zk::Permission::READ,
        zk::Permission::WRITE,
        zk::Permission::CREATE,
        zk::Permission::DELETE,
        zk::Permission::ADMIN,
    ];
    let entry = |entry: &crate::acl::Entry| {
        let permission = all.iter().enumerate().fold(zk::Permission::NONE, |sum, (bit, permission)| {
            if entry.permissions.0 & (1 << bit) == 0 { sum } else { sum | *permission }
        });
        zk::Acl::new(permission, zk::AuthId::new(&entry.scheme, &entry.id))
    };
    acl.entries.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_servers_own_codes_are_definite() {
        assert_eq!(failure(Error::NoAuth), Event::Refused(Refusal::NotAuthorized));
        assert!(matches!(failure(Error::QuotaExceeded), Event::Refused(Refusal::Other(_))));
        assert!(matches!(failure(Error::UnexpectedErrorCode(-120)), Event::Refused(Refusal::Other(_))));
        for unknown in [
            Error::ConnectionLoss,
            Error::Timeout,
            Error::SessionMoved,
            Error::Throttled,
            Error::UnexpectedError("no reply".into()),
            Error::UnexpectedErrorCode(-7),
            Error::UnexpectedErrorCode(-122),
        ] {
            assert_eq!(failure(unknown.clone()), Event::Unanswered, "{unknown:?}");
        }
        assert_eq!(failure(Error::SessionExpired), Event::SessionOver(SessionEnd::Expired));
    }

    #[test]
    fn permissions_keep_their_bits() {
        let acl = Acl::creator_only().and("ip", "::1", crate::Permissions::READ | crate::Permissions::DELETE);
        let acls = acls(&acl);
        assert_eq!(acls[0].permission(), zk::Permission::ALL);
        assert_eq!(acls[1].permission(), zk::Permission::READ | zk::Permission::DELETE);
        assert_eq!((acls[1].scheme(), acls[1].id()), ("ip", "::1"));
    }
}
