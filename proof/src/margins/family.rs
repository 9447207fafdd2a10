//! The same fault under a reader, a writer, one of several locks, and a leader.

use tokio::task::JoinHandle;
use zklock::election::{CampaignError, Leader};
use zklock::{Leadership, LostReason, Session, inspect::Observer};
use zklock_test_support::{eventually, within};

use super::contest::{LONG_TIMEOUT, TIMEOUT, link, outcome, repeated, servers, session, without};
use crate::harness::{Row, now};

/// What the first leader and the next one announce.
const FIRST: &str = "first";
const NEXT: &str = "next";

pub(super) async fn follower_is_cut_off(times: usize) -> Vec<Row> {
    let rows = [
        "its follower is cut off, under a reader",
        "its follower is cut off, under a writer",
        "its follower is cut off, under one of several locks",
        "its follower is cut off, under a leader",
    ];
    repeated(times, servers().property("syncLimit", "15"), rows, async |ensemble, repetition| {
        let alone = ensemble.followers().await.unwrap()[0];
        let link = link(ensemble, alone).await;
        let holding = session(link.address(), TIMEOUT).await;
        let waiting = session(without(ensemble, alone), LONG_TIMEOUT).await;
        let looking = session(without(ensemble, alone), LONG_TIMEOUT).await;
        let path = |name: &str| format!("/lock/{name}-{repetition}");
        let (read, written) = (path("read"), path("written"));
        let (several, one, led) = ([path("a"), path("b"), path("c")], path("b"), path("led"));

        let reader = holding.rw_lock(&read).unwrap().read().await.unwrap();
        let writer = holding.rw_lock(&written).unwrap().write().await.unwrap();
        let multi = holding.lock_all(several).unwrap().acquire().await.unwrap();
        let leader = holding.election(&led).unwrap().campaign(FIRST).await.unwrap();
        let behind = |path| waiting.rw_lock(path).unwrap();
        let [to_write, to_read, to_hold] = [behind(&read), behind(&written), behind(&one)];
        let mut behind_reader = waits(&waiting, &read, async move { to_write.write().await }).await;
        let mut behind_writer = waits(&waiting, &written, async move { to_read.read().await }).await;
        let mut behind_multi = waits(&waiting, &one, async move { to_hold.write().await }).await;
        let election = waiting.election(&led).unwrap();
        let mut behind_leader =
            waits(&waiting, &election.queue(), async move { election.campaign(NEXT).await }).await;
        let mut leaders = looking.election(&led).unwrap().observe();
        while news(&mut leaders).await.as_deref() != Some(FIRST) {}

        ensemble.isolate(alone).await.unwrap();
        // The server gives up some seconds later, and takes the connection along.
        let connections = async {
            tokio::join!(reader.lost(), writer.lost(), multi.lost(), leader.lost());
            link.connections()
        };
        let (connections, first, second, third, fourth) = tokio::join!(
            connections,
            outcome(&reader, &mut behind_reader),
            outcome(&writer, &mut behind_writer),
            outcome(&multi, &mut behind_multi),
            succession(&leader, &mut behind_leader, &mut leaders),
        );
        assert_eq!(connections, 1, "the holder was told by the end of its connection");
        [first.margin, second.margin, third.margin, fourth]
    })
    .await
}

/// Runs an acquisition in a separate task, and waits until it is in the queue behind the one holder.
async fn waits<T: Send + 'static>(
    session: &Session,
    path: &str,
    acquisition: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let lock = session.lock(path).unwrap();
    let queue = async || lock.contenders().await.map_or(0, |queue| queue.len());
    // Its server may not know of the holder yet.
    eventually("the holder's node", async || queue().await == 1).await;
    let task = tokio::spawn(acquisition);
    eventually("the waiter's node", async || queue().await == 2).await;
    task
}

/// Waits until the leader has lost its leadership, the next candidate leads, and an observer is told of that. The
/// loss must come first. Returns the seconds from the loss until the first of the others hears anything: the
/// observer that nobody leads, or the next leader that it leads.
async fn succession(
    leader: &Leadership,
    candidate: &mut JoinHandle<Result<Leadership, CampaignError>>,
    leaders: &mut Observer<Leader>,
) -> f64 {
    let lost = async {
        assert_eq!(leader.lost().await, LostReason::Unconfirmed);
        now()
    };
    let (lost, (_next, led), told) = tokio::join!(
        within("the loss", lost),
        async {
            let next = within("the next leader", candidate).await.expect("no panic").expect("a leadership");
            let led = now();
            assert!(!leader.is_held(), "two leaders at once");
            assert!(next.is_held() && next.token() > leader.token());
            (next, led)
        },
        async {
            let mut first = None;
            loop {
                let told = news(leaders).await;
                first.get_or_insert_with(now);
                assert!(!leader.is_held(), "an observer is told of {told:?} while the first leader leads");
                if told.as_deref() == Some(NEXT) {
                    return first.expect("an instant");
                }
                assert_eq!(told, None, "nobody else leads");
            }
        },
    );
    assert!(lost <= led && lost <= told, "the loss comes first");
    led.min(told).seconds_after(lost)
}

/// The next that an observer is told: what the leader announces, if anybody leads.
async fn news(leaders: &mut Observer<Leader>) -> Option<String> {
    let news = within("an observer's news", leaders.next()).await.expect("it observes");
    news.expect("the data did not go back").map(|leader| leader.value)
}
