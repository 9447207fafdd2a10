//! How fast locks are handed over.

use std::time::Duration;

use anyhow::ensure;
use zklock_testcontainers::Link;

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

/// What all turns of so many clients come to.
pub(super) struct Cell {
    pub(super) clients: u32,
    pub(super) round_trip: Duration,
    /// How long all turns are.
    seconds: f64,
    /// Cycles that ended before the turn was over, and how many of them another client's preceded. A cycle: a client waits, acquires
    /// and releases.
    acquired: usize,
    handed_over: usize,
    /// Milliseconds of each cycle.
    cycles: Vec<f64>,
    requests: Option<u64>,
}

impl<'a> Runner<'a> {
    pub(super) async fn start(contestant: Contestant, servers: &'a Servers) -> anyhow::Result<Self> {
        let path = format!("/compare/{}", contestant.name().replace(' ', ""));
        servers.prepare(&path).await?;
        let links: Vec<_> = servers.links.iter().map(Link::address).collect();
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
            for runner in &mut *runners {
                runner.program.laps(clients, turn / 2).await?;
                runner.cells.push(Cell::new(clients, round_trip, turn * TURNS as u32));
            }
            for _ in 0..TURNS {
                for Runner { servers, program, cells } in &mut *runners {
                    if let Some(cell) = cells.last_mut() {
                        cell.add(servers, program, turn).await?;
                    }
                }
            }
            let nobody = runners.iter().flat_map(|runner| runner.cells.last()).any(|cell| cell.acquired == 0);
            ensure!(!nobody, "nobody had the lock");
        }
    }
    Ok(())
}

impl Cell {
    fn new(clients: u32, round_trip: Duration, turns: Duration) -> Self {
        Self {
            clients,
            round_trip,
            seconds: turns.as_secs_f64(),
            acquired: 0,
            handed_over: 0,
            cycles: Vec::new(),
            requests: None,
        }
    }

    async fn add(&mut self, servers: &Servers, program: &mut Program, turn: Duration) -> anyhow::Result<()> {
        let before = servers.requests().await?;
        let mut laps = program.laps(self.clients, turn).await?;
        if let (Some(before), Some(after)) = (before, servers.requests().await?) {
            *self.requests.get_or_insert_default() += after - before;
        }
        laps.sort_by_key(|lap| lap.ended);
        self.cycles.extend(laps.iter().map(|lap| lap.took.as_secs_f64() * 1e3));
        laps.retain(|lap| lap.ended <= turn);
        self.acquired += laps.len();
        self.handed_over += laps.chunk_by(|one, next| one.client == next.client).count().saturating_sub(1);
        Ok(())
    }

    /// How often a second the lock was acquired.
    pub(super) fn acquired(&self) -> f64 {
        self.acquired as f64 / self.seconds
    }

    /// Handovers a second: how often another client had it than before. Acquisitions of a lock that nobody else wants, whose one
    /// client is never before itself.
    pub(super) fn rate(&self) -> f64 {
        if self.clients == 1 { self.acquired() } else { self.handed_over as f64 / self.seconds }
    }

    /// What this part of the cycles does not exceed, in milliseconds.
    pub(super) fn took(&self, part: f64) -> f64 {
        quantile(&self.cycles, part)
    }

    /// Requests a cycle, where somebody counts them.
    pub(super) fn requests(&self) -> Option<f64> {
        self.requests.map(|requests| requests as f64 / self.cycles.len() as f64)
    }
}
