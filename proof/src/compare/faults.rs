//! A holder and one who waits, each in a program of its own, and what happens to the holder.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::future::try_join_all;

use crate::peers::Contestant;
use crate::servers::{Rivals, Servers, granted};

/// Everybody's session timeout, and time to live.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Who has not got the lock by then does not get it.
const BOUND: Duration = SESSION_TIMEOUT.saturating_mul(2);

/// How long the holder holds at least before something happens to it, and how much longer each time: not always as long after it has
/// last been heard of.
const SETTLE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(1_100);

/// What happens to a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    Killed,
    /// Its host vanishes: nothing passes any more, and nothing is closed.
    Vanished,
}

/// What came of a server that was cut off, in seconds since then.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// The words that the holder's client was told, and when first. The earliest counts.
    pub(super) told: Vec<(f64, String)>,
    pub(super) granted: f64,
}

/// Seconds from each contestant's crash to the next grant; `None` if it did not come within [`BOUND`]. All crash at the same time.
pub(super) async fn crash(
    crash: Crash,
    contestants: &[(Contestant, &Servers)],
    repetition: u32,
) -> anyhow::Result<Vec<Option<f64>>> {
    let contests = contests(contestants, 0, &format!("{crash:?}"), repetition).await?;
    let outcomes = contests.into_iter().map(async |Rivals { mut first, mut second, link }| {
        let start = Instant::now();
        match crash {
            Crash::Killed => first.process.kill().await?,
            Crash::Vanished => link.black_hole(),
        }
        match tokio::time::timeout(BOUND, granted(&mut second)).await {
            Ok(at) => Ok(Some(at?.duration_since(start).as_secs_f64())),
            Err(_) => Ok(None),
        }
    });
    try_join_all(outcomes).await
}

/// Cuts the holders' server off from the two others; it still serves its clients. These are the contestants of its service.
pub(super) async fn cut(
    servers: &Servers,
    contestants: &[(Contestant, &Servers)],
    repetition: u32,
) -> anyhow::Result<Vec<(Contestant, Cut)>> {
    let Some(alone) = servers.follower().await? else { return Ok(Vec::new()) };
    let mut contestants = contestants.to_vec();
    contestants.retain(|(contestant, _)| contestant.service() == servers.service);
    let contests = contests(&contestants, alone, "cut", repetition).await?;
    let start = Instant::now();
    servers.isolate(alone).await?;
    let outcomes = contests.into_iter().map(async |Rivals { mut first, mut second, link: _link }| {
        let mut told = Vec::new();
        let mut next = None;
        let over = tokio::time::sleep(BOUND);
        tokio::pin!(over);
        loop {
            tokio::select! {
                line = first.next() => {
                    let (at, line) = line?;
                    let word = line.strip_prefix("told ").unwrap_or(&line).to_owned();
                    if told.iter().all(|(_, before)| *before != word) {
                        told.push((at.duration_since(start).as_secs_f64(), word));
                    }
                }
                at = granted(&mut second), if next.is_none() => {
                    next = Some(at?.duration_since(start).as_secs_f64());
                }
                () = &mut over => break,
            }
        }
        ensure!(!told.is_empty(), "told nothing, granted {next:?}");
        Ok(Cut {
            granted: next.with_context(|| format!("told {told:?}, and nobody was granted the lock"))?,
            told,
        })
    });
    let outcomes = try_join_all(outcomes).await;
    servers.heal().await?;
    Ok(contestants.into_iter().map(|(contestant, _)| contestant).zip(outcomes?).collect())
}

/// A holder of each lock at this server, by its place as it was started, and one who waits.
async fn contests(
    contestants: &[(Contestant, &Servers)],
    server: usize,
    what: &str,
    repetition: u32,
) -> anyhow::Result<Vec<Rivals>> {
    let contests = contestants.iter().enumerate().map(async |(index, (contestant, servers))| {
        let path = format!("/compare/{what}-{repetition}-{index}");
        Rivals::start(*contestant, servers, server, &path, SESSION_TIMEOUT).await
    });
    let mut contests = try_join_all(contests).await?;
    // Some locks end by themselves, so all are acquired now.
    try_join_all(contests.iter_mut().map(Rivals::begin)).await?;
    tokio::time::sleep(SETTLE + STEP * repetition).await;
    Ok(contests)
}
