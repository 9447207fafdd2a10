//! The terminal while something is drawn on it.

use std::io;
use std::mem::ManuallyDrop;
use std::thread;

use ratatui::crossterm::event::{self, Event};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc;

/// The terminal's alternate screen, in raw mode. Dropping it restores the terminal. A panic does that, too.
pub(super) struct Screen {
    /// Never dropped. If the terminal is gone, its `drop` prints to standard error, and panics if that is gone, too.
    terminal: ManuallyDrop<DefaultTerminal>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self { terminal: ManuallyDrop::new(terminal) }),
            Err(error) => {
                // Half of the initialization may be done.
                let _gone = ratatui::try_restore();
                Err(error)
            }
        }
    }

    /// Takes the terminal again from a shell that had it while this process was stopped.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        // The initialization works only on a restored terminal.
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

/// Keys, and changes of the terminal's size. A thread of its own reads them. Nothing can interrupt it, and it does not
/// notice that the terminal is gone. It ends with the process.
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

/// Whether the terminal is gone. The kernel sends SIGHUP only if it was the controlling terminal.
pub(super) fn is_gone() -> bool {
    rustix::termios::tcgetwinsize(io::stdout()).is_err()
}
