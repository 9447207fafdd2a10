//! The tables, in Markdown.

use super::contestant::Contestant;
use super::faults::Cut;
use super::speed::{CLIENTS, Cell, ROUND_TRIPS};

/// What was measured of one contestant.
pub(super) struct Row {
    pub(super) contestant: Contestant,
    pub(super) cells: Vec<Cell>,
    /// Seconds to the next grant; `None` if it did not come.
    pub(super) killed: Vec<Option<f64>>,
    pub(super) vanished: Vec<Option<f64>>,
    pub(super) cuts: Vec<Cut>,
}

impl Row {
    pub(super) fn new(contestant: Contestant) -> Self {
        Self { contestant, cells: Vec::new(), killed: Vec::new(), vanished: Vec::new(), cuts: Vec::new() }
    }

    /// What was measured with so many clients, at the round trip of this place in [`ROUND_TRIPS`].
    pub(super) fn cell(&self, clients: u32, round_trip: usize) -> Cell {
        let place = CLIENTS.iter().position(|it| *it == clients).unwrap_or_default();
        self.cells.get(place * ROUND_TRIPS.len() + round_trip).cloned().unwrap_or_default()
    }
}

/// The comparison in one table, then what it leaves out.
pub(super) fn print(rows: &[Row]) {
    println!("| | 8 contend, 1 ms | none added | free, 1 ms | killed | vanished | server cut off: told, granted, least margin | what protects |");
    println!("|---|---|---|---|---|---|---|---|");
    for row in rows {
        let speed = |clients, round_trip| rate(row.cell(clients, round_trip).per_second);
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            row.contestant.name(),
            speed(8, 1),
            speed(8, 0),
            speed(1, 1),
            seconds(&row.killed),
            seconds(&row.vanished),
            cut(&row.cuts),
            row.contestant.strictness(),
        );
    }
    for (index, round_trip) in ROUND_TRIPS.iter().enumerate() {
        println!("\n| {} ms added | {} |", round_trip.as_millis(), CLIENTS.map(title).join(" | "));
        println!("|---|{}", "---|".repeat(CLIENTS.len()));
        for row in rows {
            let cells = CLIENTS.map(|clients| detail(&row.cell(clients, index)));
            println!("| {} | {} |", row.contestant.name(), cells.join(" | "));
        }
    }
    for row in rows {
        for cut in &row.cuts {
            eprintln!("{}: told {:.2?}, granted {:.2}", row.contestant.name(), cut.told, cut.granted);
        }
    }
}

fn title(clients: u32) -> String {
    if clients == 1 { "free".to_owned() } else { format!("{clients} contend") }
}

fn rate(per_second: f64) -> String {
    if per_second < 10.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}

fn detail(cell: &Cell) -> String {
    let requests = cell.requests.map_or_else(String::new, |requests| format!("; {requests:.1}"));
    format!("{} ({:.1}, {:.1}{requests})", rate(cell.per_second), cell.p50, cell.p99)
}

/// The least and the most, in seconds.
fn seconds(figures: &[Option<f64>]) -> String {
    let Some(figures) = figures.iter().copied().collect::<Option<Vec<f64>>>() else { return "not in 20 s".into() };
    let text = |seconds: f64| format!("{seconds:.1}");
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match text(least) == text(most) {
        _ if figures.is_empty() => String::new(),
        true => format!("{} s", text(least)),
        false => format!("{} to {} s", text(least), text(most)),
    }
}

/// The repetition in which the margin was least.
fn cut(cuts: &[Cut]) -> String {
    let margin = |cut: &Cut| cut.granted - cut.told.first().map_or(f64::INFINITY, |(told, _)| *told);
    let Some(worst) = cuts.iter().min_by(|a, b| margin(a).total_cmp(&margin(b))) else {
        return "one server".to_owned();
    };
    let told = worst.told.first().map_or_else(String::new, |(told, word)| format!("{told:.1} s ({word})"));
    format!("{told}, {:.1} s, {:+.1} s", worst.granted, margin(worst))
}
