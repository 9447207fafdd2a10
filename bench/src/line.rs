//! Tasks of one process that stand in line for the lock of one key: what each takes, whether all outlive a broken connection,
//! and how long it takes to pass the lock on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;
use zklock::{FencingToken, LocksOptions, Session};

use crate::args::Line;
use crate::memory::resident;
use crate::quantile::quantile;
use crate::stage::Stage;

const KEY: &str = "key";

/// True if each task takes no more than the limit, and none of them failed.
pub(crate) async fn run(line: &Line) -> anyhow::Result<bool> {
    let stage = Stage::open().await?;
    let root = stage.directory("line").await?;
    let session =
        Session::builder(stage.link().address()).session_timeout(Duration::from_secs(40)).connect().await?;
    let budget = LocksOptions::new().turns(u32::MAX).time(Duration::MAX);
    let locks = session.locks(&root)?.with_options(budget)?;
    let first = locks.acquire(KEY).await?;

    let before = resident()?;
    let (mut tasks, (arrived, mut arrivals)) = (JoinSet::new(), tokio::sync::mpsc::unbounded_channel::<()>());
    let passed = Arc::new(Mutex::new(Passed { at: Instant::now(), took: Vec::new(), last: first.token() }));
    for _ in 0..line.tasks {
        let (locks, passed, arrived) = (locks.clone(), passed.clone(), arrived.clone());
        tasks.spawn(async move {
            drop(arrived);
            let guard = locks.acquire(KEY).await?;
            guard.check()?;
            passed.lock().unwrap_or_else(PoisonError::into_inner).on(guard.token())?;
            anyhow::Ok(guard.release().await?)
        });
    }
    drop(arrived);
    // Each task has been polled once all of them have dropped their end.
    let _nothing = arrivals.recv().await;
    let growth = resident()?.saturating_sub(before);

    stage.link().cut();
    first.verify().await?;
    stage.wait_until_quiet().await?;
    stage.link().reset_counts();
    let began = Instant::now();
    passed.lock().unwrap_or_else(PoisonError::into_inner).at = began;
    first.release().await?;
    let mut failed = 0;
    while let Some(task) = tasks.join_next().await {
        if let Err(error) = task? {
            failed += 1;
            eprintln!("a task failed: {error:#}");
        }
    }
    let bytes_per_task = growth / u64::from(line.tasks);
    let passed = Arc::into_inner(passed).context("a task is left")?;
    let passed = passed.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "{} tasks in line: {bytes_per_task} bytes each (limit {}); after a broken connection {failed} of them failed; all had \
         the lock within {:.0} ms, with {} requests; passed on in {:.1} us (median; 99%: {:.1} us)",
        line.tasks,
        line.limit_bytes,
        began.elapsed().as_secs_f64() * 1000.0,
        // With the last release, and the heartbeats meanwhile.
        stage.link().counts().requests,
        quantile(&passed.took, 0.5),
        quantile(&passed.took, 0.99)
    );
    session.close().await?;
    Ok(failed == 0 && bytes_per_task <= line.limit_bytes)
}

/// What is known of the turns so far.
struct Passed {
    /// When the last task was about to release its guard.
    at: Instant,
    /// Microseconds from there to the next task.
    took: Vec<f64>,
    last: FencingToken,
}

impl Passed {
    /// A task has the lock.
    fn on(&mut self, token: FencingToken) -> anyhow::Result<()> {
        self.took.push(self.at.elapsed().as_secs_f64() * 1e6);
        anyhow::ensure!(token > self.last, "token {token} comes after {}", self.last);
        (self.at, self.last) = (Instant::now(), token);
        Ok(())
    }
}
