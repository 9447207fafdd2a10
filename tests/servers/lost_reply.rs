//! Requests that took effect though their replies were lost, and requests that did not.

use std::collections::BTreeMap;
use std::task::Poll;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, Either, select};
use futures::stream;
use support::{
    BOUND, Server, Steps, enqueue_seen_by, eventually, granted, hide, linked, linked_session, operator,
    server, sessions, until_nothing_is_left, within,
};
use zklock::{AcquireError, LockOptions, Session, SessionState};
use zklock_testcontainers::{Link, RequestKind, ZooKeeper};

use super::family::{FAMILY, Handle, Held, Member, acquired, is_free, number, rival};

/// What acquisitions and releases send. Heartbeats send some of them, too.
const KINDS: [RequestKind; 8] = [
    RequestKind::CreateContainer,
    RequestKind::Create,
    RequestKind::Exists,
    RequestKind::Multi,
    RequestKind::MultiRead,
    RequestKind::GetData,
    RequestKind::GetChildren,
    RequestKind::Delete,
];

/// How many scenes are played at a time: most of one is waiting.
const AT_A_TIME: usize = 64;

/// What becomes of a message on its way, and of the caller.
#[derive(Clone, Copy, Debug)]
struct Fault {
    /// It meets the reply, to a request that was carried out. Otherwise it meets the request.
    reply: bool,
    /// Which message of its kind it meets: the first one, or the second one.
    nth: u64,
    /// The connection breaks, so the message is lost.
    lost: bool,
    /// The caller goes.
    gone: bool,
}

impl Fault {
    fn all() -> impl Iterator<Item = Self> {
        let outcomes = [(true, false), (true, true), (false, true)];
        let messages = [(true, 1), (true, 2), (false, 1), (false, 2)];
        messages
            .into_iter()
            .flat_map(move |(reply, nth)| outcomes.map(|(lost, gone)| Self { reply, nth, lost, gone }))
    }

    /// Holds the message on its way. Dropping the answer lets it go on.
    async fn holds(self, link: &Link, kind: RequestKind) -> zklock_testcontainers::Held {
        let hold = || if self.reply { link.hold_reply(kind) } else { link.hold_request(kind) };
        let mut message = hold();
        for _ in 1..self.nth {
            message.reached().await;
            message = hold();
        }
        message.reached().await;
        message
    }

    /// Has the call meet it. Returns the call's outcome, unless its caller has gone, and whether the call did meet it.
    async fn meets<T>(
        self,
        link: &Link,
        kind: RequestKind,
        call: impl Future<Output = T>,
    ) -> (Option<T>, bool) {
        match select(Box::pin(self.holds(link, kind)), Box::pin(call)).await {
            Either::Left((held, call)) => {
                let call = (!self.gone).then_some(call);
                if self.lost {
                    link.cut();
                }
                drop(held);
                match call {
                    Some(call) => (Some(within("the end", call).await), true),
                    None => (None, true),
                }
            }
            Either::Right((ended, _)) => (Some(ended), false),
        }
    }
}

/// The directory of a queue, as an acquisition finds it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Directory {
    /// Its handle does not know it, and it may not exist. A contender enters by a create and a look.
    New,
    /// Its handle has acquired there before. A contender enters by a transaction.
    Used,
    /// The same, and it has another program's data. A contender enters by a create and a read.
    Foreign,
}

/// Where a member acquires.
#[derive(Clone, Copy)]
struct Scene {
    member: Member,
    directory: Directory,
    /// Whether a rival holds it, and releases when nothing else happens any more.
    behind: bool,
}

impl Scene {
    fn all() -> impl Iterator<Item = Self> {
        let settings = [Directory::New, Directory::Used, Directory::Foreign];
        let settings = settings.into_iter().flat_map(|directory| [(directory, false), (directory, true)]);
        let scenes = settings.flat_map(|(directory, behind)| {
            FAMILY.iter().map(move |member| Self { member: *member, directory, behind })
        });
        // The data of a pool is its own.
        scenes.filter(|scene| scene.directory != Directory::Foreign || !scene.member.is_pooled())
    }

    fn name(self) -> String {
        format!("{}, {:?}, behind: {}", self.member.name, self.directory, self.behind)
    }

    /// Its name, with a fault that messages of a kind meet in it.
    fn with(self, fault: Fault, kind: RequestKind) -> String {
        format!("{}, {fault:?}, {kind:?}", self.name())
    }

