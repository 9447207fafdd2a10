//! The controlling terminal, and which process group it listens to.

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
    /// That of this process, if it has one.
    pub(crate) fn open() -> Option<Self> {
        File::options().read(true).write(true).open("/dev/tty").ok().map(|tty| Self { tty })
    }

    /// Whether this process's group is in the foreground.
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.tty) == Ok(getpgrp())
    }

    /// Whether it has hung up, or is another session's by now.
    pub(crate) fn is_gone(&self) -> bool {
        tcgetpgrp(&self.tty).is_err()
    }

    /// Whether a process group is in the foreground.
    pub(crate) fn listens_to(&self, group: process::Pid) -> bool {
        tcgetpgrp(&self.tty) == Ok(id(group))
    }

    /// Whether this process is a job of its own, in the foreground, and all it reads and writes is the terminal: then its
    /// command can have the terminal from the start. Another one of the same job (in a pipe, or the script that runs us) would
    /// be in the background from then on, so there the command gets it when it asks.
    pub(crate) fn is_all_ours(&self) -> bool {
        self.is_ours()
            && getpgrp() == Pid::this()
            && stdin().is_terminal()
            && stdout().is_terminal()
            && stderr().is_terminal()
    }

    /// Puts this process's group into the foreground.
    pub(crate) fn take(&self) {
        self.listen_to(getpgrp());
    }

    /// Puts this process's group into the foreground again, if `group`, or one that is gone, is there.
    pub(crate) fn take_back(&self, group: process::Pid) {
        let present = tcgetpgrp(&self.tty);
        if present.is_ok_and(|present| present == id(group) || killpg(present, None) == Err(Errno::ESRCH)) {
            self.take();
        }
    }

    /// Puts a process group into the foreground.
    pub(crate) fn give(&self, group: process::Pid) {
        self.listen_to(id(group));
    }

    fn listen_to(&self, group: Pid) {
        // A group that is gone cannot have it, and a terminal that is gone matters to nobody.
        let _given = tcsetpgrp(&self.tty, group);
    }
}

fn id(group: process::Pid) -> Pid {
    Pid::from_raw(group.as_raw_pid())
}
