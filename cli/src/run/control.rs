//! Job control: the command stops and goes on together with this process, and has the terminal when it should.

use super::job::Job;
use crate::signals::{CONT, STOP, TSTP, TTIN, TTOU, is_orphaned};
use crate::terminal::Terminal;
use crate::warden::protocol::Order;

/// What a command that is stopped means to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It goes on at once: there is nobody who would have it do so.
    GoesOn,
    /// It goes on when we are in the foreground.
    WaitsForTerminal,
    /// We stop, too, so that the shell sees its job stopped.
    StopsUs,
    /// Somebody did that who knows how to have it go on.
    IsNotOurs,
}

/// What there is to know about it.
pub(super) struct Control {
    terminal: Option<Terminal>,
    /// The signal that the command is stopped by, as far as we know.
    stopped: Option<i32>,
    /// Whether it had the terminal then.
    had_terminal: bool,
    /// Whether it was told to stop, as by the terminal's key, and nothing else since.
    told_to_stop: bool,
    /// How many times SIGCONT is under way to it. Whatever has stopped it before that arrives is over.
    continuing: usize,
}

impl Control {
    pub(super) fn new() -> Self {
        Self {
            terminal: Terminal::open(),
            stopped: None,
            had_terminal: false,
            told_to_stop: false,
            continuing: 0,
        }
    }

    /// Whether the command is to have the terminal from the start.
    pub(super) fn begins_in_foreground(&self) -> bool {
        self.terminal.as_ref().is_some_and(Terminal::is_all_ours)
    }

    /// Whether this process is where the terminal listens.
    fn is_in_foreground(&self) -> bool {
        self.terminal.as_ref().is_some_and(Terminal::is_ours)
    }

    /// Whether what runs us, and what we are piped to, is to stop with us: it would wait for us in the foreground, and has not
    /// been told, as the key that meant it went to the command.
    pub(super) fn stops_group(&self) -> bool {
        self.is_in_foreground() && (self.had_terminal || !self.told_to_stop)
    }

    /// The warden saw it stopped.
    pub(super) fn stopped(&mut self, signal: i32, job: &Job<'_>) -> Stop {
        if self.continuing > 0 {
            return Stop::IsNotOurs;
        }
        self.stopped = Some(signal);
        self.had_terminal = self.has_terminal(job);
        match signal {
            TTIN | TTOU if self.told_to_stop && !is_orphaned() => Stop::StopsUs,
            TTIN | TTOU if self.is_in_foreground() => Stop::GoesOn,
            TTIN | TTOU => Stop::WaitsForTerminal,
            // As shells suspend themselves, and as we stop for our own command.
            STOP if !self.told_to_stop && !self.had_terminal => Stop::IsNotOurs,
            // The kernel does not stop such a one either.
            STOP | TSTP if is_orphaned() => Stop::GoesOn,
            STOP | TSTP => Stop::StopsUs,
            _ => Stop::IsNotOurs,
        }
    }

    /// The warden saw it go on, whoever had it do so.
    pub(super) fn continued(&mut self) {
        // One that was not seen to stop has gone on before it was told to.
        if self.stopped.take().is_some() {
            self.told_to_stop = false;
        }
    }

    /// The warden has passed SIGCONT on.
    pub(super) fn delivered(&mut self) {
        self.continuing = self.continuing.saturating_sub(1);
    }

    /// Tells it to stop.
    pub(super) fn stop(&mut self, job: &Job<'_>) -> Stop {
        job.order(Order::Signal(TSTP));
        self.told_to_stop = true;
        // One that is stopped already will not be seen to stop.
        if self.stopped.is_some() && !is_orphaned() { Stop::StopsUs } else { Stop::IsNotOurs }
    }

    /// Tells it something else.
    pub(super) fn tell(&mut self, signal: i32, job: &Job<'_>) {
        job.order(Order::Signal(signal));
        self.told_to_stop = false;
    }

    /// Has it go on, if it is stopped: in the foreground, if that is where we are and it was, or wants to be.
    pub(super) fn resume(&mut self, job: &Job<'_>) {
        let wants_terminal = self.had_terminal || matches!(self.stopped, Some(TTIN | TTOU));
        self.had_terminal = false;
        if wants_terminal
            && let (Some(terminal), Some(group)) = (&self.terminal, job.group())
            && terminal.is_ours()
        {
            terminal.give(group);
        }
        self.let_go_on(job);
    }

    /// Has it go on where it is, if it is stopped.
    pub(super) fn let_go_on(&mut self, job: &Job<'_>) {
        self.stopped = None;
        self.told_to_stop = false;
        self.continuing += 1;
        job.order(Order::Signal(CONT));
    }

    /// Whether it waits for a terminal that it can have now, or never.
    pub(super) fn waits_in_vain(&self) -> bool {
        matches!(self.stopped, Some(TTIN | TTOU))
            && self.terminal.as_ref().is_none_or(|terminal| terminal.is_ours() || terminal.is_gone())
    }

    pub(super) fn take_terminal_back(&self, job: &Job<'_>) {
        if let (Some(terminal), Some(group)) = (&self.terminal, job.group()) {
            terminal.take_back(group);
        }
    }

    fn has_terminal(&self, job: &Job<'_>) -> bool {
        let group = job.group();
        group.is_some_and(|group| self.terminal.as_ref().is_some_and(|terminal| terminal.listens_to(group)))
    }
}
