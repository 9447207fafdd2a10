//! The table: a row for each scenario and question, a column for each lock.

use std::time::Duration;

use crate::redis::args::Redis;
use crate::redis::measure::Cell;
use crate::redis::outcome::Told;

/// What is asked of each lock under each fault, and how a cell answers it.
type Question = (&'static str, fn(&Cell) -> String);

/// Prints it in Markdown, padded for people.
pub(crate) fn print(show: &Redis, servers: &str, cells: &[Cell]) {
    println!(
        "TTL and session timeout: {} each. The worst of {} runs. {servers}.\n",
        seconds(show.ttl),
        show.runs
    );
    let titles = show.locks.iter().map(|lock| lock.title().to_owned());
    let mut rows = vec![[String::new(), String::new()].into_iter().chain(titles).collect::<Vec<_>>()];
    let questions: [Question; 4] = [
        ("two hold at once, for", |cell| match cell.double_holds {
            0 => "no".into(),
            1 => seconds(cell.longest),
            times => format!("{times} x {}", seconds(cell.longest)),
        }),
        ("late writes accepted", |cell| cell.late_writes.to_string()),
        ("from the fault to the next grant", |cell| match (cell.stuck, cell.recovery) {
            (0, Some(recovery)) => seconds(recovery),
            (0, None) => String::new(),
            _ => "never".into(),
        }),
        ("the former holder is told", |cell| told(cell.told).into()),
    ];
    for scenario in &show.scenarios {
        for (question, answer) in questions {
            let answers = cells.iter().filter(|cell| cell.scenario == *scenario).map(answer);
            let head = [scenario.title().to_owned(), question.to_owned()];
            rows.push(head.into_iter().chain(answers).collect());
        }
    }
    let columns = rows.first().map_or(0, Vec::len);
    let widths =
        (0..columns).map(|column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max());
    let widths = widths.map(Option::unwrap_or_default).collect::<Vec<_>>();
    for (index, row) in rows.iter().enumerate() {
        let texts = row.iter().zip(&widths).map(|(text, width)| format!("{text:width$}")).collect::<Vec<_>>();
        println!("| {} |", texts.join(" | "));
        if index == 0 {
            println!("|{}", "---|".repeat(columns));
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
