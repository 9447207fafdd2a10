//! Messages to people, on standard error. Results go to standard output, and not through here.

use std::fmt::Display;
use std::io::{Write, stderr};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

use crate::text;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Console {
    Quiet,
    /// News as well: the program waits, and who holds the lock; a lock was lost.
    Normal,
    /// Each step as well.
    Verbose,
}

impl Console {
    pub(crate) fn is_quiet(self) -> bool {
        self == Self::Quiet
    }

    pub(crate) fn detail(self, message: impl Display) {
        if self >= Self::Verbose {
            print(Style::new().dimmed(), message);
        }
    }

    pub(crate) fn note(self, message: impl Display) {
        if self >= Self::Normal {
            print(Style::new(), message);
        }
    }

    /// Prints a problem, or a possible one.
    pub(crate) fn warn(self, message: impl Display) {
        if self >= Self::Normal {
            print(AnsiColor::Yellow.on_default(), message);
        }
    }

    pub(crate) fn error(self, message: impl Display) {
        print(AnsiColor::Red.on_default(), message);
    }
}

fn print(style: Style, message: impl Display) {
    // Any client may have written a part of it, and an error of a library may have a text of a server.
    let message = text::message(&message.to_string());
    print_whole(&format!("zklock: {style}{message}{style:#}\n"));
}

/// Writes the text to standard error in one piece, so that no other process writes between two parts of a line.
pub(crate) fn print_whole(text: &str) {
    // A stream from `anstream` would write the text between two colours piece by piece.
    let text = match AutoStream::choice(&stderr()) {
        ColorChoice::Never => anstream::adapter::strip_str(text).to_string(),
        _ => text.to_owned(),
    };
    // `eprint!` panics if the stream is gone. A message is not worth a panic.
    let _gone = stderr().write_all(text.as_bytes());
}