    /// A session that is about to acquire by this handle, and the rival before it.
    async fn set(
        self,
        server: &Server,
        other: &Session,
        path: &str,
    ) -> (Link, Session, Handle, Option<Held>) {
        let (link, session) = linked(server, Duration::from_secs(30)).await;
        let handle = self.member.handle(&session, path);
        if self.directory == Directory::Foreign {
            let held = rival(self.member, other, path).await;
            let client = operator(server).await;
            for node in held.nodes() {
                let (directory, _) = node.rsplit_once('/').expect("a path");
                client.set_data(directory, b"precious", None).await.expect("the data is set");
            }
            held.release().await.expect("its release");
        }
        if self.directory != Directory::New {
            acquired(&handle).await.release().await.expect("its release");
        }
        let rival = if self.behind { Some(rival(self.member, other, path).await) } else { None };
        (link, session, handle, rival)
    }

    /// Acquires and releases without a fault. Returns the faults that either can meet.
    async fn rehearsed(self, server: &Server, other: &Session) -> Vec<(Fault, RequestKind)> {
        let path = format!("/lost/{}-{:?}-{}", self.member.name, self.directory, self.behind);
        let (link, _session, handle, rival) = self.set(server, other, &path).await;
        let sent = || KINDS.map(|kind| link.requests_of(kind));
        link.reset_counts();
        let held = behind(rival, handle.acquire()).await.expect("a hold");
        let (entering, nodes) = (sent(), held.nodes());
        link.reset_counts();
        held.release().await.expect("its release");
        for node in nodes.iter().filter(|_| self.directory == Directory::Foreign) {
            let (data, _) = operator(server).await.get_data(node.rsplit_once('/').unwrap().0).await.unwrap();
            assert_eq!(data, b"precious", "{path}");
        }
        let most = entering.into_iter().zip(sent()).map(|(entering, leaving)| entering.max(leaving));
        let kinds = KINDS.into_iter().zip(most).collect::<Vec<_>>();
        let met =
            |(fault, (kind, most)): (Fault, (RequestKind, u64))| (most >= fault.nth).then_some((fault, kind));
        Fault::all().flat_map(|fault| kinds.iter().map(move |kind| (fault, *kind))).filter_map(met).collect()
    }

    /// Acquires and releases, while messages of a kind meet a fault. Returns how many of the two calls do.
    async fn played(self, server: &Server, other: &Session, fault: Fault, kind: RequestKind) -> usize {
        let Self { member, directory, behind: is_behind } = self;
        let what = self.with(fault, kind);
        let (message, outcome) = ((fault.reply, fault.nth), (fault.lost, fault.gone));
        let path =
            format!("/lost/{}-{directory:?}-{is_behind}-{kind:?}-{message:?}-{outcome:?}", member.name);
        let (link, session, handle, rival) = self.set(server, other, &path).await;
        let before = rival.iter().flat_map(Held::nodes).collect::<Vec<_>>();
        let (entered, entering) = fault.meets(&link, kind, behind(rival, handle.acquire())).await;
        let held = match entered {
            Some(Ok(held)) => {
                for (node, before) in held.nodes().iter().zip(&before) {
                    assert_eq!(number(node), number(before) + 1, "{what}: it keeps its place");
                }
                held
            }
            Some(Err(error)) => panic!("{what}: {error}"),
            None => acquired(&handle).await,
        };
        assert!(held.is_held(), "{what}");
        let (left, leaving) = fault.meets(&link, kind, held.release()).await;
        left.unwrap_or(Ok(())).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(session.requeued(), 0, "{what}: it keeps its place");
        is_free(member, other, &path).await;
        session.close().await.expect("its end");
        usize::from(entering) + usize::from(leaving)
    }
}

/// Acquires behind a rival, if there is one, which releases when nothing else happens any more.
async fn behind<T>(rival: Option<Held>, acquiring: BoxFuture<'static, T>) -> T {
    let mut rival = rival.map(|rival| async || rival.release().await.expect("its release"));
    let mut acquiring = Steps::new(acquiring);
    loop {
        if let Poll::Ready(acquired) = acquiring.poll() {
            break acquired;
        }
        acquiring.woken_by(&mut rival).await;
    }
}

/// Plays a scene, with a bound beyond those of its waits.
async fn bounded<T>(what: &str, played: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND * 3, played).await.unwrap_or_else(|_| panic!("{what}: without an end"))
}

