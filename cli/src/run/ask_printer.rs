//! The lines that say who asks for the lock.
//!
//! Anybody may ask, as often as they like, and standard error may be a full pipe that nobody reads. The task that extends the
//! command's lease must not wait for that. So a thread of its own prints these lines.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, spawn_blocking};

use crate::console::Console;

/// How many lines are printed in a minute at most.
const LINES: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);

/// How long the end of the command waits until the last line is printed.
const PATIENCE: Duration = Duration::from_millis(200);

pub(super) struct AskPrinter {
    console: Console,
    recent: Vec<Instant>,
    printer: Option<(SyncSender<String>, JoinHandle<()>)>,
}

impl AskPrinter {
    pub(super) fn new(console: Console) -> Self {
        Self { console, recent: Vec::new(), printer: None }
    }

    /// Prints a line soon. A line is left out if too many came before it, unless it matters, or if the last ones cannot be printed.
    pub(super) fn print_soon(&mut self, matters: bool, line: String) {
        if !self.admits(matters, Instant::now()) {
            return;
        }
        let console = self.console;
        let (printer, _) = self.printer.get_or_insert_with(|| {
            let (sender, lines) = sync_channel::<String>(LINES);
            (sender, spawn_blocking(move || lines.into_iter().for_each(|line| console.warn(line))))
        });
        let _full = printer.try_send(line);
    }

    fn admits(&mut self, matters: bool, now: Instant) -> bool {
        self.recent.retain(|at| now.duration_since(*at) < MINUTE);
        let admits = matters || self.recent.len() < LINES;
        if admits {
            self.recent.push(now);
        }
        admits
    }

    /// Waits for a moment until each line is printed.
    pub(super) async fn finish_printing(&mut self) {
        if let Some((sender, printed)) = self.printer.take() {
            drop(sender);
            let _late = tokio::time::timeout(PATIENCE, printed).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_are_printed_in_a_minute_and_those_that_matter() {
        let mut printer = AskPrinter::new(Console::Quiet);
        let began = Instant::now();
        assert!((0..LINES).all(|_| printer.admits(false, began)));
        assert!(!printer.admits(false, began + MINUTE / 2));
        assert!(printer.admits(true, began + MINUTE / 2));
        assert!(printer.admits(false, began + MINUTE));
    }
}
