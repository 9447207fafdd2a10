//! What the leader sends to a contender's server comes late; then nothing that this server sends arrives any more.

use std::time::Duration;

use zklock::Session;

use crate::contest::{LONG_TIMEOUT, TIMEOUT, path, recover, servers, session, without};
use crate::report::repetitions;
use crate::support::{acquire, granted};

/// How long the follower hears nothing of the leader, while requests reach it.
const SILENCE: Duration = Duration::from_millis(2_500);

/// How long it hears nothing more, while the leader has its write: the leader expires the session soon after.
const MORE_SILENCE: Duration = Duration::from_millis(600);

/// A touch counts once the leader has heard of it: after the follower has answered a ping. A quorum write that was sent
/// long after the touch does not prove that, because the pings may come as late as the write's acknowledgement, and the way
/// to the leader end before the answers arrive.
#[tokio::test]
async fn the_leaders_word_comes_late_to_a_contenders_follower() {
    let ensemble = servers().property("syncLimit", "10").start().await.expect("an ensemble");
    for repetition in 0..repetitions() {
        let (leader, late) = (ensemble.leader().await.unwrap(), ensemble.followers().await.unwrap()[0]);
        let path = path(repetition);
        let others = session(without(&ensemble, late), LONG_TIMEOUT).await;
        // The directory is there, so that a contender enters with its first write.
        others.lock(&path).unwrap().acquire().await.unwrap().release().await.unwrap();
        let first = Session::builder(ensemble.address(late))
            .session_timeout(TIMEOUT)
            .tick(Duration::from_secs(1))
            .connect()
            .await
            .expect("a session");

        ensemble.stall(leader, late).await.unwrap();
        tokio::time::sleep(SILENCE).await;
        let mut acquisition = acquire(&first.lock(&path).unwrap());
        tokio::time::sleep(MORE_SILENCE).await;
        let waiter = acquire(&others.lock(&path).unwrap());
        ensemble.stall(late, leader).await.unwrap();
        ensemble.flow(leader, late).await.unwrap();

        // The leader's word is let in once: what it says of the session's end must not tell.
        let early = tokio::time::timeout(Duration::from_millis(300), &mut acquisition).await;
        ensemble.isolate(late).await.unwrap();
        let early = early.map(|guard| guard.unwrap().unwrap()).ok();
        let next = granted(waiter).await;
        assert!(!early.is_some_and(|guard| guard.is_held()), "two guards at once");
        assert!(!acquisition.is_finished(), "two guards at once");

        recover(&ensemble).await;
        next.release().await.unwrap();
        granted(acquisition).await.release().await.unwrap();
    }
}
