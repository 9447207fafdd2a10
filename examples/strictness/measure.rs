//! All runs, and what their worst come to.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::args::Show;
use crate::history::Findings;
use crate::kind::Kind;
use crate::scenario::{Outcome, Scenario};
use crate::servers::Servers;
use crate::stage::Stage;

/// One lock in one scenario: the worst of all runs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) lock: Kind,
    pub(crate) scenario: Scenario,
    /// How often it was measured; 0 if the scenario does not apply.
    pub(crate) runs: u16,
    /// Pairs of holds at the same time.
    pub(crate) double_holds: usize,
    /// The longest of them.
    pub(crate) longest: Duration,
    pub(crate) late_writes: usize,
    /// How many runs ended with a lock that nobody could get any more.
    pub(crate) stuck: u16,
    /// From the fault to the next grant, at the longest.
    pub(crate) recovery: Option<Duration>,
    /// How the former holder was told, if it was.
    pub(crate) told: Vec<String>,
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
            stuck: 0,
            recovery: None,
            told: Vec::new(),
        }
    }

    fn add(&mut self, findings: Findings, outcome: Outcome) {
        self.runs += 1;
        self.double_holds = self.double_holds.max(findings.double_holds);
        self.longest = self.longest.max(findings.longest);
        self.late_writes = self.late_writes.max(findings.late_writes);
        self.stuck += u16::from(outcome.stuck);
        self.recovery = self.recovery.max(outcome.recovery);
        for told in outcome.told {
            if !self.told.contains(&told) {
                self.told.push(told);
            }
        }
    }

    /// Whether nobody held the lock beside another, nothing was written late, and the lock was free again.
    pub(crate) fn is_strict(&self) -> bool {
        self.double_holds == 0 && self.late_writes == 0 && self.stuck == 0
    }
}

/// Measures every cell, several at a time.
pub(crate) async fn cells(show: &Show, servers: &Arc<Servers>) -> anyhow::Result<Vec<Cell>> {
    let pairs =
        show.scenarios.iter().flat_map(|scenario| show.locks.iter().map(move |lock| (*lock, *scenario)));
    let mut cells: Vec<_> = pairs.map(|(lock, scenario)| Cell::new(lock, scenario)).collect();
    let slots = Arc::new(Semaphore::new(show.parallel.into()));
    let mut runs = JoinSet::new();
    for _ in 0..show.runs {
        for (index, &Cell { lock, scenario, .. }) in cells.iter().enumerate() {
            if scenario.does_not_apply(lock).is_none() {
                let (servers, slots, ttl, trace) = (servers.clone(), slots.clone(), show.ttl, show.trace);
                runs.spawn(async move {
                    let _slot = slots.acquire_owned().await?;
                    let what = || format!("{}: {}", lock.title(), scenario.title());
                    let run = run(lock, scenario, ttl, servers, trace).await.with_context(what)?;
                    anyhow::Ok((index, run))
                });
            }
        }
    }
    while let Some(run) = runs.join_next().await {
        let (index, (findings, outcome)) = run??;
        if let Some(cell) = cells.get_mut(index) {
            cell.add(findings, outcome);
        }
    }
    Ok(cells)
}

async fn run(
    lock: Kind,
    scenario: Scenario,
    ttl: Duration,
    servers: Arc<Servers>,
    trace: bool,
) -> anyhow::Result<(Findings, Outcome)> {
    let stage = Stage::set(lock, ttl, servers).await?;
    let outcome = scenario.play(&stage).await;
    let findings = stage.findings();
    if trace || outcome.is_err() {
        eprintln!("{}: {}: {findings:?}\n{}", lock.title(), scenario.title(), stage.account());
    }
    Ok((findings, outcome?))
}
