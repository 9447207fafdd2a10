//! A holder and one who waits, each in a program of its own, and what happens to the holder.

use std::time::{Duration, Instant};

use anyhow::ensure;
use futures::future::try_join_all;
use zklock_testcontainers::Link;

use crate::peers::{Contestant, Program};
use crate::servers::Servers;

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

struct Contest {
    holder: Program,
    waiter: Program,
}

impl Contest {
    async fn start(
        contestant: Contestant,
        servers: &Servers,
        path: &str,
        [holder, waiter]: [String; 2],
    ) -> anyhow::Result<Self> {
        servers.prepare(path).await?;
        let start = async |address| Program::start(contestant, &[address], path, SESSION_TIMEOUT).await;
        let [holder, waiter] = [start(holder).await?, start(waiter).await?];
        Ok(Self { holder, waiter })
    }

    /// One has the lock then, and the other waits.
    async fn begin(&mut self) -> anyhow::Result<()> {
        self.holder.asks("tell", "telling").await?;
        self.holder.asks("acquire", "waiting").await?;
        self.holder.hears("acquired").await?;
        self.waiter.asks("acquire", "waiting").await?;
        Ok(())
    }

    /// When the waiter gets the lock.
    async fn granted(waiter: &mut Program) -> anyhow::Result<Instant> {
        let (at, line) = waiter.next().await?;
        ensure!(line == "acquired", "a waiter said {line:?}");
        Ok(at)
    }
}

/// Seconds from each contestant's crash to the next grant; `None` if it did not come within [`BOUND`]. All crash at the same time.
pub(super) async fn crash(
    crash: Crash,
    contestants: &[(Contestant, &Servers)],
    repetition: u32,
) -> anyhow::Result<Vec<Option<f64>>> {
    let contests = contestants.iter().enumerate().map(async |(index, (contestant, servers))| {
        let path = format!("/compare/{crash:?}-{repetition}-{index}");
        let (near, far) = servers.sides(0);
        let link = servers.link(&near).await?;
        let contest = Contest::start(*contestant, servers, &path, [link.address(), far]).await?;
        anyhow::Ok((contest, link))
    });
    let mut contests = try_join_all(contests).await?;
    // Some locks end by themselves, so all are acquired now.
    try_join_all(contests.iter_mut().map(|(contest, _)| contest.begin())).await?;
    tokio::time::sleep(SETTLE + STEP * repetition).await;
    try_join_all(contests.into_iter().map(|(contest, link)| outcome(crash, contest, link))).await
}

/// What comes of one of them.
async fn outcome(crash: Crash, contest: Contest, link: Link) -> anyhow::Result<Option<f64>> {
    let Contest { mut holder, mut waiter } = contest;
    let start = Instant::now();
    match crash {
        Crash::Killed => holder.process.kill().await?,
        Crash::Vanished => link.black_hole(),
    }
    match tokio::time::timeout(BOUND, Contest::granted(&mut waiter)).await {
        Ok(at) => Ok(Some(at?.duration_since(start).as_secs_f64())),
        Err(_) => Ok(None),
    }
}

/// Cuts the holders' server off from the two others; it still serves its clients. All contestants are of one service.
pub(super) async fn cut(
    servers: &Servers,
    contestants: &[Contestant],
    repetition: u32,
) -> anyhow::Result<Vec<Cut>> {
    let Some(alone) = servers.follower().await? else { return Ok(Vec::new()) };
    let (near, far) = servers.sides(alone);
    let contests = contestants.iter().enumerate().map(async |(index, contestant)| {
        let path = format!("/compare/cut-{repetition}-{index}");
        Contest::start(*contestant, servers, &path, [near.clone(), far.clone()]).await
    });
    let mut contests = try_join_all(contests).await?;
    try_join_all(contests.iter_mut().map(Contest::begin)).await?;
    tokio::time::sleep(SETTLE + STEP * repetition).await;
    let start = Instant::now();
    servers.isolate(alone).await?;
    let outcomes = contests.into_iter().map(async |contest| {
        let Contest { mut holder, mut waiter } = contest;
        let mut told = Vec::new();
        let mut granted = None;
        let over = tokio::time::sleep(BOUND);
        tokio::pin!(over);
        loop {
            tokio::select! {
                line = holder.next() => {
                    let (at, line) = line?;
                    let word = line.strip_prefix("told ").unwrap_or(&line).to_owned();
                    if told.iter().all(|(_, before)| *before != word) {
                        told.push((at.duration_since(start).as_secs_f64(), word));
                    }
                }
                at = Contest::granted(&mut waiter), if granted.is_none() => {
                    granted = Some(at?.duration_since(start).as_secs_f64());
                }
                () = &mut over => break,
            }
        }
        anyhow::ensure!(granted.is_some() && !told.is_empty(), "told {told:?}, granted {granted:?}");
        Ok(Cut { told, granted: granted.unwrap_or_default() })
    });
    let outcomes = try_join_all(outcomes).await;
    servers.heal().await?;
    outcomes
}
