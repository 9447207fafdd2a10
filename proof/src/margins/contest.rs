//! A holder and the next contender, on an ensemble of three.

use std::time::Duration;

use zklock::{Guard, LockOptions, LostReason, Session};
use zklock_test_support::{BOUND, Waiter, enqueue_behind, number, within};
use zklock_testcontainers::{Ensemble, EnsembleBuilder, Link};
use zookeeper_client::Client;

use crate::harness::{Row, now};

/// The holder's session timeout.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(4);

/// The session timeout of those who are to outlive every fault.
pub(crate) const LONG_TIMEOUT: Duration = Duration::from_secs(40);

/// Three servers with ticks of a second. One that is cut off gives up after 5 ticks, and so do those who lose a leader.
pub(crate) fn servers() -> EnsembleBuilder {
    Ensemble::builder(3).tick_time(Duration::from_secs(1)).max_session_timeout(LONG_TIMEOUT)
}

/// Plays a scenario so often on such servers, with a number each time, and undoes every fault after it. There is a row for
/// each of the seconds that it measures.
pub(crate) async fn repeated<const ROWS: usize>(
    times: usize,
    servers: EnsembleBuilder,
    rows: [&str; ROWS],
    play: impl AsyncFn(&Ensemble, usize) -> [f64; ROWS],
) -> Vec<Row> {
    let ensemble = servers.start().await.expect("an ensemble");
    let mut rows = rows.map(Row::of);
    for repetition in 0..times {
        let seconds = play(&ensemble, repetition).await;
        rows.iter_mut().zip(seconds).for_each(|(row, seconds)| row.record(seconds));
        recover(&ensemble).await;
    }
    rows.into()
}

pub(crate) async fn recover(ensemble: &Ensemble) {
    ensemble.heal().await.unwrap();
    ensemble.wait_until_serving().await.unwrap();
}

pub(crate) async fn link(ensemble: &Ensemble, server: usize) -> Link {
    Link::start(ensemble.address(server)).await.expect("a link")
}

pub(crate) fn without(ensemble: &Ensemble, server: usize) -> String {
    let others = (0..ensemble.len()).filter(|other| *other != server);
    others.map(|other| ensemble.address(other)).collect::<Vec<_>>().join(",")
}

pub(crate) async fn links(ensemble: &Ensemble) -> Vec<Link> {
    let mut links = Vec::new();
    for server in 0..ensemble.len() {
        links.push(link(ensemble, server).await);
    }
    links
}

/// The servers behind these links.
pub(crate) fn behind(links: &[Link]) -> String {
    links.iter().map(Link::address).collect::<Vec<_>>().join(",")
}

/// How many requests to resume a session this server has had.
pub(crate) async fn resumptions(ensemble: &Ensemble, server: usize) -> u64 {
    number(&ensemble.admin(server, "mntr").await.expect("mntr"), "zk_connection_revalidate_count")
}

/// A lock of a repetition's own.
pub(crate) fn path(repetition: usize) -> String {
    format!("/lock/orders-{repetition}")
}

pub(crate) async fn session(servers: String, timeout: Duration) -> Session {
    let builder = Session::builder(servers).session_timeout(timeout).connect_timeout(BOUND);
    builder.connect().await.expect("a session")
}

/// A plain client, which says whatever its server says.
pub(crate) async fn plain(servers: &str, timeout: Duration) -> Client {
    let connector = Client::connector().with_session_timeout(timeout);
    within("a client", connector.connect(servers)).await.expect("a client")
}

/// One holds the lock, one waits for it.
pub(crate) struct Contest {
    pub(crate) holding: Session,
    pub(crate) guard: Guard,
    pub(crate) waiter: Waiter,
    pub(crate) waiting: Session,
}

impl Contest {
    /// The holder has a session of [`TIMEOUT`] by the first connect string, the waiter a long one by the second.
    pub(crate) async fn start(holder: String, waiter: String, path: &str) -> Self {
        Self::start_with(holder, waiter, path, LockOptions::new()).await
    }

    pub(crate) async fn start_with(holder: String, waiter: String, path: &str, options: LockOptions) -> Self {
        let (holding, waiting) = (session(holder, TIMEOUT).await, session(waiter, LONG_TIMEOUT).await);
        let guard =
            holding.lock(path).unwrap().with_options(options.clone()).unwrap().acquire().await.unwrap();
        let waiter =
            enqueue_behind(&guard, &waiting.lock(path).unwrap().with_options(options).unwrap()).await;
        Self { holding, guard, waiter, waiting }
    }

    /// Waits until the holder has lost the lock and the waiter has got it. The loss must come first. Returns the seconds in between.
    pub(crate) async fn margin(&mut self) -> f64 {
        let Self { guard, waiter, .. } = self;
        let lost = async {
            assert_eq!(guard.lost().await, LostReason::Unconfirmed);
            now()
        };
        let (lost, (_next, granted)) = tokio::join!(within("the loss", lost), async {
            let next = within("the grant", waiter).await.expect("no panic").expect("a guard");
            let granted = now();
            assert!(!guard.is_held(), "two guards at once");
            assert!(next.is_held() && next.token() > guard.token());
            (next, granted)
        });
        assert!(lost <= granted, "the loss comes first");
        granted.seconds_after(lost)
    }
}
