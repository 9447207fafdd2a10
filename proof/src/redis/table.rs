//! The tables: a row for each scenario, a column for each lock.

use std::time::Duration;

use crate::redis::args::Redis;
use crate::redis::kind::Kind;
use crate::redis::measure::Cell;
use crate::redis::outcome::Told;
use crate::redis::scenario::Scenario;
use crate::redis::speed::Speed;

/// What is shown of everything that was measured.
pub(crate) struct Tables<'a> {
    pub(crate) show: &'a Redis,
    pub(crate) servers: String,
    pub(crate) cells: &'a [Cell],
    pub(crate) speeds: &'a [Speed],
}

impl Tables<'_> {
    /// All of them.
    pub(crate) fn print(&self) {
        let Redis { ttl, runs, .. } = self.show;
        println!(
            "TTL and session timeout: {} each. The worst of {runs} runs. {}.\n",
            seconds(*ttl),
            self.servers
        );
        self.scenarios("two hold at once, for", |cell| match cell.double_holds {
            0 => "no".into(),
            1 => self.bad(&seconds(cell.longest)),
            times => self.bad(&format!("{times} x {}", seconds(cell.longest))),
        });
        self.scenarios("late writes accepted", |cell| match cell.late_writes {
            0 => "0".into(),
            writes => self.bad(&writes.to_string()),
        });
        self.scenarios("from the fault to the next grant", |cell| match (cell.stuck, cell.recovery) {
            (0, Some(recovery)) => seconds(recovery),
            (0, None) => String::new(),
            _ => self.bad("never"),
        });
        self.scenarios("the former holder is told", |cell| match cell.told {
            None => String::new(),
            Some(Told::Waits) => "waits on".into(),
            Some(Told::AcquireFails) => "acquire fails".into(),
            Some(Told::Check) => "first check".into(),
            Some(Told::IfItAsks) => "if it asks".into(),
            Some(Told::ReleaseFails) => "release fails".into(),
            Some(Told::Nothing) => self.bad("nothing"),
        });
        self.speed();
        self.notes();
    }

    /// What the tables' words mean.
    fn notes(&self) {
        let Redis { ttl, scenarios, locks, .. } = self.show;
        let applicable =
            |scenario: &Scenario| locks.iter().filter_map(|lock| scenario.does_not_apply(*lock)).next();
        let mut notes: Vec<String> = Vec::new();
        for (scenario, why) in scenarios.iter().filter_map(|it| applicable(it).map(|why| (it, why))) {
            notes.push(format!("-, where {}: {why}.", scenario.title()));
        }
        notes.push(format!("never: not within {}.", seconds(crate::redis::stage::bound(*ttl))));
        notes.push(format!(
            "Who holds the lock beside another works on for {} and then releases; left alone it would work on for longer.",
            seconds(*ttl / 4)
        ));
        notes.push(
            "if it asks: the servers say so if it asks them; if it does not ask, its release fails.".into(),
        );
        notes.iter().for_each(|note| println!("{}{note}", if self.show.markdown { "- " } else { "" }));
    }

    fn scenarios(&self, title: &str, text: impl Fn(&Cell) -> String) {
        let row = |scenario: &Scenario| {
            let cells = self.cells.iter().filter(|cell| cell.scenario == *scenario);
            let texts = cells.map(|cell| if cell.runs == 0 { "-".into() } else { text(cell) });
            std::iter::once(scenario.title().to_owned()).chain(texts).collect()
        };
        let rows: Vec<Vec<_>> = self.show.scenarios.iter().map(row).collect();
        // A row that says nothing of any lock is left out.
        let says = |row: &Vec<String>| row.iter().skip(1).any(|text| !text.is_empty() && text != "-");
        self.table(title, &rows.into_iter().filter(says).collect::<Vec<_>>());
    }

    fn speed(&self) {
        if self.speeds.is_empty() {
            return;
        }
        let row = |title: &str, time: fn(&Speed) -> Duration| {
            let times = self.speeds.iter().map(|speed| milliseconds(time(speed)));
            std::iter::once(title.to_owned()).chain(times).collect()
        };
        let rows: [Vec<_>; 3] = [
            row("acquire and release, nobody else there: median", |speed| speed.cycle),
            row("from release to the waiter's grant: median", |speed| speed.handoff),
            row("the same: longest", |speed| speed.longest_handoff),
        ];
        self.table("undisturbed", &rows);
    }

    fn table(&self, title: &str, rows: &[Vec<String>]) {
        let locks = self.show.locks.iter().map(|lock| Kind::title(*lock).to_owned());
        let head: Vec<_> = std::iter::once(title.to_owned()).chain(locks).collect();
        let markdown = self.show.markdown;
        let width = |column| {
            let texts = std::iter::once(&head).chain(rows).filter_map(move |row| row.get(column));
            texts.map(String::len).max().unwrap_or(0)
        };
        let line = |row: &[String]| match markdown {
            true => format!("| {} |", row.join(" | ")),
            false => {
                let cell = |(column, text): (usize, &String)| {
                    let width = width(column);
                    if column == 0 { format!("{text:width$}") } else { format!("{text:>width$}") }
                };
                row.iter().enumerate().map(cell).collect::<Vec<_>>().join("   ")
            }
        };
        println!("{}", line(&head));
        if markdown {
            println!("|{}", "---|".repeat(head.len()));
        }
        rows.iter().for_each(|row| println!("{}", line(row)));
        println!();
    }

    /// What must not be.
    fn bad(&self, text: &str) -> String {
        if self.show.markdown { format!("**{text}**") } else { text.to_owned() }
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}
