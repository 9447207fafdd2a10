//! Helpers that the tests on real servers share.

pub mod peers;
mod postgres;
mod server;
mod wait;

use std::fmt::Debug;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use zklock::{AcquireError, Guard, Lock, QueryError, Session, SessionBuilder, inspect::Contender};
use zklock_testcontainers::Link;
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

pub use postgres::Postgres;
pub use server::{STANDING, Server, TICK, number, own_server, server, standing_server};
pub use wait::{BOUND, eventually, within};

/// Connects a session with the default options.
pub async fn session(server: &Server) -> Session {
    Session::connect(server.connect_string()).await.expect("a session")
}

/// Returns a place for a test, as [`server()`] does, and so many sessions there.
pub async fn sessions<const N: usize>() -> (Server, [Session; N]) {
    let server = server().await;
    let mut sessions = Vec::new();
    for _ in 0..N {
        sessions.push(session(&server).await);
    }
    (server, sessions.try_into().expect("so many"))
}

/// The same, and the lock that most tests are about, of each session.
pub async fn orders<const N: usize>() -> (Server, [Lock; N]) {
    let (server, sessions) = sessions().await;
    (server, sessions.map(|session| session.lock("/lock/orders").expect("a lock")))
}

/// Returns a place for a test, as [`server()`] does, and a session there with this timeout behind a proxy.
pub async fn linked_session(timeout: Duration) -> (Server, Link, Session) {
    let server = server().await;
    let (link, session) = linked(&server, timeout).await;
    (server, link, session)
}

/// Prepares a session with this timeout at [`server()`], or at a proxy to it. A server's first session may take longer than
/// a short timeout if the machine is busy, and a server that is busy may not tell its tick in time.
pub fn patient(address: impl AsRef<str>, timeout: Duration) -> SessionBuilder {
    Session::builder(address.as_ref()).session_timeout(timeout).connect_timeout(BOUND).tick(TICK)
}

/// Starts a proxy to the server, and connects a session through it with this timeout.
pub async fn linked(server: &Server, timeout: Duration) -> (Link, Session) {
    let link = Link::start(server.address()).await.expect("a link");
    let session = patient(server.at(link.address()), timeout).connect().await.expect("a session");
    (link, session)
}

/// Connects a plain client that does what an operator would do, however long the server takes.
pub async fn operator(server: &Server) -> Client {
    let connector = Client::connector().with_session_timeout(BOUND);
    connector.connect(&server.connect_string()).await.expect("a client")
}

/// Hides a node from everybody, as an operator can.
pub async fn hide(operator: &Client, path: &str) {
    let nobody = AuthId::new("digest", "nobody:AAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    operator.set_acl(path, &[Acl::new(Permission::ALL, nobody)], None).await.expect("the node is hidden");
}

/// Creates a persistent node, with its ancestors.
pub async fn make(client: &Client, path: &str) {
    client.mkdir(path, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.expect("a node");
}

/// Returns the present queue, as soon as a server tells it.
pub async fn queue(lock: &Lock) -> Vec<Contender> {
    within("the queue", async {
        loop {
            match lock.contenders().await {
                Err(QueryError::Disconnected { .. } | QueryError::Unanswered { .. }) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                queue => break queue.expect("the queue"),
            }
        }
    })
    .await
}

/// Waits until this many contenders are in the queue.
pub async fn until_queued(lock: &Lock, contenders: usize) {
    eventually("the queue's length", async || queue(lock).await.len() == contenders).await;
}

/// An acquisition in a separate task.
pub type Waiter<T = Guard, E = AcquireError> = JoinHandle<Result<T, E>>;

/// Acquires the lock in a separate task.
pub fn acquire(lock: &Lock) -> Waiter {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire().await })
}

/// Acquires the lock in a separate task, and waits until the contender is in the queue.
pub async fn enqueue(lock: &Lock) -> Waiter {
    enqueue_seen_by(lock, lock).await
}

/// As [`enqueue`], but it looks at the queue through `observer`, so the session of `lock` sends nothing else.
pub async fn enqueue_seen_by(observer: &Lock, lock: &Lock) -> Waiter {
    let lock = lock.clone();
    queued(async || queue(observer).await.len(), async move { lock.acquire().await }).await
}

/// Has a call contend in a separate task, and waits until its queue, of which `length` is the length, is longer by one.
pub async fn queued<T: Send + 'static>(
    mut length: impl AsyncFnMut() -> usize,
    call: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let before = length().await;
    let task = tokio::spawn(call);
    eventually("its place in the queue", async || length().await == before + 1).await;
    task
}

