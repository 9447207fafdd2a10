//! How fast locks are handed over.

use std::time::Duration;

use anyhow::ensure;

use super::faults::SESSION_TIMEOUT;
use crate::harness::table::quantile;
use crate::peers::{Contestant, Program};
use crate::servers::Servers;

/// What is added to each round trip.
pub(super) const ROUND_TRIPS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(1)];

/// How many turns each has, after one that is not measured.
const TURNS: usize = 3;

/// A Java machine compiles while it runs. So each contends for this long before anything is measured.
const WARM_UP: Duration = Duration::from_secs(3);

/// Who contends for one lock in one program.
pub(super) struct Runner<'a> {
    servers: &'a Servers,
    program: Program,
    pub(super) cells: Vec<Cell>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub(super) clients: u32,
    pub(super) round_trip: Duration,
    /// How often a second the lock was acquired.
    pub(super) acquired: f64,
    /// How often a second another client had it than before. One client alone is never before itself.
    pub(super) handed_over: f64,
    /// Milliseconds of a client's cycle: it waits, acquires and releases.
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// Requests a cycle, where somebody counts them.
    pub(super) requests: Option<f64>,
}

impl Cell {
    /// Handovers a second; acquisitions of a lock that nobody else wants.
    pub(super) fn rate(&self) -> f64 {
        if self.clients == 1 { self.acquired } else { self.handed_over }
    }
}

impl<'a> Runner<'a> {
    pub(super) async fn start(contestant: Contestant, servers: &'a Servers) -> anyhow::Result<Self> {
        let path = format!("/compare/{}", contestant.name().replace(' ', ""));
        servers.prepare(&path).await?;
        let links: Vec<_> = servers.links.iter().map(zklock_testcontainers::Link::address).collect();
        let program = Program::start(contestant, &links, &path, SESSION_TIMEOUT).await?;
        Ok(Self { servers, program, cells: Vec::new() })
    }
}

/// Has them take turns, so that whatever disturbs the machine disturbs them all alike.
pub(super) async fn measure(
    runners: &mut [Runner<'_>],
    clients: &[u32],
    turn: Duration,
) -> anyhow::Result<()> {
    for runner in &mut *runners {
        runner.program.laps(2, WARM_UP.min(turn * 3)).await?;
    }
    for clients in clients.iter().copied() {
        for round_trip in ROUND_TRIPS {
            eprintln!("clients: {clients}, added round trip: {round_trip:?}");
            for runner in &*runners {
                runner.servers.links.iter().for_each(|link| link.set_round_trip(round_trip));
            }
            let mut tallies = vec![Tally::default(); runners.len()];
            for number in 0..=TURNS {
                for (runner, tally) in runners.iter_mut().zip(&mut tallies) {
                    if number == 0 {
                        runner.program.laps(clients, turn / 2).await?;
                    } else {
                        tally.add(runner, clients, turn).await?;
                    }
                }
            }
            for (runner, tally) in runners.iter_mut().zip(tallies) {
                ensure!(tally.acquired > 0, "nobody had the lock");
                runner.cells.push(tally.cell(clients, round_trip, turn));
            }
        }
    }
    Ok(())
}

#[derive(Clone, Default)]
struct Tally {
    /// Cycles that ended before the turn was over, and how many of them another client's preceded.
    acquired: usize,
    handed_over: usize,
    /// Milliseconds of each cycle.
    cycles: Vec<f64>,
    requests: Option<u64>,
}

impl Tally {
    async fn add(&mut self, runner: &mut Runner<'_>, clients: u32, turn: Duration) -> anyhow::Result<()> {
        let before = runner.servers.requests().await?;
        let mut laps = runner.program.laps(clients, turn).await?;
        if let (Some(before), Some(after)) = (before, runner.servers.requests().await?) {
            *self.requests.get_or_insert_default() += after - before;
        }
        laps.sort_by_key(|lap| lap.ended);
        let in_time = laps.get(..laps.partition_point(|lap| lap.ended <= turn)).unwrap_or_default();
        self.acquired += in_time.len();
        let changes = in_time
            .windows(2)
            .filter(|pair| pair.first().map(|lap| lap.client) != pair.last().map(|lap| lap.client));
        self.handed_over += changes.count();
        self.cycles.extend(laps.iter().map(|lap| lap.took.as_secs_f64() * 1e3));
        Ok(())
    }

    fn cell(&self, clients: u32, round_trip: Duration, turn: Duration) -> Cell {
        let seconds = turn.as_secs_f64() * TURNS as f64;
        Cell {
            clients,
            round_trip,
            acquired: self.acquired as f64 / seconds,
            handed_over: self.handed_over as f64 / seconds,
            p50: quantile(&self.cycles, 0.5),
            p99: quantile(&self.cycles, 0.99),
            requests: self.requests.map(|requests| requests as f64 / self.cycles.len() as f64),
        }
    }
}
