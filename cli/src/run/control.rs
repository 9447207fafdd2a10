//! Job control: the command stops and continues together with this process, and has the terminal when it should.

use super::job::Job;
use crate::signals::{CONT, STOP, TSTP, TTIN, TTOU, is_orphaned};
use crate::terminal::Terminal;
use crate::warden::protocol::Order;

/// The reaction to a command that is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It continues at once, because nobody else would continue it.
    GoesOn,
    /// It continues when this process is in the foreground.
    WaitsForTerminal,
    /// This process stops, too, so that the shell sees its job stopped.
    StopsUs,
    /// Nothing. The one that stopped it continues it.
    IsNotOurs,
}

pub(super) struct Control {
    terminal: Option<Terminal>,
    /// The signal that stopped the command, as far as is known.
    stopped: Option<i32>,
    /// Whether the command had the terminal then.
    had_terminal: bool,
    /// Whether the last signal to the command told it to stop, as the terminal's key does.
    told_to_stop: bool,
    /// How many SIGCONTs are under way to the command. A stop from before the arrival of one is over.
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

    fn is_in_foreground(&self) -> bool {
        self.terminal.as_ref().is_some_and(Terminal::is_ours)
    }

    /// Whether the rest of this process's group, a script or the other end of a pipe, stops with it. The rest would wait
    /// for this process in the foreground. The key's signal went to the command, and not to the rest.
    pub(super) fn stops_group(&self) -> bool {
        self.is_in_foreground() && (self.had_terminal || !self.told_to_stop)
    }

    /// The warden saw the command stop.
    pub(super) fn note_stop(&mut self, signal: i32, job: &Job<'_>) -> Stop {
        if self.continuing > 0 {
            return Stop::IsNotOurs;
        }
        self.stopped = Some(signal);
        let has_terminal = |terminal: &Terminal| job.group().is_some_and(|group| terminal.listens_to(group));
        self.had_terminal = self.terminal.as_ref().is_some_and(has_terminal);
        match signal {
            TTIN | TTOU if self.told_to_stop && !is_orphaned() => Stop::StopsUs,
            TTIN | TTOU if self.is_in_foreground() => Stop::GoesOn,
            TTIN | TTOU => Stop::WaitsForTerminal,
            // Not as shells suspend themselves, and not as this process stops for its own command.
            STOP if !self.told_to_stop && !self.had_terminal => Stop::IsNotOurs,
            // The kernel does not stop an orphaned group either.
            STOP | TSTP if is_orphaned() => Stop::GoesOn,
            STOP | TSTP => Stop::StopsUs,
            _ => Stop::IsNotOurs,
        }
    }

    /// The warden saw the command continue, by any process's SIGCONT.
    pub(super) fn note_continuation(&mut self) {
        // A command that was not seen to stop continued before the order to stop arrived.
        if self.stopped.take().is_some() {
            self.told_to_stop = false;
        }
    }

    /// The warden has passed SIGCONT on.
    pub(super) fn note_delivery(&mut self) {
        self.continuing = self.continuing.saturating_sub(1);
    }

    pub(super) fn order_stop(&mut self, job: &Job<'_>) -> Stop {
        job.send_order(Order::Signal(TSTP));
        self.told_to_stop = true;
        // The warden reports no second stop of a command that is stopped.
        if self.stopped.is_some() && !is_orphaned() { Stop::StopsUs } else { Stop::IsNotOurs }
    }

    pub(super) fn pass_signal_on(&mut self, signal: i32, job: &Job<'_>) {
        job.send_order(Order::Signal(signal));
        self.told_to_stop = false;
    }

    /// Continues the command if it is stopped. It gets the terminal if this process has it and the command had it or
    /// asked for it.
    pub(super) fn resume_command(&mut self, job: &Job<'_>) {
        let wants_terminal = self.had_terminal || matches!(self.stopped, Some(TTIN | TTOU));
        self.had_terminal = false;
        if wants_terminal
            && let (Some(terminal), Some(group)) = (&self.terminal, job.group())
            && terminal.is_ours()
        {
            terminal.give_to(group);
        }
        self.continue_command(job);
    }

    /// Continues the command if it is stopped, without the terminal.
    pub(super) fn continue_command(&mut self, job: &Job<'_>) {
        self.stopped = None;
        self.told_to_stop = false;
        self.continuing += 1;
        job.send_order(Order::Signal(CONT));
    }

    /// Whether the command waits for a terminal that it can have now, or never.
    pub(super) fn waits_in_vain(&self) -> bool {
        matches!(self.stopped, Some(TTIN | TTOU))
            && self.terminal.as_ref().is_none_or(|terminal| terminal.is_ours() || terminal.is_gone())
    }

    pub(super) fn take_terminal_back(&self, job: &Job<'_>) {
        if let (Some(terminal), Some(group)) = (&self.terminal, job.group()) {
            terminal.take_back_from(group);
        }
    }
}
