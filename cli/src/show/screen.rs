//! The terminal while something is drawn on it.

use std::io;
use std::mem::ManuallyDrop;
use std::thread;

use ratatui::crossterm::event::{self, Event};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc;

/// The terminal's alternate screen, in raw mode; dropping it gives the terminal back as it was. So does a panic.
pub(super) struct Screen {
    /// Never dropped: were the terminal gone, it would say so on standard error, and panic if that is gone, too.
    terminal: ManuallyDrop<DefaultTerminal>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self { terminal: ManuallyDrop::new(terminal) }),
            Err(error) => {
                // It may have come half of the way.
                let _gone = ratatui::try_restore();
                Err(error)
            }
        }
    }

    /// Takes the terminal again from a shell that had it while we were stopped.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        // Only what was given back can be taken.
        ratatui::try_restore()?;
        self.terminal = ManuallyDrop::new(ratatui::try_init()?);
        Ok(())
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _gone = self.terminal.show_cursor();
        let _gone = ratatui::try_restore();
    }
}

/// What is typed, and changes of the size. Read by a thread of its own, which nothing can interrupt, and which ends with the
/// process: nor does it notice that the terminal is gone.
pub(super) fn events() -> io::Result<mpsc::UnboundedReceiver<Event>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let read = move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("keys".to_owned()).spawn(read)?;
    Ok(receiver)
}

/// Whether the terminal is gone. The kernel tells only those whose controlling terminal it was.
pub(super) fn is_gone() -> bool {
    rustix::termios::tcgetwinsize(io::stdout()).is_err()
}
