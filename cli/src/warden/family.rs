//! A command and the processes it started.

use nix::unistd::{self, getpgid};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid, waitpid,
};

use super::descendants::{Descendants, is_childless};

/// An event in a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Its head was stopped by this signal.
    Stopped(i32),
    /// Its head continues after a stop.
    Continued,
    /// Its head has ended with this status, or with 128 and the number of the signal that ended it.
    Ended(u8),
    /// No process is left.
    Gone,
}

/// A command and the processes it started: a process group, and the processes that left the group.
#[derive(Debug)]
pub(super) struct Family {
    /// The command. Its id is that of the group. It is waited for last: until then the kernel gives the id to no other
    /// process.
    head: Pid,
    ended: bool,
    descendants: Descendants,
}

impl Family {
    /// The family of a child that leads its group. This process must have no other children.
    pub(super) fn of(head: Pid, descendants: Descendants) -> Self {
        Self { head, ended: false, descendants }
    }

    /// Sends a signal to the group, and to the children that have left it. Their descendants become children of this
    /// process once their parents are gone.
    pub(super) fn signal_all(&self, signal: Signal) {
        let _gone = kill_process_group(self.head, signal);
        let id = |process: Pid| unistd::Pid::from_raw(process.as_raw_pid());
        let outside = |child: &Pid| getpgid(Some(id(*child))) != Ok(id(self.head));
        for child in self.children().into_iter().filter(outside) {
            // The kernel gives its id to no other process before this one has waited for it.
            let _gone = kill_process(child, signal);
        }
    }

    pub(super) fn kill_all(&self) {
        let _gone = kill_process_group(self.head, Signal::KILL);
        let _gone = kill_process(self.head, Signal::KILL);
        self.descendants.kill_children(&[self.head]);
    }

    pub(super) fn signal_group(&self, signal: Signal) {
        let _gone = kill_process_group(self.head, signal);
    }

    /// The next event since the last call.
    pub(super) fn next_news(&mut self) -> Option<News> {
        for child in self.children().into_iter().filter(|child| *child != self.head) {
            let _status = waitpid(Some(child), WaitOptions::NOHANG);
        }
        if !self.ended { self.news_of_head() } else { self.news_of_the_others() }
    }

    fn news_of_head(&mut self) -> Option<News> {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(status)) = waitid(WaitId::Pid(self.head), ended) {
            self.ended = true;
            let code = status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
            return Some(News::Ended(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)));
        }
        let paused = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.head), paused).ok().flatten()?;
        if status.continued() { Some(News::Continued) } else { status.stopping_signal().map(News::Stopped) }
    }

    fn news_of_the_others(&self) -> Option<News> {
        if self
            .descendants
            .children()
            .map_or(true, |children| children.iter().any(|child| *child != self.head))
        {
            return None;
        }
        let _status = waitpid(Some(self.head), WaitOptions::NOHANG);
        is_childless().then_some(News::Gone)
    }

    /// The children that can be found right now.
    fn children(&self) -> Vec<Pid> {
        self.descendants.children().unwrap_or_default()
    }
}
