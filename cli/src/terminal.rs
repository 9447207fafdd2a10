//! The controlling terminal, and the process group in its foreground.

use std::fs::File;
use std::io::{IsTerminal, stderr, stdin, stdout};

use nix::errno::Errno;
use nix::sys::signal::killpg;
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};
use rustix::process;

pub(crate) struct Terminal {
    tty: File,
}

impl Terminal {
    /// The terminal of this process, if it has one.
    pub(crate) fn open() -> Option<Self> {
        File::options().read(true).write(true).open("/dev/tty").ok().map(|tty| Self { tty })
    }

    /// Whether this process's group is in the foreground.
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.tty) == Ok(getpgrp())
    }

    /// Whether the terminal has hung up, or belongs to another session by now.
    pub(crate) fn is_gone(&self) -> bool {
        tcgetpgrp(&self.tty).is_err()
    }

    pub(crate) fn listens_to(&self, group: process::Pid) -> bool {
        tcgetpgrp(&self.tty) == Ok(id(group))
    }

    /// Whether this process is a job of its own in the foreground, and reads from and writes to nothing but the terminal.
    /// Then its command can have the terminal from the start.
    ///
    /// In a pipe or a script, other processes of the same job would be in the background from then on. There the command
    /// gets the terminal when it asks for it.
    pub(crate) fn is_all_ours(&self) -> bool {
        self.is_ours()
            && getpgrp() == Pid::this()
            && stdin().is_terminal()
            && stdout().is_terminal()
            && stderr().is_terminal()
    }

    pub(crate) fn take_for_us(&self) {
        self.listen_to(getpgrp());
    }

    /// Puts this process's group into the foreground again, if `group` or a group that is gone is there.
    pub(crate) fn take_back_from(&self, group: process::Pid) {
        let present = tcgetpgrp(&self.tty);
        if present.is_ok_and(|present| present == id(group) || killpg(present, None) == Err(Errno::ESRCH)) {
            self.take_for_us();
        }
    }

    pub(crate) fn give_to(&self, group: process::Pid) {
        self.listen_to(id(group));
    }

    fn listen_to(&self, group: Pid) {
        // It fails if the group or the terminal is gone. Then nobody needs the terminal.
        let _given = tcsetpgrp(&self.tty, group);
    }
}

fn id(group: process::Pid) -> Pid {
    Pid::from_raw(group.as_raw_pid())
}
