//! Peers in one scenario, taking turns.

use std::time::Duration;

use anyhow::Context;
use zklock_testcontainers::Counts;

use super::{Cast, Slice};
use crate::args::{Detail, Scenario};
use crate::peers::Peer;
use crate::quantile::quantile;
use crate::stage::Stage;

/// How many turns each peer gets.
const SLICES: u32 = 20;

/// What part of the cycles comes first, and is not measured: a Java machine compiles while it runs.
const WARM_UP: u32 = 4;

pub(crate) async fn run(detail: &Detail) -> anyhow::Result<()> {
    let stage = Stage::open().await?;
    let mut entries = Vec::new();
    for peer in detail.scenario.peers().iter().copied() {
        let cast = Cast::new(peer, detail, &stage).await?;
        entries.push(Entry { peer, cast, tally: Tally::default() });
    }
    stage.link().set_round_trip(detail.round_trip());
    let slices = SLICES.min(detail.cycles);
    for entry in &entries {
        entry.perform(&stage, detail.cycles.div_ceil(WARM_UP)).await?;
    }
    for turn in 0..slices {
        let cycles = detail.cycles / slices + u32::from(turn < detail.cycles % slices);
        // Everybody comes first, and after everybody else, equally often.
        for offset in 0..entries.len() {
            let index = (turn as usize + offset) % entries.len();
            let entry = entries.get_mut(index).context("no such entry")?;
            let (slice, counts) = entry.perform(&stage, cycles).await?;
            entry.tally.add(&slice, &counts);
        }
    }
    print(&entries, detail.scenario);
    Ok(())
}

struct Entry {
    peer: Peer,
    cast: Cast,
    tally: Tally,
}

impl Entry {
    /// One slice, and what passed through the link until all of it was over.
    async fn perform(&self, stage: &Stage, cycles: u32) -> anyhow::Result<(Slice, Counts)> {
        stage.link().reset_counts();
        let slice = self.cast.perform(stage, cycles).await?;
        for directory in self.cast.directories() {
            stage.wait_for_children(directory, 0).await?;
        }
        stage.wait_for_replies(0).await?;
        Ok((slice, stage.link().counts()))
    }
}

/// What all slices of a peer come to.
#[derive(Default)]
struct Tally {
    wall: Duration,
    handoffs: u64,
    /// Seconds for each time a lock changed hands, slice by slice.
    slices: Vec<f64>,
    /// The longest wait of each slice, as a multiple of what each contender would wait if all had the lock in turn.
    waits: Vec<f64>,
    /// Microseconds of each cycle.
    cycles: Vec<f64>,
    requests: u64,
    events: u64,
    reply_bytes: u64,
}

impl Tally {
    fn add(&mut self, slice: &Slice, counts: &Counts) {
        self.wall += slice.wall;
        self.handoffs += slice.handoffs;
        let handoff = slice.wall.as_secs_f64() / slice.handoffs as f64;
        self.slices.push(handoff);
        self.waits.push(slice.longest_wait.as_secs_f64() / (handoff * slice.contenders as f64));
        self.cycles.extend(slice.cycles.iter().map(|cycle| cycle.as_secs_f64() * 1e6));
        self.requests += counts.requests;
        self.events += counts.events;
        self.reply_bytes += counts.reply_bytes;
    }

    /// Seconds for each time a lock changed hands, in a slice that half of all slices beat.
    ///
    /// A machine that does something else for a moment spoils a slice or two, and a mean with them.
    fn median_time_per_handoff(&self) -> f64 {
        quantile(&self.slices, 0.5)
    }

    fn per_cycle(&self, count: u64) -> f64 {
        count as f64 / self.cycles.len() as f64
    }
}

/// Prints a row for each peer, and the first one against each of the others, in what the scenario is about.
fn print(entries: &[Entry], scenario: Scenario) {
    println!(
        "{:<25} {:>9} {:>10} {:>10} {:>9} {:>7} {:>12} {:>8}",
        "", "per s", "p50 us", "p99 us", "requests", "events", "reply bytes", "longest"
    );
    for Entry { peer, tally, .. } in entries {
        // Only where all contend for one lock.
        let longest = Some(quantile(&tally.waits, 0.5)).filter(|wait| wait.is_finite());
        println!(
            "{:<25} {:>9.1} {:>10.0} {:>10.0} {:>9.2} {:>7.2} {:>12.1} {:>8}",
            peer.name(),
            tally.handoffs as f64 / tally.wall.as_secs_f64(),
            quantile(&tally.cycles, 0.5),
            quantile(&tally.cycles, 0.99),
            tally.per_cycle(tally.requests),
            tally.per_cycle(tally.events),
            tally.per_cycle(tally.reply_bytes),
            longest.map_or_else(String::new, |wait| format!("{wait:.2}"))
        );
    }
    type Metric = (&'static str, fn(&Tally) -> f64);
    let metrics: &[Metric] = match scenario {
        Scenario::Free | Scenario::Multi | Scenario::Readers => {
            &[("median_time_per_cycle", |tally| quantile(&tally.cycles, 0.5))]
        }
        Scenario::Contended | Scenario::Keys | Scenario::Permits => {
            &[("median_time_per_handoff", Tally::median_time_per_handoff)]
        }
        Scenario::Queue => &[
            ("reply_bytes_per_cycle", |tally| tally.per_cycle(tally.reply_bytes)),
            ("requests_per_cycle", |tally| tally.per_cycle(tally.requests)),
            ("median_time_per_handoff", Tally::median_time_per_handoff),
        ],
    };
    let Some((first, others)) = entries.split_first() else { return };
    for other in others {
        for (metric, value) in metrics {
            let ratio = value(&first.tally) / value(&other.tally);
            println!("{} / {}: {ratio:.3} ({metric})", first.peer.name(), other.peer.name());
        }
    }
}
