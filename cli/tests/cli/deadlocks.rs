//! `zklock deadlocks`: circles of holders that wait for each other.

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use zklock::{Guard, LockOptions, Session};
use zklock_test_support::{Server, Waiter, eventually, queue, queued, server, session, within};
use zklock_testcontainers::{Link, RequestKind};

use crate::support::looker::{answers, rows, zklock};
use crate::support::{at, until_queued};

/// A session that is one contender.
struct Process {
    session: Session,
    options: LockOptions,
}

impl Process {
    async fn new(server: &Server, owner: &str) -> Self {
        Self { session: session(server).await, options: LockOptions::new().owner(owner) }
    }

    async fn holds(&self, path: &str) -> Guard {
        let lock = self.session.lock(path).unwrap().with_options(self.options.clone()).unwrap();
        lock.acquire().await.unwrap()
    }

    /// Waits for a lock that somebody holds.
    async fn waits(&self, path: &str) -> Waiter {
        let lock = self.session.lock(path).unwrap().with_options(self.options.clone()).unwrap();
        zklock_test_support::enqueue(&lock).await
    }

    async fn reads(&self, path: &str) -> zklock::ReadGuard {
        let lock = self.session.rw_lock(path).unwrap().with_options(self.options.clone()).unwrap();
        lock.read().await.unwrap()
    }

    /// Waits as a reader.
    async fn waits_to_read(&self, path: &str) -> JoinHandle<Result<zklock::ReadGuard, zklock::AcquireError>> {
        let lock = self.session.rw_lock(path).unwrap().with_options(self.options.clone()).unwrap();
        let queue = self.session.lock(path).unwrap();
        queued(async || zklock_test_support::queue(&queue).await.len(), async move { lock.read().await })
            .await
    }

    async fn takes(&self, path: &str) -> zklock::guard::Permit {
        let pool = self.session.semaphore(path, 2).unwrap().with_options(self.options.clone()).unwrap();
        pool.acquire().await.unwrap()
    }

    /// Waits in the turnstile of a semaphore.
    async fn waits_to_take(&self, path: &str, place: usize) -> JoinHandle<()> {
        let pool = self.session.semaphore(path, 2).unwrap().with_options(self.options.clone()).unwrap();
        let task = tokio::spawn(async move { drop(pool.acquire().await) });
        until_queued(&self.session, &format!("{path}/queue"), place).await;
        task
    }
}

async fn three() -> (Server, String, [Process; 3]) {
    let (server, servers) = at(server().await);
    let processes = ["alpha", "beta", "gamma"].map(|owner| Process::new(&server, owner));
    let processes = join_all(processes).await.try_into().ok().expect("three");
    (server, servers, processes)
}

/// The circles, each as the waiters, the paths where they wait, and whom they wait for.
async fn circles(servers: &str) -> Vec<(bool, Vec<[String; 3]>)> {
    let ran = zklock(servers, &["deadlocks", "--json"]).await;
    let report = ran.report();
    let circles = report.as_array().expect("an array");
    assert_eq!(ran.code, i32::from(!circles.is_empty()), "{ran:?}");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let step =
        |step: &Value| [text(&step["waiter"]["owner"]), text(&step["path"]), text(&step["blocker"]["owner"])];
    let circle = |circle: &Value| {
        let steps = circle["steps"].as_array().expect("steps").iter().map(step);
        (circle["possible"] == json!(true), steps.collect())
    };
    circles.iter().map(circle).collect()
}

