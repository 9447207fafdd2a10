//! What the program tells people, on standard error. Results go to standard output, and not through here.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Only why it failed.
    Quiet,
    /// What somebody should know: that it waits, and for whom; that a lock was lost.
    Normal,
    /// Each step.
    Verbose,
}

/// Where messages go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    level: Level,
}

impl Console {
    pub(crate) fn new(level: Level) -> Self {
        Self { level }
    }

    /// Each step, for those who want to see them.
    pub(crate) fn detail(self, message: impl Display) {
        if self.level >= Level::Verbose {
            self.print(Style::new().dimmed(), message);
        }
    }

    /// What somebody should know.
    pub(crate) fn note(self, message: impl Display) {
        if self.level >= Level::Normal {
            self.print(Style::new(), message);
        }
    }

    /// What went wrong, or may.
    pub(crate) fn warn(self, message: impl Display) {
        if self.level >= Level::Normal {
            self.print(AnsiColor::Yellow.on_default(), message);
        }
    }

    /// Why it failed: told in any case.
    pub(crate) fn error(self, message: impl Display) {
        self.print(AnsiColor::Red.on_default(), message);
    }

    fn print(self, style: Style, message: impl Display) {
        // `eprintln!` of a stream that is gone panics, and a message is not worth that.
        use std::io::Write;
        let _gone = writeln!(anstream::stderr(), "zklock: {style}{message}{style:#}");
    }
}
