//! The timeline that the demo prints: a row for each change, and a column for each contender.

use std::io::{IsTerminal, Write};

use crate::record::{Event, Instant, Record};

pub(crate) struct Timeline {
    start: Instant,
    colour: bool,
    contenders: Vec<State>,
    holder: Option<i64>,
}

/// Prints a line. If nobody reads it any more, the exit code still gives the verdict.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The state of a contender, as far as the conductor knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Starting,
    Idle,
    Waiting(i64),
    Holding,
    Lost,
    Dead,
    Done,
}

impl Timeline {
    pub(crate) fn new(contenders: u16, start: Instant) -> Self {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { start, colour, contenders: vec![State::Starting; usize::from(contenders)], holder: None }
    }

    pub(crate) fn print_header(&self) {
        say("HOLD: holds the lock; 1, 2, ..: position in the queue; -: between two rounds\n");
        let columns: String =
            (1..=self.contenders.len()).map(|number| format!("{:>6}", format!("c{number}"))).collect();
        say(&self.paint("1", &format!("{:>8} {columns}  {:<12}  event", "seconds", "token")));
    }

    /// Takes in a record, and prints a row if the record is worth one.
    pub(crate) fn hear(&mut self, record: &Record) {
        let number = record.contender;
        let (state, text) = match &record.event {
            Event::Connected { session } => {
                let again = self.state(number) != Some(State::Starting);
                (State::Idle, again.then(|| format!("c{number} is back with session {session:#x}")))
            }
            Event::Waiting { token } => (State::Waiting(*token), None),
            Event::Entered { token } => {
                self.holder = Some(*token);
                (State::Holding, None)
            }
            Event::Read { value, .. } => (State::Holding, Some(format!("c{number} holds, reads {value}"))),
            Event::Writing { .. } | Event::Wrote { .. } => return,
            Event::Exited { lost: None } => (State::Idle, None),
            Event::Exited { lost: Some(reason) } => {
                (State::Lost, Some(format!("c{number} lost it ({reason}) and does not write")))
            }
            Event::Unconfirmed { cause } => (
                State::Lost,
                Some(format!("c{number} has written, but its release is not confirmed ({cause})")),
            ),
            Event::Finished => (State::Done, Some(format!("c{number} is done"))),
        };
        self.set(number, state);
        if let Some(text) = text {
            let code = if state == State::Lost { "33" } else { "0" };
            self.print(record.at, code, &text);
        }
        if matches!(record.event, Event::Exited { .. }) {
            self.holder = None;
        }
    }

    pub(crate) fn killed(&mut self, contender: u16) {
        self.set(contender, State::Dead);
        self.holder = None;
    }

    /// Prints what the conductor has done or seen.
    pub(crate) fn note(&self, at: Instant, text: &str) {
        self.print(at, "1;31", &format!("** {text}"));
    }

    fn print(&self, at: Instant, code: &str, text: &str) {
        let cells: String = self.contenders.iter().map(|state| self.cell(*state)).collect();
        let token = self.holder.map_or_else(|| "-".to_owned(), |token| token.to_string());
        let seconds = at.since(self.start).as_secs_f64();
        say(&format!("{seconds:>8.3} {cells}  {token:<12}  {}", self.paint(code, text)));
    }

    fn cell(&self, state: State) -> String {
        let (code, text) = match state {
            State::Starting => ("2", String::new()),
            State::Idle => ("2", "-".to_owned()),
            State::Waiting(token) => ("36", self.position(token).to_string()),
            State::Holding => ("1;32", "HOLD".to_owned()),
            State::Lost => ("1;33", "lost".to_owned()),
            State::Dead => ("1;31", "dead".to_owned()),
            State::Done => ("2", "done".to_owned()),
        };
        self.paint(code, &format!("{text:>6}"))
    }

    /// Returns a waiter's position. Tokens have the order of the queue, and the holder is not among the waiters.
    fn position(&self, token: i64) -> usize {
        let ahead = |state: &&State| matches!(state, State::Waiting(other) if *other < token);
        1 + self.contenders.iter().filter(ahead).count()
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn state(&self, contender: u16) -> Option<State> {
        self.contenders.get(usize::from(contender) - 1).copied()
    }

    /// Sets a contender's state. A dead contender stays dead, even if a late record of it arrives.
    fn set(&mut self, contender: u16, state: State) {
        if let Some(present) = self.contenders.get_mut(usize::from(contender) - 1)
            && *present != State::Dead
        {
            *present = state;
        }
    }
}