/// As [`enqueue`], behind this guard in an ensemble. A server there may not know of the holder at once, so it first
/// waits until the waiter's server shows the holder.
pub async fn enqueue_behind(guard: &Guard, lock: &Lock) -> Waiter {
    let node = guard.node();
    eventually("the holder's node", async || queue(lock).await.iter().any(|it| it.path == node)).await;
    enqueue(lock).await
}

/// Waits for what a waiter is granted.
pub async fn granted<T, E: Debug>(task: Waiter<T, E>) -> T {
    within("the grant", task).await.expect("no panic").expect("a guard")
}

/// Waits for the error that a call in a separate task ends with.
pub async fn refused<T, E>(task: Waiter<T, E>) -> E {
    within("the error", task).await.expect("no panic").err().expect("an error")
}

/// Returns a number of the whole server from its answer to `mntr`.
pub async fn monitored(server: &Server, key: &str) -> u64 {
    number(&server.own().admin("mntr").await.expect("mntr"), key)
}

/// Waits until these watches stand: one for each holder, on its own node, and one for each waiter, on its predecessor.
pub async fn until_watched(server: &Server, holders: u64, waiters: u64) {
    eventually("the watches", async || server.watches().await == holders + waiters).await;
}

/// Waits until this session's watches on children stand as well: a waiter tells by them a release from a deletion. A server
/// names no such watches. It sets them before it answers what the session asks from here on.
pub async fn until_children_are_watched(session: &Session) {
    assert_eq!(session.lock("/marker").expect("a lock").contenders().await, Ok(vec![]));
}

/// Returns whether the server's events name their transactions, as they do from 3.9 on. If they do not, a waiter lists
/// the queue when its predecessor releases the lock.
pub async fn names_transactions(server: &Server) -> bool {
    let answer = server.admin("srvr").await;
    let version = answer.strip_prefix("Zookeeper version: 3.").expect("a version");
    let minor = version.split('.').next().and_then(|minor| minor.parse::<u32>().ok());
    minor.expect("a minor version") >= 9
}

/// Waits until no ephemeral node and no watch is left at this place.
pub async fn until_nothing_is_left(server: &Server) {
    eventually("no ephemeral node and no watch", async || server.is_left_clean().await).await;
}

/// Returns the path of an example's program. Cargo puts it beside the directory of the tests, and builds it with them
/// unless it builds only some of them.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let program = test.ancestors().nth(2).expect("two folders up").join("examples").join(name);
    assert!(program.exists(), "build it first: cargo build --example {name}");
    program
}

/// A future that is polled by hand, to stop at each of its await points.
pub struct Steps<F> {
    future: Pin<Box<F>>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

impl<F: Future> Steps<F> {
    /// Makes the steps of a future that was not polled yet.
    pub fn new(future: F) -> Self {
        Self { future: Box::pin(future), woken: Arc::default() }
    }

    /// Polls the future once.
    pub fn poll(&mut self) -> Poll<F::Output> {
        let waker = self.woken.clone().into();
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polls the future to its end.
    pub async fn finished(self) -> F::Output {
        self.future.await
    }

    /// Waits until the future asks to be polled.
    pub async fn woken(&self) {
        within("a wake-up", self.woken.0.notified()).await;
    }

    /// Returns whether the future asks to be polled within `quiet`.
    pub async fn woken_within(&self, quiet: Duration) -> bool {
        tokio::time::timeout(quiet, self.woken.0.notified()).await.is_ok()
    }

    /// Waits until the future asks to be polled. If it is quiet for a while, it waits for what `release` gives. A busy
    /// machine may only have been slow with a reply; then that is given early.
    pub async fn woken_by(&self, release: &mut Option<impl AsyncFnOnce()>) {
        if !self.woken_within(QUIET).await {
            if let Some(release) = release.take() {
                release().await;
            }
            self.woken().await;
        }
    }
}

/// How long no wake-up means that a future waits for what only the test can give.
const QUIET: Duration = Duration::from_secs(1);

/// Polls a future so often, and drops it when it has asked to be polled once more. `release` gives it what it waits for.
/// Returns whether it was done by then.
pub async fn dropped_before<F: Future>(steps: usize, future: F, release: impl AsyncFnOnce()) -> bool {
    let (mut future, mut release) = (Steps::new(future), Some(release));
    for _ in 0..steps {
        if future.poll().is_ready() {
            return true;
        }
        future.woken_by(&mut release).await;
    }
    false
}

/// Polls a future so often, whenever it asks for that, and drops it. Returns whether it was done by then.
pub async fn dropped_after<F: Future>(steps: usize, future: F) -> bool {
    let mut future = Steps::new(future);
    for step in 0..steps {
        if step > 0 {
            future.woken().await;
        }
        if future.poll().is_ready() {
            return true;
        }
    }
    false
}
