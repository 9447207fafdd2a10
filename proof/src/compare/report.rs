//! The tables, in Markdown.

use std::time::Duration;

use super::faults::Cut;
use super::speed::{Cell, ROUND_TRIPS};
use crate::harness::table::{self, quantile};
use crate::peers::{Contestant, Service};

const HEADS: &str =
    " | 8 contend, loopback | 8 contend, 1 ms | free, 1 ms | killed | vanished | told | granted | margin";

/// What was measured of one contestant.
pub(super) struct Measured {
    pub(super) contestant: Contestant,
    pub(super) cells: Vec<Cell>,
    /// Seconds to the next grant; `None` if it did not come.
    pub(super) killed: Vec<Option<f64>>,
    pub(super) vanished: Vec<Option<f64>>,
    pub(super) cuts: Vec<Cut>,
}

impl Measured {
    pub(super) fn new(contestant: Contestant) -> Self {
        Self { contestant, cells: Vec::new(), killed: Vec::new(), vanished: Vec::new(), cuts: Vec::new() }
    }

    /// What was measured with so many clients at this round trip.
    pub(super) fn cell(&self, clients: u32, round_trip: Duration) -> Option<&Cell> {
        self.cells.iter().find(|cell| (cell.clients, cell.round_trip) == (clients, round_trip))
    }
}

/// The comparison in one table, then the speeds in full.
pub(super) fn print(rows: &[Measured], clients: &[u32]) {
    let [none, some] = ROUND_TRIPS;
    let summary = rows.iter().map(|row| {
        let speed = |clients, round_trip| {
            row.cell(clients, round_trip).map_or_else(String::new, |cell| rate(cell.rate()))
        };
        let speeds = [row.contestant.name(), speed(8, none), speed(8, some), speed(1, some)];
        let crashes = [seconds(&row.killed), seconds(&row.vanished)];
        [&speeds[..], &crashes, &cut(row.contestant, &row.cuts)].concat()
    });
    table::print(HEADS, summary);
    let measured = rows.iter().any(|row| !row.cells.is_empty());
    for round_trip in ROUND_TRIPS.into_iter().filter(|_| measured) {
        println!();
        let titles: Vec<_> = clients.iter().copied().map(title).collect();
        let heads = format!("{} ms added | {}", round_trip.as_millis(), titles.join(" | "));
        let rows = rows.iter().map(|row| {
            let cells =
                clients.iter().map(|clients| row.cell(*clients, round_trip).map_or_else(String::new, detail));
            std::iter::once(row.contestant.name()).chain(cells).collect()
        });
        table::print(&heads, rows);
    }
    for (row, cut) in rows.iter().flat_map(|row| row.cuts.iter().map(move |cut| (row, cut))) {
        eprintln!("{}: told {:.2?}, granted {:.2}", row.contestant.name(), cut.told, cut.granted);
    }
}

fn title(clients: u32) -> String {
    if clients == 1 { "free".to_owned() } else { format!("{clients} contend") }
}

fn rate(per_second: f64) -> String {
    if per_second < 10.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}

/// Handovers a second, or acquisitions of a free lock. In parentheses: p50 and p99 of a cycle in milliseconds, requests a cycle.
fn detail(cell: &Cell) -> String {
    let requests = cell.requests().map_or_else(String::new, |requests| format!("; {requests:.1}"));
    // A lock that goes back to the same client often was not handed over.
    let often = cell.acquired() >= 1.5 * cell.rate();
    let all = if often { format!(" of {}", rate(cell.acquired())) } else { String::new() };
    format!("{}{all} ({:.1}, {:.1}{requests})", rate(cell.rate()), cell.took(0.5), cell.took(0.99))
}

/// The least and the most, in seconds.
fn seconds(figures: &[Option<f64>]) -> String {
    let Some(figures) = figures.iter().copied().collect::<Option<Vec<f64>>>() else {
        return "not in 20 s".into();
    };
    let [least, most] = [0.0, 1.0].map(|part| format!("{:.1}", quantile(&figures, part)));
    if figures.is_empty() {
        String::new()
    } else if least == most {
        format!("{least} s")
    } else {
        format!("{least} to {most} s")
    }
}

/// Three columns, of the repetition in which the margin was least.
fn cut(contestant: Contestant, cuts: &[Cut]) -> [String; 3] {
    let margin = |cut: &Cut| cut.granted - cut.told.first().map_or(f64::INFINITY, |(told, _)| *told);
    let Some(worst) = cuts.iter().min_by(|a, b| margin(a).total_cmp(&margin(b))) else {
        let is_one = contestant.service() == Service::Postgres;
        return [if is_one { "one server" } else { "" }, "", ""].map(str::to_owned);
    };
    let told = worst.told.first().map_or_else(String::new, |(told, word)| format!("{told:.1} s ({word})"));
    [told, format!("{:.1} s", worst.granted), format!("{:+.1} s", margin(worst))]
}
