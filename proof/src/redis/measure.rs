//! All runs, and what their worst come to.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::redis::args::Redis;
use crate::redis::history::Findings;
use crate::redis::kind::Kind;
use crate::redis::outcome::{Outcome, Told};
use crate::redis::scenario::Scenario;
use crate::redis::servers::Servers;
use crate::redis::stage::{Spoiled, Stage};

/// How often a run is repeated that a busy machine has spoiled.
const ATTEMPTS: usize = 5;

/// One lock in one scenario: the worst of all runs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) lock: Kind,
    pub(crate) scenario: Scenario,
    /// How often it was measured.
    pub(crate) runs: u16,
    /// Pairs of holds at the same time.
    pub(crate) double_holds: usize,
    /// The longest of them.
    pub(crate) longest: Duration,
    /// Writes of former holders that the register accepted.
    pub(crate) late_writes: usize,
    /// Writes that it refused.
    pub(crate) refused: u64,
    /// How many runs ended with a lock that nobody could get any more.
    pub(crate) stuck: u16,
    /// From the fault to the next grant, at the longest.
    pub(crate) recovery: Option<Duration>,
    /// How the former holder was told that it holds the lock no more: the worst way.
    pub(crate) told: Option<Told>,
}

impl Cell {
    fn new(lock: Kind, scenario: Scenario) -> Self {
        Self {
            lock,
            scenario,
            runs: 0,
            double_holds: 0,
            longest: Duration::ZERO,
            late_writes: 0,
            refused: 0,
            stuck: 0,
            recovery: None,
            told: None,
        }
    }

    fn add(&mut self, Run { findings, refused, outcome }: Run) {
        self.runs += 1;
        self.double_holds = self.double_holds.max(findings.double_holds);
        self.longest = self.longest.max(findings.longest);
        self.late_writes = self.late_writes.max(findings.late_writes);
        self.refused = self.refused.max(refused);
        self.stuck += u16::from(outcome.stuck);
        self.recovery = self.recovery.max(outcome.recovery);
        self.told = self.told.max(outcome.told);
    }

    /// Whether nobody held the lock beside another, the lock was free again, and the register, if it is fenced, took no late
    /// write.
    pub(crate) fn is_strict(&self) -> bool {
        let late = self.lock.is_fenced() && self.late_writes > 0;
        self.double_holds == 0 && self.stuck == 0 && !late
    }
}

/// Measures every cell, several at a time.
pub(crate) async fn cells(show: &Redis, servers: &Arc<Servers>) -> anyhow::Result<Vec<Cell>> {
    let pairs =
        show.scenarios.iter().flat_map(|scenario| show.locks.iter().map(move |lock| (*lock, *scenario)));
    let mut cells: Vec<_> = pairs.map(|(lock, scenario)| Cell::new(lock, scenario)).collect();
    let slots = Arc::new(Semaphore::new(show.parallel.into()));
    let mut runs = JoinSet::new();
    for _ in 0..show.runs {
        for (index, &Cell { lock, scenario, .. }) in cells.iter().enumerate() {
            let (servers, slots, ttl, trace) = (servers.clone(), slots.clone(), show.ttl, show.trace);
            runs.spawn(async move {
                let _slot = slots.acquire_owned().await?;
                let what = || format!("{}: {}", lock.title(), scenario.title());
                let run = run(lock, scenario, ttl, servers, trace).await.with_context(what)?;
                anyhow::Ok((index, run))
            });
        }
    }
    while let Some(run) = runs.join_next().await {
        let (index, run) = run??;
        if let Some(cell) = cells.get_mut(index) {
            cell.add(run);
        }
    }
    Ok(cells)
}

/// One run.
struct Run {
    findings: Findings,
    /// How many writes the register refused.
    refused: u64,
    outcome: Outcome,
}

/// Runs until a run shows something.
async fn run(
    lock: Kind,
    scenario: Scenario,
    ttl: Duration,
    servers: Arc<Servers>,
    trace: bool,
) -> anyhow::Result<Run> {
    let mut attempts = 1..=ATTEMPTS;
    loop {
        let attempt = attempts.next();
        let stage = Stage::set(lock, ttl, servers.clone()).await?;
        let outcome = scenario.play(&stage).await;
        let (findings, refused) = (stage.findings(), stage.refused());
        if trace || outcome.is_err() {
            eprintln!("{}: {}: {findings:?}\n{}", lock.title(), scenario.title(), stage.account());
        }
        match outcome {
            Err(error) if error.is::<Spoiled>() && attempt.is_some() => {}
            outcome => return Ok(Run { findings, refused, outcome: outcome? }),
        }
    }
}