#[tokio::test]
async fn each_request_and_each_reply_may_be_lost() {
    let (server, [other]) = sessions().await;
    let rehearsed = stream::iter(Scene::all()).map(async |it| {
        let met = bounded(&it.name(), it.rehearsed(&server, &other)).await;
        met.into_iter().map(move |met| (it, met))
    });
    let scenes = rehearsed.buffer_unordered(AT_A_TIME).collect::<Vec<_>>().await;
    let played = stream::iter(scenes.into_iter().flatten()).map(async |(scene, (fault, kind))| {
        let met = bounded(&scene.with(fault, kind), scene.played(&server, &other, fault, kind)).await;
        ((scene.member.name, fault.reply, fault.nth), met)
    });
    let mut met = BTreeMap::<_, usize>::new();
    for (what, times) in played.buffer_unordered(AT_A_TIME).collect::<Vec<_>>().await {
        *met.entry(what).or_default() += times;
    }
    for member in FAMILY {
        for (reply, nth, least) in [(true, 1, 40), (false, 1, 40), (true, 2, 3), (false, 2, 3)] {
            let times = met.get(&(member.name, reply, nth)).copied().unwrap_or_default();
            assert!(times >= least, "{}, reply: {reply}, {nth}: {times} times", member.name);
        }
    }
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_server_that_hangs_up_on_every_create_is_not_hammered() {
    let server =
        ZooKeeper::builder().java_property("jute.maxbuffer", "8192").start().await.expect("a server");
    let server = Server::from(server);
    let (link, session) = linked(&server, Duration::from_secs(20)).await;
    let options = LockOptions::new().data("x".repeat(16 * 1024));
    let lock = session.lock("/lock/orders").unwrap().with_options(options).unwrap();
    let creates = || link.requests_of(RequestKind::Create);
    let acquiring = support::acquire(&lock);
    eventually("another create", async || creates() >= 2).await;
    let before = creates();
    assert!(tokio::time::timeout(Duration::from_secs(3), acquiring).await.is_err(), "it goes on");
    assert!(creates() - before < 20, "{} creates in three seconds", creates() - before);
}

#[tokio::test]
async fn a_create_is_adopted_though_another_node_of_its_session_is_hidden() {
    let (server, link, session) = linked_session(Duration::from_secs(20)).await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    hide(&operator(&server).await, &guard.node()).await;
    let lost = link.lose_reply(RequestKind::Multi);
    // The node in front of it is not ours to watch, and that is told: the own node was found, and deleted.
    let error = within("the refusal", lock.acquire()).await.unwrap_err();
    assert_eq!(error, AcquireError::NotAuthorized { path: "/lock/orders".into() });
    assert!(lost.has_happened());
    assert_eq!(server.ephemerals().await, 1, "the node that was created is left");
    assert!(guard.is_held());
    assert_eq!(session.requeued(), 0);
}

/// Nobody can tell whose a node is that its own session may not read, or whose data was overwritten: its contender finds a
/// node by an id in its data. It would keep the lock from everybody.
#[tokio::test]
async fn a_create_that_its_session_cannot_find_goes_with_the_session() {
    let server = server().await;
    let operator = operator(&server).await;
    for (hides, waits) in [(true, true), (false, true), (false, false)] {
        let (link, session) = linked(&server, Duration::from_secs(20)).await;
        let lock = session.lock(&format!("/lock/{hides}-{waits}")).unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        let (id, held) = (session.id(), link.hold_reply(RequestKind::Multi));
        let acquiring = support::acquire(&lock);
        within("the create", held.reached()).await;
        let node = format!("{}/lock-0000000001", lock.path());
        if hides {
            hide(&operator, &node).await;
        } else {
            operator.set_data(&node, b"mine", None).await.unwrap();
        }
        if !waits {
            acquiring.abort();
        }
        link.cut();
        drop(held);
        if waits {
            let guard = granted(acquiring).await;
            assert_eq!(session.requeued(), 1);
            assert_eq!(server.ephemerals().await, 1, "the lost node is gone");
            guard.release().await.unwrap();
        }
        eventually("another session", async || session.id() != id).await;
        until_nothing_is_left(&server).await;
    }
}

/// A server tells a session which nodes it has, whatever their ACLs say.
#[tokio::test]
async fn a_hidden_node_is_deleted_on_another_connection() {
    let (server, link, session) = linked_session(Duration::from_secs(20)).await;
    let holder = support::session(&server).await;
    let theirs = holder.lock("/lock/orders").unwrap();
    let guard = theirs.acquire().await.unwrap();
    let waiter = enqueue_seen_by(&theirs, &session.lock("/lock/orders").unwrap()).await;
    hide(&operator(&server).await, "/lock/orders/lock-0000000001").await;
    link.refuse();
    link.cut();
    eventually("the connection", async || session.state() == SessionState::Disconnected).await;
    waiter.abort();
    link.accept();
    eventually("its end", async || server.ephemerals().await == 1).await;
    assert_eq!(session.requeued(), 0);
    guard.release().await.unwrap();
    until_nothing_is_left(&server).await;
}
