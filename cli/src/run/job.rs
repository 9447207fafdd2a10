//! The command, as the process sees it that holds the lock: orders to the warden, and reports from it.

use std::ffi::OsString;
use std::io::{self, stdin};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::process::Stdio;

use rustix::process::Pid;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::warden::protocol::{Order, Report, Wire, send_file};
use crate::warden::{Descendants, STUCK, warden_of};

/// A command that runs, or the rest of it.
pub(super) struct Job<'a> {
    descendants: &'a Descendants,
    warden: Child,
    wire: Wire<Report>,
    group: Option<Pid>,
    /// Children that this process had before the command. A shell that became zklock (`exec zklock run`) may leave some.
    /// They are not ended.
    others: Vec<Pid>,
}

impl<'a> Job<'a> {
    /// Starts a warden, which starts the command with these variables as the first order says. If the warden is killed,
    /// this process ends what is left.
    pub(super) async fn start(
        descendants: &'a Descendants,
        command: &[OsString],
        variables: Vec<(&'static str, Option<String>)>,
        begin: Order,
    ) -> io::Result<Self> {
        let others = descendants.children()?;
        let (ours, theirs) = UnixStream::pair()?;
        let mut warden = Command::from(warden_of(command));
        // The warden's standard input is the line to it. The command's standard input goes over that line.
        for (name, value) in variables {
            match value {
                Some(value) => warden.env(name, value),
                None => warden.env_remove(name),
            };
        }
        let warden = warden.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        send_file(&ours, stdin().as_fd())?;
        let wire = Wire::new(ours)?;
        wire.send(&begin);
        Ok(Self { descendants, warden, wire, group: None, others })
    }

    pub(super) fn send_order(&self, order: Order) {
        self.wire.send(&order);
    }

    /// The next report; `None` once the warden is gone. Cancel-safe.
    pub(super) async fn next_report(&mut self) -> Option<Report> {
        let report = self.wire.receive().await;
        if let Some(Report::Started { group }) = report {
            self.group = Pid::from_raw(group);
        }
        report
    }

    /// Kills a warden that does not do its duty. The kernel then kills the command.
    pub(super) fn kill_warden(&mut self) {
        let _gone = self.warden.start_kill();
    }

    pub(super) fn group(&self) -> Option<Pid> {
        self.group
    }

    /// Waits for children of others that have ended: this process may be the first one of a container.
    pub(super) fn reap_strangers(&mut self) {
        let warden = self.warden.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if warden.is_some() {
            let reaped = self.descendants.reap_strangers(warden);
            // The kernel may give its id to a process of the command.
            self.others.retain(|other| !reaped.contains(other));
        }
    }

    /// Returns when every process is gone. True if the warden saw to that. Calls `complain` if a process stays.
    pub(super) async fn wait_until_gone(mut self, complain: impl FnOnce()) -> bool {
        let kept = self.warden.wait().await.is_ok_and(|status| status.success());
        if !kept {
            let mut killing = pin!(self.descendants.kill_all(self.group, &self.others));
            if timeout(STUCK, &mut killing).await.is_err() {
                complain();
                killing.await;
            }
        }
        kept
    }
}
