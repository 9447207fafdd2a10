//! The table: a row for each fault and question, a column for each lock; and what it proves.

use clap::ValueEnum;

use super::fault::{Fault, TTL};
use super::outcome::Outcome;
use crate::harness::table::title;
use crate::harness::{Ruling, table};
use crate::peers::{Contestant, Service};

/// The locks, and whether the store refuses writes of former holders.
pub(super) const COLUMNS: [(Contestant, bool); 6] = [
    (Contestant::SetNxPx, false),
    (Contestant::SetnxExpire, false),
    (Contestant::Spring, false),
    (Contestant::Redisson, false),
    (Contestant::Zklock, false),
    (Contestant::Zklock, true),
];

/// One lock under one fault: the worst of all runs.
pub(super) struct Cell {
    contestant: Contestant,
    fenced: bool,
    fault: Fault,
    pub(super) outcome: Outcome,
}

type Question = (&'static str, fn(&Outcome) -> String);

/// What is asked of each lock under each fault, and how an outcome answers it.
const QUESTIONS: [Question; 4] = [
    ("two hold at once, for", |it| if it.together > 0.0 { seconds(it.together) } else { "no".into() }),
    ("late writes accepted", |it| it.late_writes.to_string()),
    ("from the fault to the next grant", |it| {
        if it.recovery.is_finite() { seconds(it.recovery) } else { "never".into() }
    }),
    ("the former holder is told", |it| it.told.as_ref().map_or_else(String::new, title)),
];

impl Cell {
    pub(super) fn new(contestant: Contestant, fenced: bool, fault: Fault) -> Self {
        Self { contestant, fenced, fault, outcome: Outcome::default() }
    }

    fn ruling(&self) -> Ruling {
        let Self { contestant, fenced, fault, outcome } = *self;
        let has_two = outcome.together > 0.0;
        if contestant.service() == Service::Redis {
            // A reply that is later than its client waits for it makes no holder.
            let limits = matches!(contestant, Contestant::Spring | Contestant::Redisson);
            let must_have_two = fault == Fault::Stopped || !limits;
            let shown = !must_have_two || (has_two && outcome.late_writes > 0);
            return if shown { Ruling::Pass } else { Ruling::Unproven };
        }
        // The one write that a lock alone cannot prevent.
        let late_writes = u32::from(fault == Fault::Stopped);
        let (accepted, refused) = if fenced { (0, late_writes) } else { (late_writes, 0) };
        if has_two || outcome.recovery.is_infinite() || outcome.late_writes > accepted {
            Ruling::Fail
        } else if (outcome.late_writes, outcome.refused) == (accepted, refused) {
            Ruling::Pass
        } else {
            Ruling::Unproven
        }
    }
}

/// The worst of all cells.
pub(super) fn ruling(cells: &[Cell]) -> Ruling {
    for ruling in [Ruling::Fail, Ruling::Unproven] {
        if let Some(cell) = cells.iter().find(|cell| cell.ruling() == ruling) {
            eprintln!("{ruling:?}: {}, {}", head((cell.contestant, cell.fenced)), title(&cell.fault));
            return ruling;
        }
    }
    Ruling::Pass
}

fn head((contestant, fenced): (Contestant, bool)) -> String {
    let name = contestant.name();
    match (contestant, fenced) {
        (Contestant::Zklock, true) => format!("{name}, fenced"),
        (Contestant::Zklock, false) => format!("{name}, unfenced"),
        _ => name,
    }
}

/// Prints it in Markdown.
pub(super) fn print(runs: u16, cells: &[Cell]) {
    println!("TTL and session timeout: {} each. The worst of {runs} runs.\n", seconds(TTL.as_secs_f64()));
    let heads = format!("fault | | {}", COLUMNS.map(head).join(" | "));
    let rows = Fault::value_variants().iter().flat_map(|fault| {
        QUESTIONS.iter().enumerate().map(move |(number, (question, answer))| {
            let title = if number == 0 { title(fault) } else { String::new() };
            let cells = cells.iter().filter(|cell| cell.fault == *fault);
            let answers = cells.map(|cell| answer(&cell.outcome));
            [title, (*question).to_owned()].into_iter().chain(answers).collect()
        })
    });
    table::print(&heads, rows);
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.2} s")
}