fn steps<const N: usize>(steps: [[&str; 3]; N]) -> Vec<[String; 3]> {
    steps.map(|step| step.map(str::to_owned)).to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_is_no_circle_until_it_is_closed() {
    let (_server, servers, [alpha, beta, gamma]) = three().await;
    let _held = (alpha.holds("/lock/a").await, beta.holds("/lock/b").await, gamma.holds("/lock/c").await);
    let _other = alpha.holds("/lock/d").await;
    answers(&servers, &[("deadlocks /lock", 0, "", "no circle below /lock: 0 of 4 held")]).await;
    let _chain = (alpha.waits("/lock/b").await, beta.waits("/lock/c").await);
    // A process with many tasks waits for what it holds, here and there.
    let _own = (alpha.waits("/lock/a").await, alpha.waits("/lock/d").await);
    assert_eq!(circles(&servers).await, []);
    answers(&servers, &[("deadlocks /lock", 0, "", "no circle below /lock: 4 of 4 held")]).await;

    let closing = gamma.waits("/lock/a").await;
    let three = [["gamma", "/lock/a", "alpha"], ["alpha", "/lock/b", "beta"], ["beta", "/lock/c", "gamma"]];
    assert_eq!(circles(&servers).await, [(false, steps(three))]);
    let told = zklock(&servers, &["deadlocks"]).await;
    told.is(1, &told.stdout, "zklock sees sessions, and not tasks");
    let lines = rows(&told.stdout);
    assert!(lines[0][0].starts_with("circle of 3, complete for "), "{told:?}");
    let cells = lines[2..].iter().map(|row| [row[0], row[2], row[3]]).collect::<Vec<_>>();
    let expected =
        [["gamma", "/lock/c", "/lock/a"], ["alpha", "/lock/a", "/lock/b"], ["beta", "/lock/b", "/lock/c"]];
    assert_eq!(cells, expected, "{told:?}");
    // One lock of it is elsewhere.
    assert_eq!(zklock(&servers, &["deadlocks", "/lock/a"]).await.code, 0);

    closing.abort();
    eventually("the end of the wait", async || circles(&servers).await.is_empty()).await;
    answers(&servers, &[("deadlocks /nope", 66, "", "/nope does not exist")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_whom_depends_on_kinds_and_pools() {
    let (server, servers, [alpha, beta, gamma]) = three().await;
    // A writer waits for each reader. A reader does not wait for other readers.
    let _held = (alpha.reads("/r").await, beta.reads("/r").await, gamma.holds("/w").await);
    let reader = beta.waits_to_read("/w").await;
    assert_eq!(circles(&servers).await, []);
    let writer = gamma.waits("/r").await;
    let two = [["gamma", "/r", "beta"], ["beta", "/w", "gamma"]];
    assert_eq!(circles(&servers).await, [(false, steps(two))]);
    reader.abort();
    until_queued(&gamma.session, "/w", 1).await;
    assert_eq!(circles(&servers).await, []);
    // A reader waits for a writer that waits, and so for those that hold the lock as readers.
    let delta = Process::new(&server, "delta").await;
    let _x = delta.holds("/x").await;
    let behind = (delta.waits_to_read("/r").await, alpha.waits("/x").await);
    let two = [["delta", "/r", "alpha"], ["alpha", "/x", "delta"]];
    assert_eq!(circles(&servers).await, [(false, steps(two))]);
    behind.0.abort();
    behind.1.abort();
    writer.abort();
    let of_beta = beta.session.lock("/r").unwrap();
    eventually("the end of the waits", async || queue(&of_beta).await.len() == 2).await;

    // An acquisition of several locks blocks others in each queue, though it holds nothing yet.
    let _free = alpha.holds("/free").await;
    let both = delta.session.lock_all(["/w", "/free"]).unwrap().with_options(delta.options.clone()).unwrap();
    let both = tokio::spawn(async move { drop(both.acquire().await) });
    until_queued(&delta.session, "/free", 2).await;
    let behind = gamma.waits("/free").await;
    let two = [["gamma", "/free", "delta"], ["delta", "/w", "gamma"]];
    assert_eq!(circles(&servers).await, [(false, steps(two))]);
    let told = zklock(&servers, &["deadlocks"]).await.stdout;
    assert!(told.contains("/free (in front)"), "{told}");
    both.abort();
    behind.abort();
    until_queued(&delta.session, "/free", 1).await;
    until_queued(&delta.session, "/x", 1).await;
    until_queued(&delta.session, "/w", 1).await;

    // Two hold permits, and only one of them waits for the one in the turnstile.
    let first = alpha.takes("/pool").await;
    let second = beta.takes("/pool").await;
    let _turnstile = gamma.waits_to_take("/pool", 1).await;
    // Those who hold a permit and wait for another one of the same pool may be several tasks, as in any busy process.
    let _more = (alpha.waits_to_take("/pool", 2).await, beta.waits_to_take("/pool", 3).await);
    let _elsewhere = (alpha.waits("/x").await, beta.waits("/x").await);
    assert_eq!(circles(&servers).await, []);
    let _beta = beta.waits("/w").await;
    let two = [["beta", "/w", "gamma"], ["gamma", "/pool", "beta"]];
    assert_eq!(circles(&servers).await, [(true, steps(two))]);
    let told = zklock(&servers, &["deadlocks"]).await;
    told.is(1, &told.stdout, "zklock release --force");
    assert!(told.stdout.starts_with("possible circle of 2, "), "{told:?}");
    // The other one gives its permit back, and the circle is none.
    first.release().await.unwrap();
    eventually("the permit of the waiter", async || circles(&servers).await.is_empty()).await;
    drop(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_that_ends_between_two_reads_is_not_told() {
    let server = server().await;
    let [alpha, beta] = [Process::new(&server, "alpha").await, Process::new(&server, "beta").await];
    let _held = (alpha.holds("/a").await, beta.holds("/b").await);
    let (waiter, _beta) = (alpha.waits("/b").await, beta.waits("/a").await);
    assert_eq!(circles(&server.connect_string()).await.len(), 1);
    let link = Link::start(server.address()).await.unwrap();
    let servers = server.at(link.address());
    // The first read has one request for each queue.
    let first = link.hold_reply(RequestKind::MultiRead);
    let meanwhile = async {
        within("the first read", first.reached()).await;
        eventually("both requests", async || link.requests_of(RequestKind::MultiRead) == 2).await;
        let second = link.hold_request(RequestKind::MultiRead);
        first.release();
        within("the second read", second.reached()).await;
        waiter.abort();
        until_queued(&alpha.session, "/b", 1).await;
        second.release();
    };
    let (told, ()) = tokio::join!(zklock(&servers, &["deadlocks", "--json"]), meanwhile);
    told.is(0, "[]\n", "no circle below /: 2 of 2 held");
}
