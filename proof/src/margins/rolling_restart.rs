//! All servers are restarted, one after the other: as long as each restart ends within the lease, the lock stays.

use std::time::{Duration, Instant};

use super::contest::{path, repeated, servers, session};
use crate::harness::Row;

/// The holder's session timeout: the default.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often the holder looks how long its guard is valid for.
const LOOKS: Duration = Duration::from_millis(5);

pub(super) async fn costs_nobody_the_lock(times: usize) -> Vec<Row> {
    let rows = ["all servers are restarted in turn (least time its lease had left)"];
    repeated(times, servers(), rows, async |ensemble, repetition| {
        let session = session(ensemble.connect_string(), TIMEOUT).await;
        let guard = session.lock(&path(repetition)).unwrap().acquire().await.unwrap();
        let (token, lost, acquired) = (guard.token(), guard.lost(), Instant::now());
        let mut least = guard.remaining();
        let watched = async {
            let mut looks = tokio::time::interval(LOOKS);
            loop {
                looks.tick().await;
                least = least.min(guard.remaining());
            }
        };
        let restarts = async {
            let mut rounds = 0;
            // At least until nothing but what was confirmed meanwhile can have kept the guard valid.
            while rounds == 0 || acquired.elapsed() < TIMEOUT {
                for server in 0..ensemble.len() {
                    ensemble.restart(server).await.unwrap();
                    ensemble.wait_until_serving().await.unwrap();
                }
                rounds += 1;
            }
            eprintln!("all servers were restarted {rounds} times in {:?}", acquired.elapsed());
        };
        tokio::select! {
            () = restarts => {}
            reason = lost => panic!("lost needlessly {:?} after it was acquired: {reason}", acquired.elapsed()),
            () = watched => unreachable!("it goes on for ever"),
        }
        guard.check().expect("the guard is held");
        assert_eq!(guard.token(), token);
        guard.release().await.expect("its own release");
        [least.as_secs_f64()]
    })
    .await
}
