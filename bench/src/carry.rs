//! What one session carries: what an acquisition costs beside what the session holds already, and what guards lose by a
//! burst of acquisitions, and by a connection that breaks under one.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use tokio::task::JoinSet;
use zklock::{Guard, Session};

use crate::args::Carry;
use crate::processor::spent;
use crate::stage::Stage;

/// How many acquisitions are made at the same time to prepare a measurement.
const AT_ONCE: usize = 500;

/// How many acquisitions one figure is taken from.
const CYCLES: u32 = 1_000;

/// How many guards are held while a burst comes.
const HELD: u32 = 100;

/// How often the guards' leases are read.
const LOOK: Duration = Duration::from_millis(10);

/// For how long they are read before the burst: a few heartbeats.
const IDLE: Duration = Duration::from_secs(10);

pub(crate) async fn run(carry: &Carry) -> anyhow::Result<()> {
    let stage = Stage::open().await?;
    let alone = beside_guards(&stage, 0).await?;
    println!("processor time of an acquisition and its release");
    println!("  alone                        {alone:8.3} ms");
    let beside = |what: &str, count: u32, cost: f64, unit: f64| {
        println!("  beside {count:6} {what:<14} {cost:8.3} ms  {:.2} x {unit:.3} ms", cost / unit);
    };
    beside("guards", carry.guards, beside_guards(&stage, carry.guards).await?, alone);
    beside("observers", carry.observers, beside_observers(&stage, carry.observers).await?, alone);
    let few = keys(&stage, (carry.keys / 10).max(1)).await?;
    beside("keys at once", carry.keys, keys(&stage, carry.keys).await?, few);
    burst(&stage, stage.address(), carry.burst, false).await?;
    burst(&stage, &stage.link().address(), carry.broken, true).await
}

/// The processor time of an acquisition and its release, beside so many guards that each have a task.
async fn beside_guards(stage: &Stage, guards: u32) -> anyhow::Result<f64> {
    let session = Session::connect(stage.address()).await?;
    let held = hold(stage, &session, guards).await?;
    let cost = cycles(stage, &session).await?;
    drop(held);
    session.close().await?;
    Ok(cost)
}

/// As [`beside_guards`], beside so many observers of one lock.
async fn beside_observers(stage: &Stage, observers: u32) -> anyhow::Result<f64> {
    let session = Session::connect(stage.address()).await?;
    let lock = session.lock(&stage.directory("observed").await?)?;
    let mut told = JoinSet::new();
    for _ in 0..observers {
        let mut holders = lock.holders();
        told.spawn(async move { holders.next().await.map(|_| holders) });
    }
    let observers = told.join_all().await;
    let cost = cycles(stage, &session).await?;
    drop(observers);
    session.close().await?;
    Ok(cost)
}

/// The processor time of each key's lock, if so many are acquired at once, and released.
async fn keys(stage: &Stage, keys: u32) -> anyhow::Result<f64> {
    let session = Session::connect(stage.address()).await?;
    let locks = session.locks(&stage.directory(&format!("keys-{keys}")).await?)?;
    let before = spent("self")?;
    let acquired = (0..keys).map(|key| {
        let locks = locks.clone();
        async move { locks.acquire(&key.to_string()).await }
    });
    let guards = stream::iter(acquired).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
    for guard in guards {
        guard.release().await?;
    }
    let cost = milliseconds(spent("self")? - before) / f64::from(keys);
    session.close().await?;
    Ok(cost)
}

/// What a burst of acquisitions of locks that did not exist costs the guards of the same session. If it `breaks`, the
/// connection is lost once a quarter of their requests have gone out.
async fn burst(stage: &Stage, address: &str, locks: u32, breaks: bool) -> anyhow::Result<()> {
    let session = Session::connect(address).await?;
    let id = session.id();
    let held = hold(stage, &session, HELD).await?;
    let directory = stage.directory(if breaks { "broken" } else { "burst" }).await?;
    let (idle, mut idle_lease) = (Instant::now(), remaining(&held));
    while idle.elapsed() < IDLE {
        tokio::time::sleep(LOOK).await;
        idle_lease = idle_lease.min(remaining(&held));
    }
    let before = stage.link().counts().requests;
    let began = Instant::now();
    let mut acquisitions = JoinSet::new();
    for number in 0..locks {
        let lock = session.lock(&format!("{directory}/{number}"))?;
        acquisitions.spawn(async move { lock.acquire().await });
    }
    let mut least = remaining(&held);
    let (mut guards, mut broken) = (Vec::new(), !breaks);
    while !acquisitions.is_empty() {
        if let Ok(Some(acquired)) = tokio::time::timeout(LOOK, acquisitions.join_next()).await {
            guards.push(acquired??);
            while let Some(acquired) = acquisitions.try_join_next() {
                guards.push(acquired??);
            }
        }
        least = least.min(remaining(&held));
        if !broken && stage.link().counts().requests - before > u64::from(locks / 4) {
            stage.link().cut();
            broken = true;
        }
    }
    println!(
        "{} {locks} locks: the lease of {HELD} guards fell to {:.1} s, idle to {:.1} s, {} guards lost, session lost: {}, {} \
         queued again, {:.1} s in all",
        if breaks { "a connection that breaks under" } else { "a burst of" },
        least.as_secs_f64(),
        idle_lease.as_secs_f64(),
        held.iter().filter(|guard| !guard.is_held()).count(),
        session.id() != id,
        session.requeued(),
        began.elapsed().as_secs_f64()
    );
    drop(guards);
    Ok(session.close().await?)
}

fn remaining(guards: &[Arc<Guard>]) -> Duration {
    guards.iter().map(|guard| guard.remaining()).min().unwrap_or_default()
}

/// Acquires so many locks. A task runs under each.
async fn hold(stage: &Stage, session: &Session, guards: u32) -> anyhow::Result<Vec<Arc<Guard>>> {
    let directory = stage.directory("held").await?;
    let acquired = (0..guards).map(|number| {
        let lock = session.lock(&format!("{directory}/{number}"));
        async move { anyhow::Ok(Arc::new(lock?.acquire().await?)) }
    });
    let guards = stream::iter(acquired).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
    for guard in &guards {
        let guard = guard.clone();
        tokio::spawn(async move { guard.run(pending::<()>()).await });
    }
    Ok(guards)
}

async fn cycles(stage: &Stage, session: &Session) -> anyhow::Result<f64> {
    let lock = session.lock(&stage.directory("cycle").await?)?;
    lock.acquire().await?.release().await?;
    let before = spent("self")?;
    for _ in 0..CYCLES {
        lock.acquire().await?.release().await?;
    }
    Ok(milliseconds(spent("self")? - before) / f64::from(CYCLES))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
