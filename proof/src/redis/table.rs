//! The table: a row for each fault and question, a column for each lock.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::fault::Fault;
use super::kind::Kind;
use super::outcome::{Outcome, Told};
use super::stage::TTL;
use crate::harness::table::title;

/// One lock under one fault: the worst of all runs.
#[derive(Debug, Serialize)]
pub(super) struct Cell {
    pub(super) lock: Kind,
    pub(super) fault: Fault,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

type Question = (&'static str, fn(&Outcome) -> String);

/// What is asked of each lock under each fault, and how an outcome answers it.
const QUESTIONS: [Question; 4] = [
    ("two hold at once, for", |it| if it.double_holds == 0 { "no".into() } else { seconds(it.longest) }),
    ("late writes accepted", |it| it.late_writes.to_string()),
    ("from the fault to the next grant", |it| match it.recovery {
        Some(recovery) if !it.stuck => seconds(recovery),
        _ => "never".into(),
    }),
    ("the former holder is told", |it| told(it.told).into()),
];

impl Cell {
    pub(super) fn new(lock: Kind, fault: Fault) -> Self {
        Self { lock, fault, outcome: Outcome::default() }
    }

    /// Whether nobody held the lock beside another, the lock was free again, and the register, if it is fenced, took no late
    /// write.
    pub(super) fn is_strict(&self) -> bool {
        let Outcome { double_holds, stuck, late_writes, .. } = self.outcome;
        double_holds == 0 && !stuck && !(self.lock.is_fenced() && late_writes > 0)
    }
}

/// Prints it in Markdown.
pub(super) fn print(runs: u16, servers: &str, cells: &[Cell]) {
    println!("TTL and session timeout: {} each. The worst of {runs} runs. {servers}.\n", seconds(TTL));
    println!("| fault | | {} |", Kind::value_variants().iter().map(title).collect::<Vec<_>>().join(" | "));
    println!("{}|", "|---".repeat(2 + Kind::value_variants().len()));
    for fault in Fault::value_variants() {
        let mut title = title(fault);
        for (question, answer) in QUESTIONS {
            let answers = cells.iter().filter(|cell| cell.fault == *fault).map(|cell| answer(&cell.outcome));
            println!("| {title} | {question} | {} |", answers.collect::<Vec<_>>().join(" | "));
            title.clear();
        }
    }
}

fn told(told: Option<Told>) -> &'static str {
    match told {
        None => "",
        Some(Told::Waits) => "waits on",
        Some(Told::AcquireFails) => "acquire fails",
        Some(Told::Check) => "first check",
        Some(Told::IfItAsks) => "if it asks",
        Some(Told::ReleaseFails) => "release fails",
        Some(Told::Nothing) => "nothing",
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}
